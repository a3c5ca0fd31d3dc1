"""Models that answer in several hops: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.several_hops.browser_models import load_facts_model
from posym_companion.several_hops.gptj import mark_right_answers, run_with_edits, set_angles
from posym_companion.several_hops.hop_answers import answer_questions
from posym_companion.several_hops.hop_figure import facts_figure, facts_task, hops_figure
from posym_companion.several_hops.hop_models import hop_model
from posym_companion.several_hops.hop_questions import HOP_TASKS, LENGTHS, draw_hop_questions, write_hop_text
from posym_companion.several_hops.hop_scores import capture_layers, station_scores
from posym_companion.several_hops.judges.hop_length import reach
from posym_companion.several_hops.judges.hop_prompts import TABLE_3
from posym_companion.several_hops.judges.hop_seeds import seed_by_seed
from posym_companion.several_hops.judges.multihop import (
    best_checkpoint,
    classify_heads,
    learned_at,
    mean_scores,
    write_kinds,
)
from posym_companion.several_hops.number_letter_shortcuts import measure_counting_accuracy, reroute
from posym_companion.several_hops.programs import NONE, candidates

__all__ = [
    "HOP_TASKS",
    "LENGTHS",
    "NONE",
    "TABLE_3",
    "answer_questions",
    "best_checkpoint",
    "candidates",
    "capture_layers",
    "classify_heads",
    "draw_hop_questions",
    "facts_figure",
    "facts_task",
    "hop_model",
    "hops_figure",
    "learned_at",
    "load_facts_model",
    "mark_right_answers",
    "mean_scores",
    "measure_counting_accuracy",
    "reach",
    "reroute",
    "run_with_edits",
    "seed_by_seed",
    "set_angles",
    "station_scores",
    "write_hop_text",
    "write_kinds",
]

"""Models that answer in several hops: what is run, and what only it needs."""

from posym_companion.several_hops.browser_models import load_facts_model
from posym_companion.several_hops.gptj import mark_right_answers, run_with_edits, set_angles
from posym_companion.several_hops.hop_answers import answer_questions
from posym_companion.several_hops.hop_figure import facts_figure, facts_task, hops_figure
from posym_companion.several_hops.hop_models import hop_model
from posym_companion.several_hops.hop_questions import HOP_TASKS, LENGTHS, draw_hop_questions, write_hop_text
from posym_companion.several_hops.hop_scores import capture_layers, station_scores
from posym_companion.several_hops.number_letter_shortcuts import measure_counting_accuracy
from posym_companion.several_hops.programs import NONE, candidates

__all__ = [
    "HOP_TASKS",
    "LENGTHS",
    "NONE",
    "answer_questions",
    "candidates",
    "capture_layers",
    "draw_hop_questions",
    "facts_figure",
    "facts_task",
    "hop_model",
    "hops_figure",
    "load_facts_model",
    "mark_right_answers",
    "measure_counting_accuracy",
    "run_with_edits",
    "set_angles",
    "station_scores",
    "write_hop_text",
]

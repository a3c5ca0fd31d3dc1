"""Models that answer in several hops: what is run, and what only it needs."""

from posym_companion.several_hops.browser_models import load_facts_model
from posym_companion.several_hops.gptj import mark_right_answers, run_with_edits, set_angles
from posym_companion.several_hops.hop_figure import facts_figure, facts_task, hops_figure
from posym_companion.several_hops.hop_models import hop_model
from posym_companion.several_hops.hop_scores import capture_layers, station_scores
from posym_companion.several_hops.number_letter_shortcuts import measure_counting_accuracy
from posym_companion.several_hops.programs import candidates

__all__ = [
    "candidates",
    "capture_layers",
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
]

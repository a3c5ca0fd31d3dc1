"""Models that solve the task they are measured on: what is run, what only it needs, and ``judges`` of it."""

from posym_companion.solvers.areas import detection
from posym_companion.solvers.head_roles import CARRIES, NEEDED
from posym_companion.solvers.judges.head_removal import curve, language_advantages, removal_results
from posym_companion.solvers.judges.solver_heads import load_settings
from posym_companion.solvers.judges.task_solvers import solver_accuracy, solver_results, steps_to_learn
from posym_companion.solvers.prompt_roles import answer_pairs, patched_heads, silenced_heads

__all__ = [
    "CARRIES",
    "NEEDED",
    "answer_pairs",
    "curve",
    "detection",
    "language_advantages",
    "load_settings",
    "patched_heads",
    "removal_results",
    "silenced_heads",
    "solver_accuracy",
    "solver_results",
    "steps_to_learn",
]

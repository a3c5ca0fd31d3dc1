"""Models that solve the task they are measured on: what is run, what only it needs, and ``judges`` of it."""

from posym_companion.solvers.judges.solver_answers import answer_results, right_and_wrong
from posym_companion.solvers.judges.solver_heads import solvers
from posym_companion.solvers.judges.solver_roles import CARRIES, NEEDED
from posym_companion.solvers.judges.task_solvers import solver_accuracy, solver_results, steps_to_learn

__all__ = [
    "CARRIES",
    "NEEDED",
    "answer_results",
    "right_and_wrong",
    "solver_accuracy",
    "solver_results",
    "solvers",
    "steps_to_learn",
]

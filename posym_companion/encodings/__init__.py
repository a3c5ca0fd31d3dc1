"""Positional encodings compared: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.encodings.judges.atlas import (
    COLUMNS,
    EXPECTED,
    atlas_rows,
    atlas_table,
    level_without_order,
    study_result,
    tasks_result,
    unexpected,
)
from posym_companion.encodings.judges.encoding_optimisation import mean_sharpness, optimisation_results, stable_rate
from posym_companion.encodings.judges.encoding_study import (
    costs,
    deposit,
    largest_costs,
    orders,
    study,
    task_correlations,
)
from posym_companion.encodings.judges.encoding_tasks import done_accuracy, longest_context

__all__ = [
    "COLUMNS",
    "EXPECTED",
    "atlas_rows",
    "atlas_table",
    "costs",
    "deposit",
    "done_accuracy",
    "largest_costs",
    "level_without_order",
    "longest_context",
    "mean_sharpness",
    "optimisation_results",
    "orders",
    "stable_rate",
    "study",
    "study_result",
    "task_correlations",
    "tasks_result",
    "unexpected",
]

"""What stored results say about the papers' claims: one file an experiment, of the same name, and the ledger."""

from posym_companion.findings.atlas import (
    COLUMNS,
    atlas_rows,
    atlas_table,
    level_without_order,
    study_result,
    tasks_result,
)
from posym_companion.findings.binding_profile import binding_results
from posym_companion.findings.encoding_study import costs, deposit, largest_costs, orders, study, task_correlations
from posym_companion.findings.encoding_tasks import longest_context, threshold
from posym_companion.findings.finding import VERDICTS, Cases, Claim, Line, Measured, Row, Rule
from posym_companion.findings.frequency_control import (
    accuracy,
    accuracy_by_position,
    thresholds,
    u_index,
    windows,
)
from posym_companion.findings.hop_length import reach
from posym_companion.findings.hop_prompts import TABLE_3
from posym_companion.findings.ledger import ledger
from posym_companion.findings.multihop import best_checkpoint, kinds, learned_at, mean_scores, written
from posym_companion.findings.plane_profile import turning_angle

__all__ = [
    "COLUMNS",
    "TABLE_3",
    "VERDICTS",
    "Cases",
    "Claim",
    "Line",
    "Measured",
    "Row",
    "Rule",
    "accuracy",
    "accuracy_by_position",
    "atlas_rows",
    "atlas_table",
    "best_checkpoint",
    "binding_results",
    "costs",
    "deposit",
    "kinds",
    "largest_costs",
    "learned_at",
    "ledger",
    "level_without_order",
    "longest_context",
    "mean_scores",
    "orders",
    "reach",
    "study",
    "study_result",
    "task_correlations",
    "tasks_result",
    "threshold",
    "thresholds",
    "turning_angle",
    "u_index",
    "windows",
    "written",
]

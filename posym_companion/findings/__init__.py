"""What stored results say about the papers' claims: one file an experiment, of the same name, and the ledger."""

from posym_companion.findings.all_claims import ledger
from posym_companion.findings.atlas import (
    COLUMNS,
    EXPECTED,
    atlas_rows,
    atlas_table,
    level_without_order,
    study_result,
    tasks_result,
    unexpected,
)
from posym_companion.findings.binding_profile import binding_results, score_correlation
from posym_companion.findings.encoding_optimisation import mean_sharpness, optimisation_results, stable_rate
from posym_companion.findings.encoding_study import costs, deposit, largest_costs, orders, study, task_correlations
from posym_companion.findings.encoding_tasks import done_accuracy, longest_context
from posym_companion.findings.finding import VERDICTS, Cases, Claim, Line, Measured, Row, Rule, verdict_list
from posym_companion.findings.frequency_control import (
    accuracy,
    accuracy_by_position,
    thresholds,
    u_index,
    windows,
)
from posym_companion.findings.hop_length import reach
from posym_companion.findings.hop_prompts import TABLE_3
from posym_companion.findings.hop_seeds import seed_by_seed
from posym_companion.findings.later_claims import influence_ends, sum_correlation
from posym_companion.findings.multihop import best_checkpoint, kinds, learned_at, mean_scores, written
from posym_companion.findings.named_values import NAMED_VALUES, NamedValue, named_value
from posym_companion.findings.plane_profile import keeps_the_law, law_at_birth, turning_angle
from posym_companion.findings.random_weights import correlation_at_birth, layer_trend_at_birth
from posym_companion.findings.solver_answers import answer_results, right_and_wrong
from posym_companion.findings.solver_heads import solvers
from posym_companion.findings.solver_roles import CARRIES, NEEDED
from posym_companion.findings.task_solvers import solver_accuracy, solver_results, steps_to_learn

__all__ = [
    "CARRIES",
    "COLUMNS",
    "EXPECTED",
    "NAMED_VALUES",
    "NEEDED",
    "TABLE_3",
    "VERDICTS",
    "Cases",
    "Claim",
    "Line",
    "Measured",
    "NamedValue",
    "Row",
    "Rule",
    "accuracy",
    "accuracy_by_position",
    "answer_results",
    "atlas_rows",
    "atlas_table",
    "best_checkpoint",
    "binding_results",
    "correlation_at_birth",
    "costs",
    "deposit",
    "done_accuracy",
    "influence_ends",
    "keeps_the_law",
    "kinds",
    "largest_costs",
    "law_at_birth",
    "layer_trend_at_birth",
    "learned_at",
    "ledger",
    "level_without_order",
    "longest_context",
    "mean_scores",
    "mean_sharpness",
    "named_value",
    "optimisation_results",
    "orders",
    "reach",
    "right_and_wrong",
    "score_correlation",
    "seed_by_seed",
    "solver_accuracy",
    "solver_results",
    "solvers",
    "stable_rate",
    "steps_to_learn",
    "study",
    "study_result",
    "sum_correlation",
    "task_correlations",
    "tasks_result",
    "thresholds",
    "turning_angle",
    "u_index",
    "unexpected",
    "verdict_list",
    "windows",
    "written",
]

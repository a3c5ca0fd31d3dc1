"""Positional encodings compared: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.encodings.abilities import ability_table
from posym_companion.encodings.conditioning import WAYS, descent_steps, train_head
from posym_companion.encodings.curvature import Sharpness, sharpness
from posym_companion.encodings.head_playground import SPREADS, playground
from posym_companion.encodings.judges.atlas import (
    COLUMNS,
    EXPECTED,
    atlas_rows,
    level_without_order,
    study_result,
    tasks_result,
    unexpected,
    write_atlas,
)
from posym_companion.encodings.judges.encoding_optimisation import mean_sharpness, optimisation_results, stable_rate
from posym_companion.encodings.judges.encoding_study import (
    check_deposit,
    check_orders,
    largest_costs,
    load_study,
    removal_costs,
    task_correlations,
)
from posym_companion.encodings.judges.encoding_tasks import done_accuracy, longest_context
from posym_companion.encodings.knobs import LEVELS
from posym_companion.encodings.known_heads import QUESTIONS
from posym_companion.encodings.pointers import SCORED, pointed_ranks
from posym_companion.encodings.spectra import (
    averaged_kernel,
    condition_number,
    eigenvalues,
    kernel_product,
    majorisation,
    mixing_matrix,
    plane_grams,
    rope_kernels,
    rotated_gram,
    singular_values,
    toeplitz,
)
from posym_companion.encodings.witnesses import closest_symbolic

__all__ = [
    "COLUMNS",
    "EXPECTED",
    "LEVELS",
    "QUESTIONS",
    "SCORED",
    "SPREADS",
    "WAYS",
    "Sharpness",
    "ability_table",
    "atlas_rows",
    "averaged_kernel",
    "check_deposit",
    "check_orders",
    "closest_symbolic",
    "condition_number",
    "descent_steps",
    "done_accuracy",
    "eigenvalues",
    "kernel_product",
    "largest_costs",
    "level_without_order",
    "load_study",
    "longest_context",
    "majorisation",
    "mean_sharpness",
    "mixing_matrix",
    "optimisation_results",
    "plane_grams",
    "playground",
    "pointed_ranks",
    "removal_costs",
    "rope_kernels",
    "rotated_gram",
    "sharpness",
    "singular_values",
    "stable_rate",
    "study_result",
    "task_correlations",
    "tasks_result",
    "toeplitz",
    "train_head",
    "unexpected",
    "write_atlas",
]

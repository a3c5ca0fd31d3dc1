"""Positional encodings compared: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.encodings.abilities import ability_table
from posym_companion.encodings.curvature import Sharpness, sharpness
from posym_companion.encodings.judges.encoding_optimisation import mean_sharpness, optimisation_results, stable_rate
from posym_companion.encodings.judges.encoding_study import (
    check_deposit,
    check_orders,
    largest_costs,
    load_study,
    removal_costs,
    study_result,
    task_correlations,
)
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
    "QUESTIONS",
    "SCORED",
    "Sharpness",
    "ability_table",
    "averaged_kernel",
    "check_deposit",
    "check_orders",
    "closest_symbolic",
    "condition_number",
    "eigenvalues",
    "kernel_product",
    "largest_costs",
    "load_study",
    "majorisation",
    "mean_sharpness",
    "mixing_matrix",
    "optimisation_results",
    "plane_grams",
    "pointed_ranks",
    "removal_costs",
    "rope_kernels",
    "rotated_gram",
    "sharpness",
    "singular_values",
    "stable_rate",
    "study_result",
    "task_correlations",
    "toeplitz",
]

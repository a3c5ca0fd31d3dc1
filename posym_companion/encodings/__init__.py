"""Positional encodings compared: what is run, and what only it needs."""

from posym_companion.encodings.abilities import ability_table
from posym_companion.encodings.curvature import Sharpness, sharpness
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
    "closest_symbolic",
    "condition_number",
    "eigenvalues",
    "kernel_product",
    "majorisation",
    "mixing_matrix",
    "plane_grams",
    "pointed_ranks",
    "rope_kernels",
    "rotated_gram",
    "sharpness",
    "singular_values",
    "toeplitz",
]

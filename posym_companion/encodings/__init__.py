"""Positional encodings compared: what is run, and what only it needs."""

from posym_companion.encodings.abilities import ability_table
from posym_companion.encodings.curvature import Sharpness, sharpness
from posym_companion.encodings.known_heads import QUESTIONS
from posym_companion.encodings.pointers import SCORED
from posym_companion.encodings.spectra import (
    averaged_kernel,
    eigenvalues,
    kernel_product,
    majorisation,
    rope_kernels,
    singular_values,
)
from posym_companion.encodings.witnesses import closest_symbolic

__all__ = [
    "QUESTIONS",
    "SCORED",
    "Sharpness",
    "ability_table",
    "averaged_kernel",
    "closest_symbolic",
    "eigenvalues",
    "kernel_product",
    "majorisation",
    "rope_kernels",
    "sharpness",
    "singular_values",
]

"""Positional and symbolic attention heads in transformers with rotary position encodings."""

from posym_core.cross_logits import cross_logits
from posym_core.exclusion import Exclusion, exclusion
from posym_core.rope import rope_angles, rotate
from posym_core.scores import SwapScores, swap_scores

__version__ = "0.1.0"

__all__ = [
    "Exclusion",
    "SwapScores",
    "cross_logits",
    "exclusion",
    "rope_angles",
    "rotate",
    "swap_scores",
]

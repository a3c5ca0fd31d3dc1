"""Heads of language models as they are: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.language_models.judges.binding_profile import binding_results, score_correlation
from posym_companion.language_models.judges.plane_profile import keeps_the_law, law_with_random_weights, turning_angle
from posym_companion.language_models.judges.random_weights import (
    correlation_with_random_weights,
    layer_trend_with_random_weights,
)

__all__ = [
    "binding_results",
    "correlation_with_random_weights",
    "keeps_the_law",
    "law_with_random_weights",
    "layer_trend_with_random_weights",
    "score_correlation",
    "turning_angle",
]

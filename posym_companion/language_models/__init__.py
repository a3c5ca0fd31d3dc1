"""Heads of language models as they are: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.language_models.judges.binding_profile import binding_results, score_correlation
from posym_companion.language_models.judges.layer_doubts import thirds_by_doubt
from posym_companion.language_models.judges.origin_patching import followed, followed_by_head, patching_result
from posym_companion.language_models.judges.origins import by_thirds, origins_result, over_heads, part_share
from posym_companion.language_models.judges.plane_profile import keeps_the_law, law_at_birth, turning_angle
from posym_companion.language_models.judges.random_weights import correlation_at_birth, layer_trend_at_birth

__all__ = [
    "binding_results",
    "by_thirds",
    "correlation_at_birth",
    "followed",
    "followed_by_head",
    "keeps_the_law",
    "law_at_birth",
    "layer_trend_at_birth",
    "origins_result",
    "over_heads",
    "part_share",
    "patching_result",
    "score_correlation",
    "thirds_by_doubt",
    "turning_angle",
]

"""Tensors in, numbers out: everything that is computed from the cross-logit matrix ``C``."""

from posym_core.metrics.blocks import Swaps
from posym_core.metrics.cube_parts import latin_orders, shares_of, variance_parts
from posym_core.metrics.exclusion_bound import Exclusion, exclusion
from posym_core.metrics.frequencies import (
    FrequencyShares,
    dirichlet_kernel,
    frequency_shares,
    frequency_use,
    mean_frequency,
)
from posym_core.metrics.logit_matrix import cross_logits
from posym_core.metrics.permutations import (
    BlockTable,
    PermutationScores,
    block_table,
    cross_scores,
    permutation_scores,
    random_orders,
    swap_orders,
)
from posym_core.metrics.rope import rope_angles, rotate
from posym_core.metrics.score_geometry import exchange_scores, pair_scores, purity, random_swaps
from posym_core.metrics.stats import (
    Estimate,
    head_correlation,
    mean_difference,
    mean_interval,
    statistic_interval,
    student_interval,
)
from posym_core.metrics.swaps import SwapScores, swap_scores
from posym_core.metrics.trends import (
    HeadTrends,
    behaviour_and_use,
    head_trends,
    layer_trend,
    local_layers,
    slow_energy,
)

__all__ = [
    "BlockTable",
    "Estimate",
    "Exclusion",
    "FrequencyShares",
    "HeadTrends",
    "PermutationScores",
    "SwapScores",
    "Swaps",
    "behaviour_and_use",
    "block_table",
    "cross_logits",
    "cross_scores",
    "dirichlet_kernel",
    "exchange_scores",
    "exclusion",
    "frequency_shares",
    "frequency_use",
    "head_correlation",
    "head_trends",
    "latin_orders",
    "layer_trend",
    "local_layers",
    "mean_difference",
    "mean_frequency",
    "mean_interval",
    "pair_scores",
    "permutation_scores",
    "purity",
    "random_orders",
    "random_swaps",
    "rope_angles",
    "rotate",
    "shares_of",
    "slow_energy",
    "statistic_interval",
    "student_interval",
    "swap_orders",
    "swap_scores",
    "variance_parts",
]

"""Tensors in, numbers out: everything that is computed from the cross-logit matrix ``C``."""

from posym_core.metrics.blocks import BlockLayout
from posym_core.metrics.cube_parts import draw_latin_square, normalize_parts, split_variance
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
    cross_scores,
    draw_orders,
    list_swap_orders,
    make_block_table,
    permutation_scores,
)
from posym_core.metrics.rope import rope_angles, rotate
from posym_core.metrics.score_geometry import classify_purity, exchange_scores, pair_scores, simulate_random_swaps
from posym_core.metrics.stats import (
    Estimate,
    head_correlation,
    mean_difference,
    mean_interval,
    statistic_interval,
)
from posym_core.metrics.swaps import SwapScores, swap_scores
from posym_core.metrics.trends import (
    HeadTrends,
    find_local_layers,
    measure_behaviour_and_use,
    measure_head_trends,
    measure_layer_trend,
    slow_energy,
)

__all__ = [
    "BlockLayout",
    "BlockTable",
    "Estimate",
    "Exclusion",
    "FrequencyShares",
    "HeadTrends",
    "PermutationScores",
    "SwapScores",
    "classify_purity",
    "cross_logits",
    "cross_scores",
    "dirichlet_kernel",
    "draw_latin_square",
    "draw_orders",
    "exchange_scores",
    "exclusion",
    "find_local_layers",
    "frequency_shares",
    "frequency_use",
    "head_correlation",
    "list_swap_orders",
    "make_block_table",
    "mean_difference",
    "mean_frequency",
    "mean_interval",
    "measure_behaviour_and_use",
    "measure_head_trends",
    "measure_layer_trend",
    "normalize_parts",
    "pair_scores",
    "permutation_scores",
    "rope_angles",
    "rotate",
    "simulate_random_swaps",
    "slow_energy",
    "split_variance",
    "statistic_interval",
    "swap_scores",
]

"""Tensors in, numbers out: everything that is computed from the cross-logit matrix ``C``."""

from posym_core.metrics.areas import detection, detection_difference
from posym_core.metrics.exclusion_bound import Exclusion, exclusion
from posym_core.metrics.frequencies import (
    FrequencyShares,
    dirichlet_kernel,
    frequency_shares,
    frequency_use,
    mean_frequency,
)
from posym_core.metrics.logit_matrix import cross_logits
from posym_core.metrics.lost_orders import Inversions, far_preferred, inversions
from posym_core.metrics.pairs import Swaps
from posym_core.metrics.permutations import (
    BlockTable,
    PermutationScores,
    block_table,
    cross_scores,
    permutation_scores,
    random_orders,
    swap_orders,
)
from posym_core.metrics.plane_geometry import alignment, coherence, concentration, crest
from posym_core.metrics.rope import rope_angles, rotate
from posym_core.metrics.score_geometry import exchange_scores, pair_scores, purity, random_swaps
from posym_core.metrics.spectra import (
    averaged_kernel,
    condition_number,
    eigenvalues,
    kernel_product,
    majorisation,
    mixing,
    plane_grams,
    rope_kernels,
    rotated_gram,
    singular_values,
    toeplitz,
)
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
    "Inversions",
    "PermutationScores",
    "SwapScores",
    "Swaps",
    "alignment",
    "averaged_kernel",
    "behaviour_and_use",
    "block_table",
    "coherence",
    "concentration",
    "condition_number",
    "crest",
    "cross_logits",
    "cross_scores",
    "detection",
    "detection_difference",
    "dirichlet_kernel",
    "eigenvalues",
    "exchange_scores",
    "exclusion",
    "far_preferred",
    "frequency_shares",
    "frequency_use",
    "head_correlation",
    "head_trends",
    "inversions",
    "kernel_product",
    "layer_trend",
    "local_layers",
    "majorisation",
    "mean_difference",
    "mean_frequency",
    "mean_interval",
    "mixing",
    "pair_scores",
    "permutation_scores",
    "plane_grams",
    "purity",
    "random_orders",
    "random_swaps",
    "rope_angles",
    "rope_kernels",
    "rotate",
    "rotated_gram",
    "singular_values",
    "slow_energy",
    "statistic_interval",
    "student_interval",
    "swap_orders",
    "swap_scores",
    "toeplitz",
]

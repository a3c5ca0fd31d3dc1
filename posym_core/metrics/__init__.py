"""Tensors in, numbers out: everything that is computed from the cross-logit matrix ``C``."""

from posym_core.metrics._blocks import BlockLayout, measure_block_attention
from posym_core.metrics._cube_parts import (
    AXES,
    PARTS,
    arrange_cube,
    check_read,
    compute_block_logits,
    draw_latin_square,
    measure_prompt_variance,
    normalize_parts,
    split_variance,
)
from posym_core.metrics._exclusion_bound import Exclusion, exclusion
from posym_core.metrics._frequencies import (
    FrequencyShares,
    dirichlet_kernel,
    frequency_shares,
    frequency_use,
    mean_frequency,
)
from posym_core.metrics._heads import Heads
from posym_core.metrics._logit_matrix import cross_logits
from posym_core.metrics._permutations import (
    BlockTable,
    PermutationScores,
    draw_orders,
    list_swap_orders,
    permute_blocks,
    score_cross_logits,
    score_permutations,
    tabulate_blocks,
)
from posym_core.metrics._rope import Pairing, rope_angles, rotate, rotate_unchecked, split_planes
from posym_core.metrics._score_geometry import classify_purity, score_exchange, score_pair
from posym_core.metrics._stats import (
    DRAWS,
    Estimate,
    Resample,
    average_prompts,
    correlate_heads,
    correlate_rows,
    mean_interval,
    statistic_interval,
    student_margin,
)
from posym_core.metrics._swaps import SwapScores, score_swaps, swap_scores
from posym_core.metrics._trends import LayerContrast, contrast_layers, measure_layer_trend

__all__ = [
    "AXES",
    "DRAWS",
    "PARTS",
    "BlockLayout",
    "BlockTable",
    "Estimate",
    "Exclusion",
    "FrequencyShares",
    "Heads",
    "LayerContrast",
    "Pairing",
    "PermutationScores",
    "Resample",
    "SwapScores",
    "arrange_cube",
    "average_prompts",
    "check_read",
    "classify_purity",
    "compute_block_logits",
    "contrast_layers",
    "correlate_heads",
    "correlate_rows",
    "cross_logits",
    "dirichlet_kernel",
    "draw_latin_square",
    "draw_orders",
    "exclusion",
    "frequency_shares",
    "frequency_use",
    "list_swap_orders",
    "mean_frequency",
    "mean_interval",
    "measure_block_attention",
    "measure_layer_trend",
    "measure_prompt_variance",
    "normalize_parts",
    "permute_blocks",
    "rope_angles",
    "rotate",
    "rotate_unchecked",
    "score_cross_logits",
    "score_exchange",
    "score_pair",
    "score_permutations",
    "score_swaps",
    "split_planes",
    "split_variance",
    "statistic_interval",
    "student_margin",
    "swap_scores",
    "tabulate_blocks",
]

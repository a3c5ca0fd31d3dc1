"""What metrics refuse, in words that name the rule, the value and the way out; bad numbers are in ``tests/fuzz``."""

import math

import numpy as np
import torch
from planted_scores import planted
from refusals import refuse_each

from posym_companion import score_statistics as companion
from posym_core.metrics import _cube_parts as cubes
from posym_core.metrics import _stats as stats
from posym_core.metrics import (
    contrast_layers,
    cross_logits,
    dirichlet_kernel,
    exclusion,
    frequency_shares,
    rope_angles,
    rotate,
    score_exchange,
    swap_scores,
)
from posym_core.metrics._blocks import BlockLayout
from posym_core.metrics._heads import Heads

ANGLES, ONE = rope_angles(8), torch.tensor([1.0])
X, LARGE = torch.randn(3, 4), torch.tensor([3e38, 3e38])
QUERY, KEYS = torch.randn(8).double(), torch.randn(21, 8).double()
C, PLACE = torch.zeros(2, 4, 4), torch.tensor([1, 3])
POSITIONAL, SYMBOLIC = planted()
HALF, COLUMN = np.arange(12) < 6, POSITIONAL[:, 0, 0]
NOTHING = torch.full((2, 4, 1), math.nan)


def swapped(**options):
    return lambda: swap_scores(QUERY, KEYS, ANGLES, **options)


def read_at(place):
    heads = Heads(query=QUERY, keys=KEYS, angles=ANGLES)
    return lambda: cubes.compute_block_logits(heads, BlockLayout(start=0, block_length=3, blocks=2), read=place)


test_heads_and_blocks = refuse_each(
    (lambda: rope_angles(3), "positive even number, one plane per two dimensions; got 3"),
    (lambda: rope_angles(4, -1.0), "base must be a positive finite number; got -1"),
    (lambda: rotate(X, 1, torch.ones(3)), r"angles must have shape \[2\].*got \(3,\).*partial rotary"),
    (lambda: rotate(X, 1, ONE.expand(2), pairing="pairs"), "pairing must be one of 'halves', 'neighbours'; got 'pai"),
    (lambda: rotate(X.long(), 1, ONE.expand(2)), "x must be float32 or float64; got torch.int64. Convert", TypeError),
    (lambda: rotate(LARGE, 1.0, ONE), r"turned x may reach 3\.0e\+38, but torch.float32 holds .*, or float64"),
    (lambda: cross_logits(QUERY, KEYS[0], ANGLES), r"keys \[..., key, dim\]; got \(8,\) and \(8,\)"),
    (lambda: cross_logits(QUERY, KEYS.float(), ANGLES), "share dtype and device"),
    (lambda: frequency_shares(QUERY.float() * 1e10, KEYS.float() * 1e10, ANGLES), "squares of logits may reach"),
    (lambda: dirichlet_kernel(ANGLES, 0), "positions must be a whole number of at least 1; got 0"),
    (lambda: exclusion(torch.zeros(3, 4)), "as many contents as positions; got"),
    (lambda: exclusion(torch.tensor([[1e20, 0.0], [0.0, 0.0]])), "squares of differences in C may reach"),
    (swapped(blocks=1), r"blocks must be .* of at least 2 \(there is nothing to swap otherwise\); got 1"),
    (swapped(start=19), "1 keys from start=19 to the query's own hold 1 of length 1; pass a smaller start"),
    (swapped(block_length=5, blocks=5), "blocks cover 25 keys from start=0, but only 20 precede .* pass blocks=4"),
    (swapped(tau=0.0), "tau must be above 0; got 0.0"),
    (swapped(eps=-1e-9), "eps must be 0 or a positive finite number; got -1e-09"),
    (swapped(visible=torch.zeros(21, dtype=torch.bool)), "at least one key to see"),
    (swapped(visible=torch.ones(20, dtype=torch.bool)), r"visible must broadcast to \(21,\)"),
    (read_at(3), r"read is the offset of a key within its block of 3; got 3\. Pass 0 to 2"),
    (lambda: cubes.split_variance(X), r"must have shape \[\.\.\., symbol, origin, place\]; got \(3, 4\)"),
    (lambda: score_exchange(C, PLACE[:1], PLACE), r"first must be one place for each \(2,\) of C's heads; got shape"),
)  # fmt: skip


test_statistics = refuse_each(
    (lambda: stats.correlate_heads(POSITIONAL[0], SYMBOLIC[0]), r"shape \[prompt, layer, head\].*got \(10, 4\)"),
    (lambda: stats.correlate_heads(NOTHING, NOTHING), "not all the same; 0 of 4 heads have one"),
    (lambda: stats.mean_interval([]), "a mean needs at least one value; got none"),
    (lambda: stats.mean_interval(POSITIONAL[:, 0]), r"^values must be independent values .*; got shape \(12, 4\). Tak"),
    (lambda: stats.statistic_interval(np.mean, COLUMN), r"^scores .* with at least one of each; got \(12,.*layers use"),
    (lambda: stats.Resample([3, 0], over="prompts", draws=10, seed=0), "drawn where there are any; got samples of 3,"),
    (lambda: contrast_layers(POSITIONAL, split=10), "between 1 and 9; got 10"),
    (lambda: companion.student_interval(POSITIONAL[:1, 0]), r"two or more values to a mean; got values of shape \(1,"),
)  # fmt: skip

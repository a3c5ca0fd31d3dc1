"""A pair puts a head on or outside the unit circle of its scores; one input of several pairs need not."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from posym_core.metrics._score_geometry import pair_scores

TAU = 1e-4
C = np.array([[6.0, 6, 0], [0, 0, 0], [6, 0, 0]])


def test_one_input_can_lie_inside_though_each_of_its_pairs_does_not():
    attention = np.exp(C.diagonal()) / np.exp(C.diagonal()).sum()
    scores, contrast = [], []
    for i, j in itertools.combinations(range(3), 2):
        swapped = np.exp([C[j, i], C[i, j]])  # contents i and j have changed places; the pair's direction needs no sum
        angles = (torch.tensor(np.arctan2(y, x)) for x, y in (attention[[i, j]], swapped))
        scores.append([float(x) for x in pair_scores(*angles)])
        contrast.append(abs(attention[i] - attention[j]))
    pairs, weights = np.array(scores), np.exp((np.array(contrast) - max(contrast)) / TAU)
    positional, symbolic = weights @ pairs / weights.sum()
    np.testing.assert_allclose([positional, symbolic], 0.502, atol=5e-4)
    assert positional**2 + symbolic**2 < 0.51
    counted = weights > 0.5  # the pairs that the score looks at
    assert ((pairs[counted] ** 2).sum(1) >= 1 - 1e-9).all()

"""Trends of heads are those of literal loops."""

import math

import numpy as np
import pytest
from scipy import stats

from posym_core.metrics import (
    find_local_layers,
    measure_behaviour_and_use,
    measure_layer_trend,
    rope_angles,
)

PROMPTS, LAYERS, HEADS, PLANES = 6, 8, 4, 8
ANGLES = np.tile(rope_angles(2 * PLANES).numpy(), (LAYERS, 1))


def planted(seed=0):
    """Early layers positional and fast, late ones symbolic and slow, with noise."""
    generator = np.random.default_rng(seed)
    depth = np.linspace(0, 1, LAYERS)[:, None] + 0.05 * generator.standard_normal((LAYERS, HEADS))
    noise = 0.02 * generator.standard_normal((2, PROMPTS, LAYERS, HEADS))
    peak = depth[..., None] * (PLANES - 1) - np.arange(PLANES)
    energy = np.exp(-(peak**2)) * (1 + 0.1 * generator.random((PROMPTS, LAYERS, HEADS, PLANES)))
    return 1 - depth + noise[0], depth + noise[1], energy


def test_behaviour_and_use_are_those_of_a_loop_and_still_planes_do_not_count():
    positional, symbolic, energy = planted(2)
    angles, energy = ANGLES.copy(), energy[0]
    angles[:, -2:] = 0
    energy[1, 2] = 0
    behaviour, use = measure_behaviour_and_use(positional, symbolic, energy, angles)
    for layer, head in np.ndindex(LAYERS, HEADS):
        gap = sum(positional[p, layer, head] - symbolic[p, layer, head] for p in range(PROMPTS)) / PROMPTS
        assert behaviour[0, layer, head] == pytest.approx(gap)
        weights = [energy[layer, head, k] for k in range(PLANES - 2)]
        if sum(weights) == 0:
            assert math.isnan(use[0, layer, head])
            continue
        mean = sum(w * math.log(angles[layer, k]) for k, w in enumerate(weights)) / sum(weights)
        assert use[0, layer, head] == pytest.approx(mean)


def test_a_trend_of_some_layers_keeps_the_halves_of_the_whole():
    positional, _, _ = planted(4)
    layers = np.array([1, 2, 3, 6])
    found = measure_layer_trend(positional, layers, draws=20)
    mean = positional.mean(0)
    assert found.early.value == pytest.approx(np.median(mean[1:4]))
    assert found.late.value == pytest.approx(np.median(mean[6]))
    assert found.p == pytest.approx(stats.mannwhitneyu(mean[1:4].ravel(), mean[6]).pvalue)


def test_local_layers_are_the_fast_ones():
    """Fast: from half the fastest slowest angle on; planes that do not rotate tell nothing, nor layers of none else."""
    angles = np.stack([[1.0, 0.01], [1.0, 0.0051], [1.0, 0.005], [1.0, 0.0049]])
    assert find_local_layers(angles).tolist() == [0, 1, 2]
    assert find_local_layers(ANGLES).tolist() == list(range(LAYERS))
    partial = np.concatenate([angles, np.zeros((4, 3))], 1)
    partial[1] = 0
    assert find_local_layers(partial).tolist() == [0, 2]
    assert find_local_layers(np.zeros((2, 3))).tolist() == []

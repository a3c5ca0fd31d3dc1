"""Trends of heads: planted ones are found, numbers are those of literal loops, and what is undefined is None."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from posym_core.metrics import (
    find_local_layers,
    measure_behaviour_and_use,
    measure_head_trends,
    measure_layer_trend,
    rope_angles,
)
from posym_core.metrics._trends import slow_energy

PROMPTS, LAYERS, HEADS, PLANES = 6, 8, 4, 8
ANGLES = np.tile(rope_angles(2 * PLANES).numpy(), (LAYERS, 1))
LOCAL = np.arange(LAYERS) % 4 != 3


def planted(seed=0):
    """Early layers positional and fast, late ones symbolic and slow, with noise."""
    generator = np.random.default_rng(seed)
    depth = np.linspace(0, 1, LAYERS)[:, None] + 0.05 * generator.standard_normal((LAYERS, HEADS))
    noise = 0.02 * generator.standard_normal((2, PROMPTS, LAYERS, HEADS))
    peak = depth[..., None] * (PLANES - 1) - np.arange(PLANES)
    energy = np.exp(-(peak**2)) * (1 + 0.1 * generator.random((PROMPTS, LAYERS, HEADS, PLANES)))
    return 1 - depth + noise[0], depth + noise[1], energy


def test_planted_trends_are_found():
    positional, symbolic, energy = planted()
    found = measure_head_trends(positional, symbolic, energy, ANGLES, tokens=50, local=LOCAL, draws=200)
    assert found.correlation.high < -0.9
    assert found.frequency_law.low > 0.9
    assert found.positional_local.low > 0 > found.symbolic_local.high
    assert found.positional_global.value > 0 > found.symbolic_global.value
    alike = measure_head_trends(positional, symbolic, np.ones_like(energy), ANGLES, tokens=50, local=LOCAL, draws=20)
    assert alike.frequency_law is None
    slow = (ANGLES[0] * 50 < 2 * math.pi / 8).mean()
    assert alike.slow_energy.value == alike.slow_energy.low == alike.slow_energy.high == pytest.approx(slow)


def test_units_of_energy_and_tensors_make_no_difference():
    positional, symbolic, energy = planted(1)
    units = np.random.default_rng(0).uniform(0.1, 10, (PROMPTS, LAYERS, HEADS, 1))
    options = {"tokens": 50, "local": LOCAL, "draws": 20}
    one = measure_head_trends(positional, symbolic, energy, ANGLES, **options)
    other = measure_head_trends(*map(torch.as_tensor, (positional, symbolic, units * energy, ANGLES)), **options)
    assert one.frequency_law.value == pytest.approx(other.frequency_law.value)
    assert one.slow_energy.value == pytest.approx(other.slow_energy.value)


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


def test_slow_energy_is_that_of_a_loop():
    _, _, energy = planted(3)
    energy = energy[0]
    energy[0, 0] = np.nan
    found = slow_energy(energy, ANGLES, 50)
    assert math.isnan(found[0, 0])
    for layer, head in list(np.ndindex(LAYERS, HEADS))[1:]:
        slow = sum(energy[layer, head, k] for k in range(PLANES) if ANGLES[layer, k] * 50 < math.pi / 4)
        assert found[layer, head] == pytest.approx(slow / energy[layer, head].sum())


def test_a_plane_is_slow_below_an_eighth_of_a_turn_over_the_prompt():
    limit = 2 * math.pi / 8 / 50
    angles = np.array([[1.3 * limit, 1.001 * limit, 0.999 * limit, 0.0]])
    for plane, slow in enumerate((0, 0, 1, 1)):
        assert slow_energy(np.eye(4)[plane][None, None], angles, 50) == slow


def test_a_layer_is_local_from_half_the_fastest_slowest_angle_on():
    angles = np.stack([[1.0, 0.01], [1.0, 0.0051], [1.0, 0.005], [1.0, 0.0049]])
    assert find_local_layers(angles).tolist() == [0, 1, 2]
    assert find_local_layers(angles[:1]).tolist() == [0]


def test_a_trend_of_some_layers_keeps_the_halves_of_the_whole():
    positional, _, _ = planted(4)
    layers = np.array([1, 2, 3, 6])
    found = measure_layer_trend(positional, layers, draws=20)
    mean = positional.mean(0)
    assert found.early.value == pytest.approx(np.median(mean[1:4]))
    assert found.late.value == pytest.approx(np.median(mean[6]))
    assert found.p == pytest.approx(stats.mannwhitneyu(mean[1:4].ravel(), mean[6]).pvalue)


def test_local_layers_are_the_fast_ones():
    slower = np.where(np.arange(LAYERS)[:, None] % 4 == 3, rope_angles(2 * PLANES, 1e6).numpy(), ANGLES)
    assert find_local_layers(slower).tolist() == [0, 1, 2, 4, 5, 6]
    assert find_local_layers(ANGLES).tolist() == list(range(LAYERS))
    # Planes that do not rotate tell nothing, and a layer of none that does is global.
    partial = np.concatenate([slower, np.zeros((LAYERS, 3))], 1)
    assert find_local_layers(partial).tolist() == [0, 1, 2, 4, 5, 6]
    partial[1] = 0
    assert find_local_layers(partial).tolist() == [0, 2, 4, 5, 6]
    assert find_local_layers(np.zeros((2, 3))).tolist() == []


def test_what_was_asked_wrongly_is_not_taken_for_undefined():
    positional, symbolic, energy = planted(6)

    def ask(tokens=50, local=LOCAL, draws=20):
        return measure_head_trends(positional, symbolic, energy, ANGLES, tokens=tokens, local=local, draws=draws)

    for options, message in (
        ({"draws": 0}, "draws must be a whole number of at least 1; got 0"),
        ({"tokens": 0}, "tokens must be a whole number of at least 1; got 0"),
        ({"local": LOCAL[1:]}, r"an entry for each of the 8 layers; got \(7,\) and \(8, 8\)"),
        ({"local": np.where(LOCAL, 1, np.nan)}, "local must be booleans, or 0 and 1; 2 of 8 entries are neither"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(**options)
    assert ask(local=LOCAL.astype(int)) == ask()


def test_what_is_not_defined_is_none():
    positional, symbolic, energy = planted(5)
    options = {"tokens": 50, "draws": 20}
    everywhere = measure_head_trends(positional, symbolic, 0 * energy, ANGLES, local=np.zeros(LAYERS, bool), **options)
    assert everywhere.positional_local is everywhere.symbolic_local is None
    assert everywhere.frequency_law is everywhere.slow_energy is None
    assert everywhere.correlation is not None
    positional[:, 0, 0] = np.nan
    assert measure_head_trends(positional, symbolic, energy, ANGLES, local=LOCAL, **options).correlation is None

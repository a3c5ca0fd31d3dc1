"""Early layers against late ones, and layers with fast planes, by literal means and medians."""

import numpy as np
import pytest
from planted_scores import planted

from posym_companion.claims.frequencies import measure_behaviour_and_use
from posym_companion.claims.language_model import find_local_layers
from posym_core.metrics import contrast_layers, measure_layer_trend, rope_angles


def test_contrast_is_the_difference_of_medians():
    x, _ = planted()
    x[:, :5] += 3
    found, heads = contrast_layers(x), x.mean(0)
    assert (found.early, found.late) == pytest.approx((np.median(heads[:5]), np.median(heads[5:])))
    assert found.difference.value == pytest.approx(found.early - found.late)
    assert 0 < found.difference.low < found.difference.value < found.difference.high
    nothing = contrast_layers(planted(seed=3)[0]).difference
    assert nothing.low < 0 < nothing.high


def test_a_trend_of_some_layers_keeps_the_halves_of_the_whole():
    x, _ = planted()
    found, mean = measure_layer_trend(x, np.array([1, 2, 3, 6]), draws=20), x.mean(0)
    assert (found.early, found.late) == pytest.approx((np.median(mean[1:4]), np.median(mean[6])))


def test_behaviour_and_use_are_means_and_still_planes_do_not_count():
    (x, y), angles = planted(), np.tile(rope_angles(8).numpy(), (10, 1))
    energy = np.random.default_rng(0).random((10, 4, 4))
    angles[:, 3], energy[1, 2] = 0, 0
    behaviour, use = measure_behaviour_and_use(x, y, energy, angles)
    np.testing.assert_allclose(behaviour[0], (x - y).mean(0))
    log = np.log(angles[0, :3])
    expected = [[np.average(log, weights=head[:3]) if head.any() else np.nan for head in layer] for layer in energy]
    np.testing.assert_allclose(use[0], expected)


def test_local_layers_are_the_fast_ones():
    """Fast: from half the fastest slowest angle on; planes that do not rotate tell nothing, nor layers of none else."""
    angles = np.stack([[1.0, 0.01], [1.0, 0.0051], [1.0, 0.005], [1.0, 0.0049]])
    assert find_local_layers(angles).tolist() == [0, 1, 2]
    partial = np.concatenate([angles, np.zeros((4, 3))], 1)
    partial[1] = 0
    assert find_local_layers(partial).tolist() == [0, 2]
    assert find_local_layers(np.zeros((2, 3))).tolist() == []


def test_late_layers_are_those_behind_the_middle():
    x = np.random.default_rng(0).random((3, 4, 5))
    found = measure_layer_trend(x, np.array([0, 2]), draws=10)
    assert found.late == pytest.approx(np.median(x[:, 2].mean(0)))

import numpy as np
import pytest
from planted_scores import planted

from posym_companion import score_statistics
from posym_core.metrics import _contrasts as contrasts

# Of this seed the first draw has one of two prompts twice.
ONE_SIDED = 0


def test_contrast_is_the_difference_of_medians():
    x, _ = planted()
    x[:, :5] += 3
    found = contrasts.contrast_layers(x)
    heads = x.mean(0)
    assert found.early.value == pytest.approx(np.median(heads[:5]))
    assert found.late.value == pytest.approx(np.median(heads[5:]))
    assert found.difference.value == pytest.approx(found.early.value - found.late.value)
    assert found.difference.excludes(0)
    assert found.p < 1e-4
    assert not contrasts.contrast_layers(planted(seed=3)[0]).difference.excludes(0)


def test_layers_in_random_order():
    x, _ = planted(layers=12)
    trend = np.linspace(-1, 1, 12)

    def slope(heads):
        return float(trend @ heads.mean(1))

    nothing = score_statistics.permute_layers(slope, x, draws=500)
    assert nothing.value == pytest.approx(trend @ x.mean((0, 2)))
    assert nothing.p > 0.05
    found = score_statistics.permute_layers(slope, x + 2 * trend[None, :, None], draws=500)
    assert found.p == pytest.approx(1 / 501)
    assert score_statistics.permute_layers(lambda heads: float(heads.mean()), x, draws=50).p == 1
    assert score_statistics.permute_layers(slope, x, draws=50) == score_statistics.permute_layers(slope, x, draws=50)


def test_random_orders_of_layers_are_as_rare_as_they_say():
    """Without an effect, p below a tenth must turn up about a tenth of the time, however alike a layer's heads are."""
    generator = np.random.default_rng(2)
    trend = np.linspace(-1, 1, 8)
    p = [
        score_statistics.permute_layers(
            lambda heads: float(trend @ heads.mean(1)),
            np.repeat(generator.normal(size=(1, 8, 1)), 4, 2) + 0.01 * generator.normal(size=(1, 8, 4)),
            draws=99,
        ).p
        for _ in range(300)
    ]
    assert 0.06 <= np.mean(np.array(p) <= 0.1) <= 0.14


def median_difference(heads):
    return float(np.median(heads[:5]) - np.median(heads[5:]))


def test_a_statistic_that_is_not_a_number_has_no_p():
    """Comparisons with NaN are all false, so that it once looked rarer than any order."""
    x, _ = planted()
    x[:, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"it is nan as they stand and finite in 0 of 50 orders, and 1 of 40 heads"):
        score_statistics.permute_layers(median_difference, x, draws=50)
    assert score_statistics.permute_layers(lambda heads: float(np.nanmean(heads)), x, draws=50).p == 1
    # Defined as the layers stand, and not in every order.
    with pytest.raises(ValueError, match=r"it is -?\d\S* as they stand and finite in \d+ of 50 orders"):
        score_statistics.permute_layers(lambda heads: float(heads[0].mean()), x, draws=50)


def test_equal_numbers_are_equal_in_any_unit():
    x = np.random.default_rng(0).normal(size=(5, 9, 3))
    for unit in (1.0, 1e9):
        # Whatever the order of the layers, this is the mean, but for rounding.
        assert score_statistics.permute_layers(lambda heads: float(heads.mean()), unit + x, draws=99).p == 1


def test_draws_with_one_side_only_give_no_interval():
    # Two prompts, each of which has a score in one half of the layers only.
    x = np.array([[1.0, np.nan], [np.nan, 2.0]])[..., None]
    found = contrasts.contrast_layers(x, draws=50)
    assert (found.difference.value, found.difference.low, found.difference.high, found.p) == (-1, -1, -1, 1)
    with pytest.raises(ValueError, match=r"draws with a score on both sides; none of 1 has. Pass more draws"):
        contrasts.contrast_layers(x, draws=1, seed=ONE_SIDED)

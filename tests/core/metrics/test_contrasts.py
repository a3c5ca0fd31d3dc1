import numpy as np
import pytest
from planted_scores import planted

from posym_companion import score_statistics
from posym_core.metrics import _contrasts as contrasts


def test_contrast_is_the_difference_of_medians():
    x, _ = planted()
    x[:, :5] += 3
    found = contrasts.contrast_layers(x)
    heads = x.mean(0)
    assert (found.early.value, found.late.value) == pytest.approx((np.median(heads[:5]), np.median(heads[5:])))
    assert found.difference.value == pytest.approx(found.early.value - found.late.value)
    assert found.difference.low < found.difference.value < found.difference.high
    assert found.difference.low > 0
    assert found.p < 1e-4
    assert not contrasts.contrast_layers(planted(seed=3)[0]).difference.excludes(0)


def test_layers_in_random_order():
    x, _ = planted(layers=12)
    trend = np.linspace(-1, 1, 12)
    slope = lambda heads: float(trend @ heads.mean(1))  # noqa: E731
    nothing = score_statistics.permute_layers(slope, x, draws=500)
    assert nothing.value == pytest.approx(trend @ x.mean((0, 2)))
    assert nothing.p > 0.05
    assert score_statistics.permute_layers(slope, x + 2 * trend[None, :, None], draws=500).p == pytest.approx(1 / 501)
    for unit in (0, 1e9):  # in any order this is the mean, but for rounding
        assert score_statistics.permute_layers(lambda heads: float(heads.mean()), unit + x, draws=50).p == 1


def test_a_statistic_that_is_not_a_number_has_no_p():
    """Comparisons with NaN are all false, so that it once looked rarer than any order."""
    x, _ = planted()
    x[:, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"it is nan as they stand and finite in 0 of 50 orders, and 1 of 40 heads"):
        score_statistics.permute_layers(lambda heads: float(np.median(heads)), x, draws=50)
    # Defined as the layers stand, and not in every order.
    with pytest.raises(ValueError, match=r"it is -?\d\S* as they stand and finite in \d+ of 50 orders"):
        score_statistics.permute_layers(lambda heads: float(heads[0].mean()), x, draws=50)

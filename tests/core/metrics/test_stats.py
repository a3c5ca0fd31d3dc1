import math

import numpy as np
import pytest
import torch
from planted_scores import planted
from scipy import stats as reference

from posym_companion import score_statistics
from posym_core.metrics import _stats as stats


@pytest.mark.parametrize(("by_rank", "scipys"), [(False, reference.pearsonr), (True, reference.spearmanr)])
def test_correlation_is_scipys_over_prompt_means_and_its_interval_holds_it(by_rank, scipys):
    x, y = planted()
    found = stats.correlate_heads(torch.tensor(x), y, by_rank=by_rank)
    assert found.value == pytest.approx(scipys(x.mean(0).ravel(), y.mean(0).ravel()).statistic)
    assert found.low < found.value < found.high < 0
    nothing = stats.correlate_heads(*planted(slope=0.0, noise=1.0), by_rank=by_rank)
    assert nothing.low < 0 < nothing.high
    few, again, other = (stats.correlate_heads(x, y, by_rank=by_rank, draws=50, seed=seed) for seed in (0, 0, 1))
    assert few == again != other


def test_heads_of_a_layer_count_together():
    """Copies of one head in every layer add no evidence: the interval must not shrink."""
    x, y = planted(heads=1, noise=1.0)
    alone = stats.correlate_heads(x, y)
    copies = stats.correlate_heads(np.repeat(x, 16, 2), np.repeat(y, 16, 2))
    assert copies.high - copies.low == pytest.approx(alone.high - alone.low, rel=1e-9)


def test_intervals_of_means_cover_the_truth_about_as_often_as_they_say():
    generator = np.random.default_rng(1)
    found = [stats.mean_interval(generator.normal(size=40), draws=400, seed=i) for i in range(400)]
    assert 0.90 <= sum(one.low < 0 < one.high for one in found) / 400 <= 0.98


def test_any_statistic():
    x, _ = planted()
    found = stats.statistic_interval(lambda s: float(s.mean()), x, draws=100)
    assert str(found).startswith(f"{x.mean():.2f} [")
    # All draws at once are the draws one by one.
    at_once = stats.statistic_interval(lambda s: s.mean((1, 2, 3)), x, draws=100, vectorized=True)
    assert [at_once.value, at_once.low, at_once.high] == pytest.approx([found.value, found.low, found.high], abs=1e-12)


def test_a_mean_over_drawn_prompts_counts_what_is_defined():
    x, _ = planted()
    sample = stats.ResampledHeads(x.shape, draws=20, seed=0)
    for undefined in (1.0, np.nan):
        x[0, 0, 0] *= undefined
        pairs = zip(sample.prompts, sample.layers, strict=True)
        literal = [np.nanmean(x[prompts], 0)[layers] for prompts, layers in pairs]
        np.testing.assert_allclose(sample.of(x), literal, atol=1e-12)


def test_bootstrap_of_a_mean_is_scipys_on_the_same_draws_and_undefined_values_do_not_count():
    x = np.random.default_rng(5).normal(size=30)
    options = {"n_resamples": 500, "method": "percentile", "rng": np.random.default_rng(0)}
    expected = reference.bootstrap((x,), np.mean, **options).confidence_interval
    found = stats.mean_interval(x, draws=500)
    assert (found.low, found.high) == pytest.approx(tuple(expected), rel=1e-12)
    assert stats.mean_interval(np.array([3.0, 4.0, np.nan, 5.0]), draws=100).value == pytest.approx(4)


def test_sums_are_divided_and_not_quotients_averaged():
    x, y = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 4.0]]), np.array([[2.0, 2.0], [1.0, 0.0], [5.0, 3.0]])
    slope = score_statistics.divide_sums((x * y).sum(1), (x**2).sum(1), draws=200)
    assert slope.value == pytest.approx(np.linalg.lstsq(x.ravel()[:, None], y.ravel())[0].item())
    # No draw is beyond one prompt again and again.
    assert 3 / 10 <= slope.low < slope.value < slope.high <= 6 / 5
    undefined = score_statistics.divide_sums(np.array([1.0, 1.0]), np.array([-1.0, 0.5]), draws=2)
    assert np.isnan([undefined.value, undefined.low, undefined.high]).all()


def test_student_intervals_are_scipys_and_keep_to_the_range():
    values = np.random.default_rng(0).normal(size=(5, 3))
    found = score_statistics.student_interval(values, over="seeds")
    expected = reference.ttest_1samp(values, 0, axis=0).confidence_interval(0.95)
    np.testing.assert_allclose([found.low, found.high], [expected.low, expected.high])
    np.testing.assert_allclose(found.value, values.mean(0))
    values[1, 1] = np.nan
    partly = score_statistics.student_interval(values, least=-0.1, most=0.2)
    assert (np.nanmin(partly.low), np.nanmax(partly.high)) == (-0.1, 0.2)
    assert np.isnan([partly.value, partly.low, partly.high]).tolist() == [[False, True, False]] * 3


def test_an_undefined_statistic_has_no_interval_and_undefined_draws_do_not_count():
    x, _ = planted()
    for nothing in (math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"it is {nothing} on the data and finite on 0 of 20 draws. Leave out"):
            stats.statistic_interval(lambda s, nothing=nothing: nothing, x, draws=20)
    # All draws but one: the interval is that one.
    many = np.append(np.full(19, np.nan), 3.0)
    sample = stats.Resample([3], over="prompts", draws=20, seed=0)
    found = sample.estimate(1.0, many)
    assert (found.low, found.high) == (3, 3)
    # Of many statistics at once each has its own.
    low, high = sample.ends(np.stack([many, np.full(20, np.nan), np.arange(20.0)], 1))
    np.testing.assert_allclose([low, high], [[3, np.nan, 0.475], [3, np.nan, 18.525]])


@pytest.mark.parametrize("one_by_one", [False, True])
def test_each_sample_is_drawn_among_its_own_units(one_by_one):
    sizes = [40, 1, 7]
    sample = stats.Resample(sizes, over="prompts", draws=3000, seed=0, one_by_one=one_by_one)
    for number, (size, places) in enumerate(zip(sizes, sample.places, strict=True)):
        times = sample.times(number)
        assert times[5].tolist() == [(places[5] == unit).sum() for unit in range(size)]
        np.testing.assert_allclose(times.mean(0), 1, atol=0.1)
    assert abs(np.corrcoef(sample.places[0][:, 0], sample.places[2][:, 0])[0, 1]) < 0.06


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


def test_ranks_do_not_see_what_grows_with_the_values():
    x, y = (scores[:1] for scores in planted())
    plain, grown = (stats.correlate_heads(one, y, by_rank=True, draws=50) for one in (x, np.exp(9 * x)))
    assert (plain.low, plain.high) == pytest.approx((grown.low, grown.high))

import numpy as np
import pytest
import torch
from scipy import stats as reference

from posym_core import stats


def planted(prompts=12, layers=10, heads=4, seed=0, slope=-0.8, noise=0.2):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(1, layers, heads)) + 0.1 * generator.normal(size=(prompts, layers, heads))
    y = slope * x + noise * generator.normal(size=(1, layers, heads))
    return x, y


def test_correlation_is_scipys_over_prompt_means_and_its_interval_holds_it():
    x, y = planted()
    found = stats.head_correlation(torch.tensor(x), y)
    pearson = reference.pearsonr(x.mean(0).ravel(), y.mean(0).ravel())
    spearman = reference.spearmanr(x.mean(0).ravel(), y.mean(0).ravel())
    assert (found.pearson.value, found.pearson_p) == pytest.approx((pearson.statistic, pearson.pvalue))
    assert (found.spearman.value, found.spearman_p) == pytest.approx((spearman.statistic, spearman.pvalue))
    assert found.pearson.low < found.pearson.value < found.pearson.high < 0
    assert found.spearman.excludes(0)
    assert not found.spearman.excludes(found.spearman.value)


def test_correlation_without_an_effect_does_not_exclude_zero():
    x, y = planted(slope=0.0, noise=1.0)
    assert not stats.head_correlation(x, y).pearson.excludes(0)


def test_heads_of_a_layer_count_together():
    """Copies of one head in every layer add no evidence: the interval must not shrink."""
    x, y = planted(heads=1, noise=1.0)
    alone = stats.head_correlation(x, y).pearson
    copies = stats.head_correlation(np.repeat(x, 16, 2), np.repeat(y, 16, 2)).pearson
    assert copies.high - copies.low == pytest.approx(alone.high - alone.low, rel=1e-9)


def test_contrast_is_the_difference_of_medians():
    x, _ = planted()
    x[:, :5] += 3
    found = stats.layer_contrast(x)
    heads = x.mean(0)
    assert found.early.value == pytest.approx(np.median(heads[:5]))
    assert found.late.value == pytest.approx(np.median(heads[5:]))
    assert found.difference.value == pytest.approx(found.early.value - found.late.value)
    assert found.difference.excludes(0)
    assert found.p < 1e-4
    assert not stats.layer_contrast(planted(seed=3)[0]).difference.excludes(0)


def test_intervals_of_means_cover_the_truth_about_as_often_as_they_say():
    generator = np.random.default_rng(1)
    hits = sum(not stats.mean_interval(generator.normal(size=40), draws=400, seed=i).excludes(0) for i in range(400))
    assert 0.90 <= hits / 400 <= 0.98


def test_same_seed_same_interval():
    x, y = planted()
    assert stats.head_correlation(x, y, draws=50) == stats.head_correlation(x, y, draws=50)
    assert stats.head_correlation(x, y, draws=50) != stats.head_correlation(x, y, draws=50, seed=1)


def test_any_statistic():
    x, _ = planted()
    found = stats.statistic_interval(lambda s: float(s.mean()), x, draws=100)
    assert found.low < x.mean() < found.high
    assert str(found).startswith(f"{x.mean():.2f} [")


def test_refusals():
    x, y = planted()
    with pytest.raises(ValueError, match=r"must have shape \[prompt, layer, head\].*got \(10, 4\)"):
        stats.head_correlation(x[0], y[0])
    with pytest.raises(ValueError, match="same shape"):
        stats.head_correlation(x, y[:, :5])
    with pytest.raises(ValueError, match="at least three heads; got 2"):
        stats.head_correlation(x[:, :2, :1], y[:, :2, :1])
    with pytest.raises(ValueError, match="between 1 and 9; got 10"):
        stats.layer_contrast(x, split=10)
    with pytest.raises(ValueError, match="at least one value; got none"):
        stats.mean_interval([])

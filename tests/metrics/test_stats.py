import numpy as np
import pytest
import torch
from scipy import stats as reference

from posym_core.metrics import stats


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


def test_layers_in_random_order():
    x, _ = planted(layers=12)
    trend = np.linspace(-1, 1, 12)

    def slope(heads):
        return float(trend @ heads.mean(1))

    nothing = stats.layer_permutation(slope, x, draws=500)
    assert nothing.value == pytest.approx(trend @ x.mean((0, 2)))
    assert nothing.p > 0.05
    found = stats.layer_permutation(slope, x + 2 * trend[None, :, None], draws=500)
    assert found.p == pytest.approx(1 / 501)
    assert stats.layer_permutation(lambda heads: float(heads.mean()), x, draws=50).p == 1
    assert stats.layer_permutation(slope, x, draws=50) == stats.layer_permutation(slope, x, draws=50)


def test_random_orders_of_layers_are_as_rare_as_they_say():
    """Without an effect, p below a tenth must turn up about a tenth of the time, however alike a layer's heads are."""
    generator = np.random.default_rng(2)
    trend = np.linspace(-1, 1, 8)
    p = [
        stats.layer_permutation(
            lambda heads: float(trend @ heads.mean(1)),
            np.repeat(generator.normal(size=(1, 8, 1)), 4, 2) + 0.01 * generator.normal(size=(1, 8, 4)),
            draws=99,
        ).p
        for _ in range(300)
    ]
    assert 0.06 <= np.mean(np.array(p) <= 0.1) <= 0.14


def test_difference_of_groups_is_literal_and_finds_what_is_planted():
    generator = np.random.default_rng(0)
    values, group = generator.normal(size=(80, 5, 3)), generator.random(80) < 0.4
    values[group, 1, 2] += 1.5
    found = stats.group_difference(values, group, draws=400)
    np.testing.assert_allclose(found.difference, values[group].mean(0) - values[~group].mean(0))
    assert found.difference.shape == (5, 3)
    assert found.p_adjusted[1, 2] < 0.05
    assert (found.p_adjusted >= found.p - 1e-12).all()
    assert (np.delete(found.p_adjusted.ravel(), 5) > 0.05).all()
    assert found.low[1, 2] > 0
    assert (found.low <= found.difference).all()
    assert (found.difference <= found.high).all()
    textbook = reference.permutation_test(
        (values[group, 1, 0], values[~group, 1, 0]), lambda x, y: x.mean() - y.mean(), n_resamples=2000, rng=0
    )
    assert found.p[1, 0] == pytest.approx(textbook.pvalue, abs=0.06)


def test_strata_take_out_what_differs_between_them():
    """A place that is easy and scores high must not look like a difference between right and wrong answers."""
    generator = np.random.default_rng(6)
    place = np.arange(200) % 2
    right = generator.random(200) < np.where(place, 0.8, 0.2)
    values = 3.0 * place[:, None] + generator.normal(size=(200, 4))
    assert (stats.group_difference(values, right, draws=200).p_adjusted < 0.01).all()
    assert (stats.group_difference(values, right, strata=place, draws=200).p_adjusted > 0.05).all()
    # The stratified difference is the coefficient of a regression with one constant per stratum.
    design = np.stack([right, place == 0, place == 1], 1).astype(float)
    fitted = np.linalg.lstsq(design, values, rcond=None)[0][0]
    np.testing.assert_allclose(stats.group_difference(values, right, strata=place, draws=2).difference, fitted)


def test_one_false_find_in_a_family_is_as_rare_as_it_says():
    generator = np.random.default_rng(3)
    least = [
        stats.group_difference(
            generator.normal(size=(40, 12)), np.arange(40) < 15, draws=60, seed=seed
        ).p_adjusted.min()
        for seed in range(200)
    ]
    assert 0.04 <= np.mean(np.array(least) <= 0.1) <= 0.17


def test_shares_of_variance_add_up_and_find_their_part():
    generator = np.random.default_rng(4)
    shape = {"head": (1, 1, 6, 4), "task": (5, 1, 1, 1), "head x task": (5, 1, 6, 4), "prompt": (5, 40, 1, 1)}
    shape["rest"] = (5, 40, 6, 4)
    for planted_part, size in shape.items():
        scores = 0.01 * generator.normal(size=shape["rest"]) + generator.normal(size=size)
        found = stats.variance_shares(scores, draws=20)
        assert sum(part.value for part in found.values()) == pytest.approx(1)
        main = {"head x task": ("head x task", "head", "task"), "rest": ("rest", "head x task", "prompt")}
        assert sum(found[name].value for name in main.get(planted_part, (planted_part,))) > 0.85
        assert found[planted_part].value == max(part.value for part in found.values())


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
    with pytest.raises(ValueError, match="at least two layers; got 1"):
        stats.layer_permutation(lambda heads: 0.0, x[:, :1])
    with pytest.raises(ValueError, match=r"one entry per prompt; got \(12, 10, 4\), \(3,\)"):
        stats.group_difference(x, np.array([True, False, True]))
    with pytest.raises(ValueError, match="every stratum has one side only"):
        stats.group_difference(x, np.arange(12) < 6, strata=np.arange(12) < 6)
    with pytest.raises(ValueError, match="values must be finite; 1 of 12 are not"):
        stats.group_difference(np.append(np.zeros(11), np.nan), np.arange(12) < 6)
    with pytest.raises(ValueError, match=r"shape \[task, prompt, layer, head\].*got \(12, 10, 4\)"):
        stats.variance_shares(x)
    with pytest.raises(ValueError, match="not all equal"):
        stats.variance_shares(np.ones((2, 2, 2, 2)))

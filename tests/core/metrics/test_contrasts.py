import numpy as np
import pytest
import torch
from planted_scores import planted
from scipy import stats as reference

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


def test_difference_of_groups_is_literal_and_finds_what_is_planted():
    generator = np.random.default_rng(0)
    values, group = generator.normal(size=(80, 5, 3)), generator.random(80) < 0.4
    values[group, 1, 2] += 1.5
    found = score_statistics.compare_groups(values, group, draws=400)
    np.testing.assert_allclose(found.difference, values[group].mean(0) - values[~group].mean(0))
    assert found.p_adjusted[1, 2] < 0.05 < np.delete(found.p_adjusted.ravel(), 5).min()
    assert (found.p_adjusted >= found.p - 1e-12).all()
    assert found.low[1, 2] > 0
    assert ((found.low <= found.difference) & (found.difference <= found.high)).all()
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
    assert (score_statistics.compare_groups(values, right, draws=200).p_adjusted < 0.01).all()
    assert (score_statistics.compare_groups(values, right, strata=place, draws=200).p_adjusted > 0.05).all()
    # The stratified difference is the coefficient of a regression with one constant per stratum.
    design = np.stack([right, place == 0, place == 1], 1).astype(float)
    fitted = np.linalg.lstsq(design, values, rcond=None)[0][0]
    np.testing.assert_allclose(score_statistics.compare_groups(values, right, strata=place, draws=2).difference, fitted)


def test_a_stratum_is_drawn_from_its_own_prompts():
    """Half of the prompts differ by 4 and half not at all: every draw has both halves."""
    strata, group = np.arange(40) // 20, np.arange(40) % 2 == 0
    found = score_statistics.compare_groups(4.0 * (strata == 1) * group, group, strata=strata, draws=200)
    assert found.difference == pytest.approx(2)
    assert 1.5 < found.low < 2 < found.high < 2.5


def test_one_false_find_in_a_family_is_as_rare_as_it_says():
    generator = np.random.default_rng(3)
    least = [
        score_statistics.compare_groups(
            generator.normal(size=(40, 12)), np.arange(40) < 15, draws=60, seed=seed
        ).p_adjusted.min()
        for seed in range(200)
    ]
    assert 0.04 <= np.mean(np.array(least) <= 0.1) <= 0.17


def test_a_statistic_that_is_not_a_number_has_no_p():
    """Comparisons with NaN are all false, so that it once looked rarer than any order."""
    x, _ = planted()
    x[:, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"it is nan as they stand and finite in 0 of 50 orders, and 1 of 40 heads"):
        score_statistics.permute_layers(lambda heads: float(np.median(heads)), x, draws=50)
    # Defined as the layers stand, and not in every order.
    with pytest.raises(ValueError, match=r"it is -?\d\S* as they stand and finite in \d+ of 50 orders"):
        score_statistics.permute_layers(lambda heads: float(heads[0].mean()), x, draws=50)


def test_who_belongs_to_a_group_is_true_or_false():
    values, whether, strata = (
        np.random.default_rng(0).normal(size=(6, 2)),
        np.array([1, 0, 1, 0, 0, 1]),
        np.arange(6) // 3,
    )
    expected = score_statistics.compare_groups(values, whether == 1, strata=strata, draws=9).p.tolist()
    for group in (whether, whether.astype(float), torch.tensor(whether, dtype=torch.bool)):
        named = score_statistics.compare_groups(values, group, strata=np.array(list("aaabbb")), draws=9)
        assert named.p.tolist() == expected
    for wrong in (np.nan, 2, 0.5):
        with pytest.raises(ValueError, match="group must be booleans, or 0 and 1; 1 of 6 entries are neither"):
            score_statistics.compare_groups(values, np.where(np.arange(6) == 3, wrong, whether), strata=strata)
    with pytest.raises(ValueError, match=r"strata must be labels; 2 of 6 are NaN. Leave out"):
        score_statistics.compare_groups(values, whether, strata=np.array([0, 0, 0, 0, np.nan, np.nan]))


def test_draws_with_one_side_only_give_no_interval():
    with pytest.raises(ValueError, match=r"a draw with prompts on both sides; none of 1 has. Pass more draws"):
        score_statistics.compare_groups(np.arange(2.0), np.array([False, True]), draws=1)
    # Two prompts, each of which has a score in one half of the layers only.
    x = np.array([[1.0, np.nan], [np.nan, 2.0]])[..., None]
    found = contrasts.contrast_layers(x, draws=50)
    assert (found.difference.value, found.difference.low, found.difference.high, found.p) == (-1, -1, -1, 1)

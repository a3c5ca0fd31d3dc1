import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from posym_companion.solvers.areas import detection

# Of this seed the first draw has one of two groups twice.
ONE_SIDED = 0


@pytest.fixture
def heads():
    generator = np.random.default_rng(0)
    chosen = generator.random((18, 4)) < 0.15
    return np.round(generator.normal(size=chosen.shape) + 0.8 * chosen, 1), chosen


def test_it_is_the_share_of_pairs_that_are_in_order(heads):
    scores, chosen = heads
    pairs = [float(a > b) + 0.5 * float(a == b) for a in scores[chosen] for b in scores[~chosen]]
    assert detection(scores, chosen, draws=10).value == pytest.approx(np.mean(pairs))


def test_it_is_the_statistic_of_mann_and_whitney(heads):
    scores, chosen = heads
    statistic = mannwhitneyu(scores[chosen], scores[~chosen]).statistic
    found = detection(scores, chosen)
    assert found.value == pytest.approx(statistic / (chosen.sum() * (~chosen).sum()))
    assert found.low < found.value < found.high


def test_order_alone_counts_and_the_opposite_score_is_as_far_below_one_half(heads):
    scores, chosen = heads
    found = detection(scores, chosen, draws=200)
    assert detection(np.exp(3 * scores), chosen, draws=200) == found
    assert detection(-scores, chosen, draws=200).value == pytest.approx(1 - found.value)
    assert detection(np.zeros(72), chosen.ravel(), draws=200).value == 0.5


def test_the_interval_covers_what_is_true():
    covered = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        chosen = np.arange(72) < 12
        found = detection(generator.normal(size=72) + chosen, chosen, draws=200)
        covered += found.low <= 0.7602 <= found.high  # Phi(1 / sqrt(2))
    assert covered >= 85


def test_heads_that_repeat_within_a_group_are_no_further_evidence(heads):
    scores, chosen = heads
    number = np.arange(scores.size).reshape(scores.shape)
    once = detection(scores, chosen, groups=number, draws=300)
    thrice = detection(np.stack([scores] * 3), np.stack([chosen] * 3), groups=np.stack([number] * 3), draws=300)
    assert (thrice.value, thrice.low, thrice.high) == pytest.approx((once.value, once.low, once.high))
    blind = detection(np.stack([scores] * 3), np.stack([chosen] * 3), draws=300)
    assert blind.high - blind.low < thrice.high - thrice.low


def test_what_cannot_be_told_is_refused(heads):
    scores, chosen = heads
    with pytest.raises(ValueError, match=r"some heads must be chosen and some not; got 0 of 72"):
        detection(scores, np.zeros_like(chosen))
    with pytest.raises(ValueError, match="scores must be finite; 1 of 72"):
        detection(np.where(np.arange(72).reshape(18, 4) == 3, np.nan, scores), chosen)
    with pytest.raises(ValueError, match="groups must be labels; 1 of 72 are NaN"):
        detection(scores, chosen, groups=np.where(np.arange(72).reshape(18, 4) == 3, np.nan, 1.0))
    for wrong in (np.nan, 0.3):
        with pytest.raises(ValueError, match="chosen must be booleans, or 0 and 1; 1 of 72 entries are neither"):
            detection(scores, np.where(np.arange(72).reshape(18, 4) == 3, wrong, chosen))
    # Of two groups one has all the chosen heads, and this draw has that one twice.
    with pytest.raises(ValueError, match=r"it is 1.0 on the data and finite on 0 of 1 draws"):
        detection(np.array([0.0, 1.0]), np.array([0, 1]), groups=np.array([0, 1]), draws=1, seed=ONE_SIDED)

import numpy as np
import pytest

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
    blind = detection(np.zeros(72), chosen.ravel(), draws=10)
    assert blind.low == blind.value == blind.high == 0.5


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
    # Of two groups one has all the chosen heads, and this draw has that one twice.
    with pytest.raises(ValueError, match=r"it is 1.0 on the data and finite on 0 of 1 draws"):
        detection(np.array([0.0, 1.0]), np.array([0, 1]), groups=np.array([0, 1]), draws=1, seed=ONE_SIDED)

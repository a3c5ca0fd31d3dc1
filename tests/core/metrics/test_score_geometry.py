import itertools
import math

import numpy as np
import pytest
import torch
from random_examples import given, st

from posym_core import cross_logits, rope_angles, swap_scores
from posym_core.metrics._score_geometry import score_exchange, score_pair, simulate_random_swaps


@given(st.lists(st.floats(1e-6, 1), min_size=4, max_size=4))
def test_angles_give_the_two_cosines_and_their_sum_is_at_least_one(values):
    v, after = torch.tensor(values[:2]).double(), torch.tensor(values[2:]).double()
    positional, symbolic = score_pair(torch.atan2(v[1], v[0]), torch.atan2(after[1], after[0]))
    assert float(positional) == pytest.approx(float(torch.cosine_similarity(after, v, dim=0)), abs=1e-12)
    assert float(symbolic) == pytest.approx(float(torch.cosine_similarity(after, v.flip(0), dim=0)), abs=1e-12)
    assert float(positional + symbolic) >= 1 - 1e-12


@pytest.mark.parametrize("size", [0.1, 1.0, 8.0, 40.0])
def test_no_head_scores_low_on_both(size):
    generator = torch.Generator().manual_seed(1)
    query = size * torch.randn(200, 8, generator=generator, dtype=torch.float64)
    keys = torch.randn(200, 12, 8, generator=generator, dtype=torch.float64)
    found = swap_scores(query, keys, rope_angles(8), eps=0.0)
    assert (found.positional + found.symbolic).min() >= 1 - 1e-12


def test_random_swaps_are_the_literal_average():
    attention = torch.rand(5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    positional, symbolic = simulate_random_swaps(attention, tau=0.1, generator=torch.Generator().manual_seed(3))
    pairs = list(itertools.combinations(range(5), 2))
    angles = torch.rand(len(pairs), generator=torch.Generator().manual_seed(3), dtype=torch.float64) * math.pi / 2
    weights = torch.tensor([abs(attention[i] - attention[j]) / 0.1 for i, j in pairs]).softmax(0)
    expected = [0.0, 0.0]
    for (i, j), angle, weight in zip(pairs, angles, weights, strict=True):
        after = torch.stack([angle.cos(), angle.sin()])
        expected[0] += float(weight * torch.cosine_similarity(after, attention[[i, j]], dim=0))
        expected[1] += float(weight * torch.cosine_similarity(after, attention[[j, i]], dim=0))
    assert [float(positional), float(symbolic)] == pytest.approx(expected, abs=1e-12)


def test_peaked_attention_alone_forces_a_negative_correlation():
    """One-hot attention puts every head on the unit circle, whatever its swaps do."""
    attention = torch.eye(6, dtype=torch.float64)[torch.arange(600) % 6]
    positional, symbolic = simulate_random_swaps(attention, tau=1e9, generator=torch.Generator().manual_seed(4))
    one_pair = simulate_random_swaps(attention[:, :2] + 1e-12, generator=torch.Generator().manual_seed(5))
    peaked = attention[:, :2].amax(-1) > 0.5
    assert torch.corrcoef(torch.stack([x[peaked] for x in one_pair]))[0, 1] < -0.85
    assert ((positional + symbolic) >= 1 - 1e-12).all()


def test_an_exchange_of_two_keys_is_the_swap_of_two_blocks():
    generator = torch.Generator().manual_seed(3)
    query, keys = (torch.randn(5, *shape, generator=generator, dtype=torch.float64) for shape in ((4,), (3, 4)))
    angles = torch.tensor([1.0, 0.1], dtype=torch.float64)
    scores = swap_scores(query, keys, angles, eps=0)
    C = cross_logits(query, keys, angles)
    place = torch.zeros(5, dtype=torch.long)
    for first, second in ((place, place + 1), (place + 1, place)):
        positional, symbolic = score_exchange(C, first, second)
        torch.testing.assert_close(positional, scores.positional)
        torch.testing.assert_close(symbolic, scores.symbolic)
    assert all(torch.allclose(x, torch.ones(5).double()) for x in score_exchange(C, place, place))


TAU = 1e-4
C = np.array([[6.0, 6, 0], [0, 0, 0], [6, 0, 0]])


def test_one_input_can_lie_inside_though_each_of_its_pairs_does_not():
    attention = np.exp(C.diagonal()) / np.exp(C.diagonal()).sum()
    scores, contrast = [], []
    for i, j in itertools.combinations(range(3), 2):
        swapped = np.exp([C[j, i], C[i, j]])  # contents i and j have changed places; the pair's direction needs no sum
        angles = (torch.tensor(np.arctan2(y, x)) for x, y in (attention[[i, j]], swapped))
        scores.append([float(x) for x in score_pair(*angles)])
        contrast.append(abs(attention[i] - attention[j]))
    pairs, weights = np.array(scores), np.exp((np.array(contrast) - max(contrast)) / TAU)
    positional, symbolic = weights @ pairs / weights.sum()
    np.testing.assert_allclose([positional, symbolic], 0.502, atol=5e-4)
    assert positional**2 + symbolic**2 < 0.51
    counted = weights > 0.5  # the pairs that the score looks at
    assert ((pairs[counted] ** 2).sum(1) >= 1 - 1e-9).all()

import itertools
import math

import pytest
import torch

from posym_companion.head_measurements import simulate_random_swaps
from posym_core import cross_logits, swap_scores
from posym_core.metrics import score_exchange, score_pair


def test_angles_give_the_two_cosines_and_their_sum_is_at_least_one():
    v, after = 1e-6 + torch.rand(2, 500, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    v[:2, 0], after[1:3, 0] = 1e-6, 1e-6
    positional, symbolic = score_pair(torch.atan2(*v.T.flip(0)), torch.atan2(*after.T.flip(0)))
    torch.testing.assert_close(positional, torch.cosine_similarity(after, v), rtol=0, atol=1e-12)
    torch.testing.assert_close(symbolic, torch.cosine_similarity(after, v.flip(-1)), rtol=0, atol=1e-12)
    assert (positional + symbolic).min() >= 1 - 1e-12


def test_random_swaps_are_the_literal_average():
    """Each head of a batch draws angles of its own: else their scores would go together, which is not chance."""
    attention = torch.rand(2, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = simulate_random_swaps(attention, tau=0.1, generator=torch.Generator().manual_seed(3))
    pairs = list(itertools.combinations(range(5), 2))
    angles = torch.rand(2, len(pairs), generator=torch.Generator().manual_seed(3), dtype=torch.float64) * math.pi / 2
    for head, own in enumerate(attention):
        weights = torch.tensor([abs(own[i] - own[j]) / 0.1 for i, j in pairs]).softmax(0)
        expected = [0.0, 0.0]
        for (i, j), angle, weight in zip(pairs, angles[head], weights, strict=True):
            after = torch.stack([angle.cos(), angle.sin()])
            expected[0] += float(weight * torch.cosine_similarity(after, own[[i, j]], dim=0))
            expected[1] += float(weight * torch.cosine_similarity(after, own[[j, i]], dim=0))
        assert [float(score[head]) for score in found] == pytest.approx(expected, abs=1e-12)


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

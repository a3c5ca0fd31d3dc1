import itertools

import literal
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posym_core import cross_logits, rope_angles
from posym_core.metrics import score_cross_logits

PAIRINGS = ["halves", "neighbours"]


def head(*shape, keys=9, dim=8, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(*shape, dim, generator=generator, dtype=torch.float64)
    return query.to(dtype), torch.randn(*shape, keys, dim, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_planes_add_up_and_diagonal_is_the_logits(pairing):
    query, keys = head(2, 3)
    C = cross_logits(query, keys, rope_angles(8), scale=0.3, pairing=pairing)
    planes = cross_logits(query, keys, rope_angles(8), scale=0.3, pairing=pairing, per_frequency=True)
    assert C.shape == (2, 3, 9, 9)
    assert planes.shape == (2, 3, 4, 9, 9)
    torch.testing.assert_close(planes.sum(-3), C, rtol=0, atol=1e-12)
    torch.testing.assert_close(C.diagonal(dim1=-2, dim2=-1), 0.3 * (keys @ query[..., None])[..., 0])


def test_each_plane_is_a_phase():
    """The plane's part of a logit moves as Re(z exp(i angle D)): an independent complex-number reference."""
    query, keys = head()
    angles = rope_angles(8)
    complex_query = torch.complex(query[:4], query[4:])
    z = complex_query.conj() * torch.complex(keys[:, :4], keys[:, 4:])
    shift = torch.arange(9)[None, :] - torch.arange(9)[:, None]
    expected = torch.stack([(z[:, f, None] * torch.exp(1j * angles[f] * shift)).real for f in range(4)])
    torch.testing.assert_close(cross_logits(query, keys, angles, per_frequency=True), expected)


def test_batch_equals_loop_and_heads_may_share_keys():
    query, keys = head(2, 3)
    for shared in (keys, keys[:, :1]):
        batch = cross_logits(query, shared, rope_angles(8))
        for i, j in itertools.product(range(2), range(3)):
            alone = cross_logits(query[i, j], shared[i, j % shared.shape[1]], rope_angles(8))
            torch.testing.assert_close(batch[i, j], alone)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), size=st.floats(0, 4), keys=st.integers(2, 6), others=st.integers(0, 2))
def test_scores_are_those_of_a_loop_whatever_the_size_of_logits(seed, size, keys, others):
    """A swap may take the largest logit away, by thousands: ratios are taken against what is left."""
    generator = torch.Generator().manual_seed(seed)
    C = torch.randn(keys, keys, generator=generator).double() * 10**size
    outside = torch.randn(others, generator=generator).double() * 10**size if others else None
    found = score_cross_logits(C, outside=outside, tau=0.5)

    def attend(order):
        logits = torch.cat([C[order, torch.arange(keys)], torch.empty(0).double() if outside is None else outside])
        return logits.softmax(-1)[:keys]

    before, gaps, parts = attend(torch.arange(keys)), [], []
    for first, second in itertools.combinations(range(keys), 2):
        order = torch.arange(keys)
        order[[first, second]] = order[[second, first]]
        pair, moved = before[[first, second]], attend(order)[[first, second]]
        gaps.append((pair[0] - pair[1]).abs())
        parts.append([literal.cosine(pair, moved, 1e-8), literal.cosine(pair.flip(0), moved, 1e-8)])
    weights = (torch.stack(gaps) / 0.5).softmax(0)
    expected = (weights[:, None] * torch.tensor(parts, dtype=torch.float64)).sum(0)
    assert [float(found.positional), float(found.symbolic)] == pytest.approx(expected.tolist(), abs=1e-9)


def test_attention_that_stays_though_the_largest_logit_leaves_is_positional():
    C = torch.tensor([[400.0, -400.0], [350.0, -350.0]]).double()
    found = score_cross_logits(C, outside=torch.tensor([-3000.0]).double())
    assert (float(found.positional), float(found.symbolic)) == (1.0, 0.0)
    alone = score_cross_logits(torch.tensor([[400.0, -400.0], [-400.0, -350.0]]).double())
    # Afterwards both keys draw -400, so attention is even: half of it stayed, and half followed.
    assert (float(alone.positional), float(alone.symbolic)) == pytest.approx((0.5**0.5, 0.5**0.5))

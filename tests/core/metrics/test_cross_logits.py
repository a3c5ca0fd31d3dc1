import itertools

import literal
import pytest
import torch

from posym_core import cross_logits, rope_angles, rotate

PAIRINGS = ["halves", "neighbours"]


def head(*shape, keys=9, dim=8, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(*shape, dim, generator=generator, dtype=torch.float64)
    return query.to(dtype), torch.randn(*shape, keys, dim, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_agrees_with_moving_keys_one_by_one(pairing, dtype, atol):
    query, keys = head(dtype=dtype)
    angles = rope_angles(8)
    C = cross_logits(query, keys, angles, scale=0.7, pairing=pairing)
    assert C.dtype == dtype
    torch.testing.assert_close(C, literal.cross_logits(query, keys, angles, 0.7, pairing), rtol=0, atol=atol)


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


@pytest.mark.parametrize("shift", [-100_000, 77_777])
def test_only_relative_positions_matter(shift):
    query, keys = head()
    angles = rope_angles(8)
    moved = cross_logits(rotate(query, shift, angles), rotate(keys, shift, angles), angles)
    torch.testing.assert_close(moved, cross_logits(query, keys, angles), rtol=0, atol=1e-8)

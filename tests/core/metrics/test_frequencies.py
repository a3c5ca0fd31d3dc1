import math

import pytest
import torch

from posym_core import cross_logits, exclusion, rope_angles
from posym_core.metrics._frequencies import frequency_shares, frequency_use

FIELDS = ("positional_share", "symbolic_share", "interaction_share")


def head(*shape, keys=17, dim=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(*shape, dim, generator=generator, dtype=torch.float64)
    return query, torch.randn(*shape, keys, dim, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_closed_form_is_the_analysis_of_variance_of_each_planes_matrix(pairing):
    query, keys = head(2, 3)
    angles = torch.tensor([2.9, 1.0, 0.3, 0.02, 1e-5, 0.0])
    found = frequency_shares(query, keys, angles, scale=0.4, pairing=pairing)
    planes = cross_logits(query, keys, angles, scale=0.4, pairing=pairing, per_frequency=True)
    expected = exclusion(planes)
    for field in FIELDS:
        torch.testing.assert_close(getattr(found, field), getattr(expected, field), rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found.energy, planes.var((-2, -1), correction=0))


def test_dead_planes_are_undefined():
    query, keys = head(dim=4)
    keys[:, [1, 3]] = 0
    found = frequency_shares(query, keys, rope_angles(4))
    assert found.symbolic_share.isnan().tolist() == [False, True]
    assert float(found.energy[1]) == 0
    assert float(found.energy[0]) > 0


def test_slow_planes_are_symbolic_and_a_full_turn_leaves_no_symbol():
    query, keys = head(keys=32, dim=4)
    found = frequency_shares(query, keys, torch.tensor([2 * math.pi / 32, 1e-4], dtype=torch.float64))
    assert float(found.symbolic_share[0]) == pytest.approx(0, abs=1e-20)
    assert float(found.symbolic_share[1]) > 0.99


def test_frequency_use_is_the_largest_contribution():
    query, keys = head(2)
    planes = cross_logits(query, keys, rope_angles(12), scale=0.5, per_frequency=True)
    expected = planes.diagonal(dim1=-2, dim2=-1).amax(-1)
    torch.testing.assert_close(frequency_use(query, keys, rope_angles(12), scale=0.5), expected)

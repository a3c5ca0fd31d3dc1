import math

import pytest
import torch

from posym_core import rope_angles, rotate

PAIRINGS = ["halves", "neighbours"]


@pytest.mark.parametrize(("first", "second"), [(0, 3), (5, -2), (-(10**6), 7), (10**6, 10**6)])
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_rotations_compose_and_invert(first, second, pairing):
    x, angles = torch.tensor([[1.0, -2.0, 0.5, 3.0]], dtype=torch.float64), rope_angles(4)
    twice = rotate(rotate(x, first, angles, pairing=pairing), second, angles, pairing=pairing)
    torch.testing.assert_close(twice, rotate(x, first + second, angles, pairing=pairing), rtol=0, atol=1e-8)
    back = rotate(rotate(x, first, angles, pairing=pairing), -first, angles, pairing=pairing)
    torch.testing.assert_close(back, x, rtol=0, atol=1e-12)


def test_long_positions_keep_float64_phases():
    x, angles = torch.tensor([1.0, 0.0]), torch.tensor([1.0], dtype=torch.float64)
    position = 10_000_019
    exact = torch.tensor([math.cos(position), math.sin(position)])
    torch.testing.assert_close(rotate(x, position, angles), exact, rtol=0, atol=1e-6)

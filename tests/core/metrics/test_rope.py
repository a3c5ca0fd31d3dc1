import math

import pytest
import torch

from posym_core import rope_angles, rotate

PAIRINGS = ["halves", "neighbours"]


def test_angles_are_the_formula():
    angles = rope_angles(64, 10000.0)
    assert angles.dtype == torch.float64
    expected = [10000.0 ** (-2 * (k - 1) / 64) for k in range(1, 33)]
    torch.testing.assert_close(angles, torch.tensor(expected, dtype=torch.float64), rtol=1e-15, atol=0)
    assert (angles.diff() < 0).all()


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_rotation_is_the_matrix_of_each_plane(pairing):
    x = torch.arange(1.0, 7.0, dtype=torch.float64)
    angles = torch.tensor([0.3, 1.1, 2.0], dtype=torch.float64)
    planes = [(0, 3), (1, 4), (2, 5)] if pairing == "halves" else [(0, 1), (2, 3), (4, 5)]
    expected = torch.zeros(6, dtype=torch.float64)
    for (i, j), angle in zip(planes, angles.tolist(), strict=True):
        c, s = math.cos(7 * angle), math.sin(7 * angle)
        expected[i], expected[j] = c * x[i] - s * x[j], s * x[i] + c * x[j]
    torch.testing.assert_close(rotate(x, 7, angles, pairing=pairing), expected, rtol=1e-14, atol=1e-14)


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

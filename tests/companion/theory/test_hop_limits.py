"""What length costs: planes against loops and constructed heads, the price from below, returns by fractions."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from refusals import refuse_each

from posym_companion.theory._number_letter_limits import (
    compute_index_price,
    find_index_beta,
    find_planes_beta,
    list_closest_returns,
)
from posym_core.metrics._rope import rope_angles


def loop_works(length, angles, beta):
    """Every target against all of its rivals, one by one."""
    for target in range(length):
        rivals = 0.0
        for key in range(length):
            if key != target:
                logit = sum(math.cos((key - target) * angle) for angle in angles) / len(angles)
                rivals += math.exp(beta * (logit - 1))
        if rivals >= 1:
            return False
    return True


@pytest.mark.parametrize("angles", [(0.866,), (1.0, 0.3), (2.5, 0.9, 0.2)])
@pytest.mark.parametrize("length", [3, 8, 20])
def test_planes_need_what_a_loop_over_keys_says(length, angles):
    least = find_planes_beta(length, angles)
    assert loop_works(length, angles, 1.0001 * least)
    assert not loop_works(length, angles, 0.9999 * least)


@pytest.mark.parametrize("length", [1, 2, 3, 17, 60])
def test_one_plane_is_the_index_head(length):
    for angle in (0.1, 0.866, 3.0):
        assert find_planes_beta(length, [angle]) == pytest.approx(find_index_beta(length, angle), rel=1e-12)
    assert find_planes_beta(9, [math.pi / 4, math.pi / 2]) == math.inf > find_planes_beta(9, [math.pi / 4, 0.7])
    # Planes that turn alike are one plane.
    assert find_planes_beta(length, [0.7] * 5) == pytest.approx(find_planes_beta(length, [0.7]), rel=1e-12)


@pytest.mark.parametrize("length", [3, 5, 17, 40])
def test_no_angle_undercuts_the_price_and_even_spacing_comes_near(length):
    price = compute_index_price(length)
    for angle in torch.linspace(0.01, math.pi, 120).tolist():
        assert find_planes_beta(length, [angle]) > price
    even = find_planes_beta(length, [2 * math.pi / length])
    assert price < even < 1.02 * price
    generator = torch.Generator().manual_seed(0)
    for planes in (2, 5, 20):
        for _ in range(20):
            angles = math.pi * torch.rand(planes, generator=generator, dtype=torch.float64)
            assert find_planes_beta(length, angles) > compute_index_price(length, planes)


def test_the_price_has_its_closed_limits():
    assert compute_index_price(1) == compute_index_price(2) == 0
    assert compute_index_price(4000) == pytest.approx(4000**2 / (8 * math.pi), rel=1e-5)
    assert compute_index_price(850, 20_000) == pytest.approx(math.log(425), rel=1e-3)
    for length in (3, 20, 300):
        prices = [compute_index_price(length, planes) for planes in (1, 2, 3, 8, 64)]
        assert all(more < fewer for fewer, more in itertools.pairwise(prices))
    # Bessel's function by its integral
    beta = compute_index_price(50)
    phase = torch.linspace(0, 2 * math.pi, 4001, dtype=torch.float64)[:-1]
    assert 50 * float((beta * (phase.cos() - 1)).exp().mean()) == pytest.approx(2, rel=1e-9)


def test_returns_are_denominators_of_best_fractions():
    for angle in (1.0, 0.866, float(rope_angles(128)[1]), 0.05, 3.0):
        found = list_closest_returns(900, angle)
        share = Fraction(angle) / Fraction(2 * math.pi)
        convergents, rest, (before, last) = [], share, (1, 0)
        while last < 900 and len(convergents) < 30:
            whole = rest.numerator // rest.denominator
            before, last = last, whole * last + before
            convergents.append(last)
            if rest == whole:
                break
            rest = 1 / (rest - whole)
        assert found.distance.tolist() == sorted({number for number in convergents if 1 <= number < 900})
        exact = found.distance.double() * angle
        assert torch.allclose((exact - found.gap) / (2 * math.pi), ((exact - found.gap) / (2 * math.pi)).round())
        assert bool((found.gap.abs() <= math.pi).all())
    assert list_closest_returns(1, 1.0).distance.tolist() == []


test_refusals = refuse_each(
    (lambda: find_planes_beta(5, []), r"a plane or more; got shape \(0,\)"),
)  # fmt: skip

import literal
import pytest
import torch

from posym_core import exclusion


@pytest.mark.parametrize("m", [2, 5, 9])
def test_shares_are_a_two_way_analysis_of_variance(m):
    """Whatever the unit and the offset, and of each matrix of a batch."""
    C = torch.randn(2, m, m, generator=torch.Generator().manual_seed(m), dtype=torch.float64)
    for result in (exclusion(C), exclusion(1e-6 * C + 4)):
        for number, one in enumerate(C):
            found = (result.positional_share, result.symbolic_share, result.interaction_share)
            assert [float(x[number]) for x in found] == pytest.approx(literal.shares(one), rel=1e-6, abs=1e-8)


def test_equality_exactly_for_additive_heads():
    logits = torch.tensor([0.5, -2.0, 3.0, 1.0], dtype=torch.float64)
    additive = (logits[:, None] + logits[None, :]) / 2
    result = exclusion(additive)
    assert float(result.slack) == 0
    assert float(result.variance) == pytest.approx(float(result.bound), rel=1e-14)
    assert float(result.positional_share) == pytest.approx(0.5)
    additive[0, 2] += 0.1
    assert float(exclusion(additive).slack) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_differs_by_rounding_is_constant_and_what_differs_by_more_is_not(dtype):
    eps = torch.finfo(dtype).eps
    for value, steps, constant in ((0, 0, True), (-3e7, 0, True), (1, 0, True), (1, 4, True), (1, 5, False)):
        C = torch.full((3, 3), float(value), dtype=dtype)
        C[:, 1] -= steps * eps  # of numbers below 1 half as much is a step
        found = exclusion(C)
        assert bool(found.positional_share.isnan()) == constant, (value, steps)
        if not steps:
            assert float(found.variance) == float(found.bound) == float(found.slack) == 0
        if not constant:
            assert float(found.positional_share) > 0.9

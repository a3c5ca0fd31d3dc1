from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from refusals import refuse_each
from scipy.stats import kendalltau

from posym_companion.later.lost_orders import far_preferred, inversions


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal(C):
    cases = [
        (C[a, b] - C[c, b]) * (C[a, d] - C[c, d]) < 0
        for a, c in combinations(range(C.shape[0]), 2)
        for b, d in combinations(range(C.shape[1]), 2)
    ]
    return sum(map(float, cases)) / len(cases)


@pytest.mark.parametrize(("contents", "positions"), [(2, 2), (3, 7), (6, 4)])
def test_inversions_are_those_of_the_definition(contents, positions):
    C = drawn(2, contents, positions)
    found = inversions(C)
    for one, by_content, by_position in zip(C, found.contents, found.positions, strict=True):
        assert float(by_content) == pytest.approx(literal(one))
        assert float(by_position) == pytest.approx(literal(one.T))


def test_inversions_are_half_of_what_kendalls_tau_lacks_to_one():
    C = drawn(9, 6)
    tau = [kendalltau(C[:, b], C[:, d]).statistic for b, d in combinations(range(6), 2)]
    assert float(inversions(C).contents) == pytest.approx((1 - sum(tau) / len(tau)) / 2)


small = st.integers(-4, 4).map(float)


@settings(deadline=None, max_examples=60)
@given(arrays("float64", st.tuples(st.integers(2, 6), st.integers(2, 6)), elements=small))
def test_ties_transposition_and_monotone_maps(C):
    C = torch.from_numpy(C)
    found, other = inversions(C), inversions(C.T)
    assert float(found.contents) == pytest.approx(literal(C))
    assert float(found.contents) == float(other.positions)
    assert float(inversions(C.exp()).contents) == float(found.contents)
    assert 0 <= float(found.contents) <= 1


def test_additive_heads_turn_nothing_round_and_random_signs_half():
    additive = drawn(8, 1) + drawn(1, 9, seed=1)
    assert float(inversions(additive).contents) == float(inversions(additive).positions) == 0
    assert float(inversions(drawn(40, 300)).contents) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("factor", [1.5, 2.0, 3.0])
def test_far_preferred_is_that_of_the_definition(factor):
    C, distance = drawn(3, 5, 7), torch.tensor([4.0, 1.0, 9.0, 2.0, 30.0, 3.0, 5.0])
    C[0, 0, :] = 1.0
    for one, found in zip(C, far_preferred(C, distance, factor=factor), strict=True):
        cases = [
            float(one[a, far] > one[a, near]) + 0.5 * float(one[a, far] == one[a, near])
            for a in range(5)
            for near in range(7)
            for far in range(7)
            if distance[far] >= factor * distance[near]
        ]
        assert float(found) == pytest.approx(sum(cases) / len(cases))


def test_far_preferred_knows_which_way_a_head_looks():
    distance = torch.arange(1.0, 30.0, dtype=torch.float64)
    near = -distance.expand(4, -1)
    assert float(far_preferred(near, distance)) == 0
    assert float(far_preferred(-near, distance)) == 1
    assert float(far_preferred(0 * near, distance)) == 0.5
    assert float(far_preferred(drawn(200, 29), distance)) == pytest.approx(0.5, abs=0.03)


test_bad_input_is_refused = refuse_each(
    (lambda: inversions(torch.zeros(1, 3)), "two or more of each"),
    (lambda: inversions(torch.tensor([[0.0, torch.nan], [0.0, 0.0]])), "C"),
    (lambda: far_preferred(torch.zeros(2, 3), torch.ones(2)), "one number above 0 for each of the 3 positions"),
    (lambda: far_preferred(torch.zeros(2, 2), torch.tensor([0.0, 1.0])), "above 0"),
    (lambda: far_preferred(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), factor=1.0), "factor must be above 1"),
    (lambda: far_preferred(torch.zeros(2, 2), torch.tensor([2.0, 3.0])), "no position is 2 times as far"),
)

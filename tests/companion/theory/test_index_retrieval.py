"""Constructed heads: admissible ranges seen from both sides, exhaustively where inputs are few; collisions."""

import itertools
import math

import pytest
import torch

from posym_companion.theory import _index_retrieval_limits as limits
from posym_companion.theory._index_retrieval_heads import (
    PartialInductionHead,
    PlanarRetrievalHead,
    PositionalIndexHead,
    SymbolicRetrievalHead,
    is_right,
    list_inputs,
    list_worst_inputs,
)
from posym_core.tasks._index_retrieval import IndexTask, PartialInductionTask, RetrievalTask, TaskBatch

ABOVE, BELOW = 1.001, 0.999


def accuracy(head, batch) -> float:
    return float(is_right(head, batch).double().mean())


def worst(head) -> float:
    return accuracy(head, list_worst_inputs(head.task))


def every_input_by_loops(task) -> TaskBatch:
    """All inputs of a small task, the asked symbol standing any number of times above zero: the literal listing."""
    rows = []
    if isinstance(task, IndexTask):
        for context in itertools.product(range(task.symbols), repeat=task.length):
            rows += [([*context, task.symbols + j], context[j], j) for j in range(task.length)]
    else:
        distinct = isinstance(task, RetrievalTask)
        arrangements = (
            itertools.permutations(range(task.symbols), task.length)
            if distinct
            else itertools.product(range(task.symbols), repeat=task.length)
        )
        for symbols in arrangements:
            for values in itertools.product(range(task.attributes), repeat=task.length):
                context = [s * task.attributes + v for s, v in zip(symbols, values, strict=True)]
                for asked in set(symbols):
                    last = max(place for place, symbol in enumerate(symbols) if symbol == asked)
                    rows.append(([*context, task.symbols * task.attributes + asked], values[last], last))
    return TaskBatch(*(torch.tensor(field) for field in zip(*rows, strict=True)))


SMALL_TASKS = [
    IndexTask(length=3, symbols=3),
    RetrievalTask(length=3, symbols=4, attributes=2),
    PartialInductionTask(length=4, symbols=2, attributes=2, repetition=2),
]


@pytest.mark.parametrize("task", SMALL_TASKS)
def test_every_input_is_the_literal_listing(task):
    def rows(batch):
        return sorted(
            (*tokens, answer, position)
            for tokens, answer, position in zip(*(field.tolist() for field in batch), strict=True)
        )

    assert rows(list_inputs(task)) == rows(every_input_by_loops(task))


# Theorem 3


def test_index_gap_against_its_definition_and_no_beta_where_it_is_0():
    angle = 2 * math.pi / 5
    assert limits.find_index_gap(6, angle) == 0
    assert limits.find_positional_beta(6, angle) == math.inf
    assert worst(PositionalIndexHead(IndexTask(length=6, symbols=3), angle=angle, beta=1e6)) < 1
    for length, angle in itertools.product((2, 7, 32, 64), (1.0, 0.3162, 0.1, 0.004)):
        gaps = [abs(math.remainder(distance * angle, 2 * math.pi)) for distance in range(1, length)]
        assert limits.find_index_gap(length, angle) == pytest.approx(min(gaps), abs=1e-12)


# Theorem 5 of Urrutia et al. (2026a), planar retrieval


def test_retrieval_with_rotation_fails_from_half_a_turn_on():
    task = RetrievalTask(length=8, symbols=8)
    limit = math.pi / 7
    assert worst(SymbolicRetrievalHead(task, beta=1e6, angle=limit * 0.99)) == 1
    assert worst(SymbolicRetrievalHead(task, beta=1e6, angle=limit * 1.01)) < 1
    assert limits.find_symbolic_beta(8, limit) == math.inf
    least = limits.find_symbolic_beta(8, 0.2)
    assert [worst(SymbolicRetrievalHead(task, beta=least * x, angle=0.2)) == 1 for x in (ABOVE, BELOW)] == [True, False]


def test_planar_retrieval_on_both_sides_of_its_limit():
    task = RetrievalTask(length=4, symbols=5, attributes=2)
    inputs = list_inputs(task)
    limit = limits.find_planar_retrieval_limit(4, 5)
    assert accuracy(PlanarRetrievalHead(task, beta=1e4, angle=limit * 0.98), inputs) == 1
    assert accuracy(PlanarRetrievalHead(task, beta=1e4, angle=limit * 1.02), inputs) < 1


# Theorem 6


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("length", [4, 16, 64])
def test_induction_exactly_inside_its_ranges(length, fraction):
    task = PartialInductionTask(length=length, symbols=2, attributes=2, repetition=2)
    inputs = list_inputs(task) if length == 4 else list_worst_inputs(task)
    angle = fraction * limits.find_recency_limit(task.length)
    floor = limits.find_smallest_recency(task.length, angle)
    recency = 1.5 * floor
    match = limits.find_smallest_match(task.length, angle, recency)

    def head(**changed):
        return PartialInductionHead(task, **{"angle": angle, "match": match * ABOVE, "recency": recency, **changed})

    assert accuracy(head(), inputs) == 1
    assert accuracy(head(match=match * BELOW), inputs) < 1
    # recency too weak: no match helps; just enough: a large match does
    assert accuracy(head(recency=floor * BELOW, match=1e3), inputs) < 1
    just = floor * ABOVE
    assert accuracy(head(recency=just, match=limits.find_smallest_match(task.length, angle, just) + 1e-6), inputs) == 1


def test_worst_inputs_are_the_worst():
    """A head wrong on any input at all is wrong on a worst one."""
    generator = torch.Generator().manual_seed(0)
    task = PartialInductionTask(length=4, symbols=2, attributes=2)
    inputs = list_inputs(task)
    for _ in range(60):
        angle, match, recency = (torch.rand(3, generator=generator) * torch.tensor([1.2, 12.0, 30.0])).tolist()
        head = PartialInductionHead(task, angle=angle, match=match, recency=recency)
        assert (accuracy(head, inputs) == 1) == (worst(head) == 1)


# Theorem 7: curves within its condition are counted by its judge.


def test_peak_weights_are_those_of_the_heads():
    index = PositionalIndexHead(IndexTask(length=9, symbols=3), angle=0.3, beta=4.0)
    retrieval = SymbolicRetrievalHead(RetrievalTask(length=9, symbols=9), beta=4.0, angle=0.2)
    for head, curve in (
        (index, limits.compute_positional_peak(9, 0.3, 4.0)),
        (retrieval, limits.compute_symbolic_peak(9, 0.2, 4.0)),
    ):
        batch = list_worst_inputs(head.task)
        context = head.attention(batch.tokens)[:, :-1]
        measured = (context / context.sum(1, keepdim=True)).gather(1, batch.position[:, None])[:, 0]
        torch.testing.assert_close(measured, curve)

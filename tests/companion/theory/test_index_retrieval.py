"""Constructed heads: admissible ranges seen from both sides, exhaustively where inputs are few; collisions."""

import itertools
import math

import pytest
import torch
from refusals import refuse_each

from posym_companion.one_head.index_retrieval_collisions import (
    make_index_collision,
    make_induction_collisions,
    make_retrieval_collision,
)
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
from posym_core import cross_logits, exclusion, swap_scores
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


@pytest.mark.parametrize(("task", "head", "smallest", "angle"), [
    *((IndexTask(length=5, symbols=3), PositionalIndexHead, limits.find_positional_beta, angle)
      for angle in (0.05, 0.3, 1.0, 2.2)),
    *((RetrievalTask(length=4, symbols=4, attributes=2), SymbolicRetrievalHead, limits.find_symbolic_beta, angle)
      for angle in (0.0, 0.2)),
    *((IndexTask(length=length), PositionalIndexHead, limits.find_positional_beta, angle)
      for length in (16, 32, 64) for angle in (1.0, 0.1, 0.01)),
    *((RetrievalTask(length=length, symbols=length), SymbolicRetrievalHead, limits.find_symbolic_beta, 0.0)
      for length in (16, 32, 64)),
])  # fmt: skip
def test_heads_are_right_exactly_above_the_smallest_beta(task, head, smallest, angle):
    """On every input where inputs are few, and on the worst ones at the sizes of the experiment."""
    beta = smallest(task.length, angle)
    inputs = list_inputs(task) if task.length < 16 else list_worst_inputs(task)
    assert accuracy(head(task, angle=angle, beta=beta * ABOVE), inputs) == 1
    assert accuracy(head(task, angle=angle, beta=beta * BELOW), inputs) < 1


def test_index_fails_at_every_beta_where_a_distance_is_a_whole_turn():
    task = IndexTask(length=6, symbols=3)
    angle = 2 * math.pi / 5
    assert limits.find_index_gap(6, angle) == 0
    assert limits.find_positional_beta(6, angle) == math.inf
    for beta in (10.0, 1e3, 1e6):
        assert worst(PositionalIndexHead(task, angle=angle, beta=beta)) < 1
    # one position fewer and no distance is a whole turn any more
    assert limits.find_positional_beta(5, angle) < math.inf


def test_index_gap_against_its_definition():
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


def test_planar_retrieval_on_both_sides_of_its_limit():
    task = RetrievalTask(length=4, symbols=5, attributes=2)
    inputs = list_inputs(task)
    limit = limits.find_planar_retrieval_limit(4, 5)
    assert accuracy(PlanarRetrievalHead(task, beta=1e4, angle=limit * 0.98), inputs) == 1
    assert accuracy(PlanarRetrievalHead(task, beta=1e4, angle=limit * 1.02), inputs) < 1
    for centre in torch.linspace(-3, 6, 37).tolist():  # no phase does better
        assert accuracy(PlanarRetrievalHead(task, beta=1e5, angle=limit * 1.02, centre=centre), inputs) < 1


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


def test_induction_fails_where_the_second_angle_is_too_large_or_zero():
    task = PartialInductionTask(length=6, symbols=3, attributes=2)
    limit = limits.find_recency_limit(6)
    assert worst(PartialInductionHead(task, angle=limit * 0.99, match=1e5, recency=2e3)) == 1
    for angle in (limit * 1.01, 2 * limit, 1.0, 2.0, 3.0, math.pi, 0.0):
        assert limits.find_smallest_recency(6, angle) == math.inf
        assert worst(PartialInductionHead(task, angle=angle, match=1e5, recency=2e3)) < 1


@pytest.mark.parametrize("fraction", [0.2, 0.6, 0.95])
def test_the_smallest_match_is_convex_in_recency(fraction):
    angle = fraction * limits.find_recency_limit(12)
    floor = limits.find_smallest_recency(12, angle)
    recency = torch.linspace(1.001 * floor, 8 * floor, 60, dtype=torch.float64)
    match = torch.tensor([limits.find_smallest_match(12, angle, r) for r in recency.tolist()], dtype=torch.float64)
    assert bool((match.diff().diff() > -1e-9).all())
    assert limits.find_smallest_match(12, angle, floor * BELOW) == math.inf


def test_worst_inputs_are_the_worst():
    """A head wrong on any input at all is wrong on a worst one."""
    generator = torch.Generator().manual_seed(0)
    task = PartialInductionTask(length=4, symbols=2, attributes=2)
    inputs = list_inputs(task)
    for _ in range(60):
        angle, match, recency = (torch.rand(3, generator=generator) * torch.tensor([1.2, 12.0, 30.0])).tolist()
        head = PartialInductionHead(task, angle=angle, match=match, recency=recency)
        assert (accuracy(head, inputs) == 1) == (worst(head) == 1)


# Purity, by the core


@pytest.mark.parametrize(("head", "positional"), [
    (PositionalIndexHead(IndexTask(length=8, symbols=9), angle=0.4, beta=20.0), 1.0),
    (SymbolicRetrievalHead(RetrievalTask(length=8, symbols=9), beta=5.0), 0.0),
])  # fmt: skip
def test_constructed_heads_are_pure(head, positional):
    batch = head.task.sample(5, torch.Generator().manual_seed(0))
    query, keys = head.query(batch.tokens), head.keys(batch.tokens)
    shares = exclusion(cross_logits(query, keys, head.angles)[..., :-1, :-1])
    assert torch.allclose(shares.positional_share, torch.full((5,), positional).double())
    assert torch.allclose(shares.symbolic_share, torch.full((5,), 1 - positional).double())
    scores = swap_scores(query, keys, head.angles)
    pure = scores.positional if positional else scores.symbolic
    assert torch.allclose(pure, torch.ones(5).double(), atol=1e-6)


def test_attention_is_the_softmax_of_the_cross_logits_diagonal():
    head = PartialInductionHead(PartialInductionTask(length=8), angle=0.2, match=6.0, recency=3.0)
    tokens = head.task.sample(5, torch.Generator().manual_seed(0)).tokens
    C = cross_logits(head.query(tokens), head.keys(tokens), head.angles)
    torch.testing.assert_close(head.attention(tokens), C.diagonal(dim1=-2, dim2=-1).softmax(-1))


def test_heads_that_do_a_task_tell_its_inputs_apart():
    """Heads that cannot are in the judges of Theorems 2, 4 and 6."""
    index, retrieval = IndexTask(length=7, symbols=4), RetrievalTask(length=5, symbols=6, attributes=3)
    induction, angle = PartialInductionTask(length=6, symbols=3, attributes=3), limits.find_recency_limit(6) / 2
    recency = 2 * limits.find_smallest_recency(6, angle)
    match = 2 * limits.find_smallest_match(6, angle, recency)
    for pair in (
        make_index_collision(PositionalIndexHead(index, angle=0.5, beta=50.0), index),
        make_retrieval_collision(SymbolicRetrievalHead(retrieval, beta=9.0), retrieval),
        *make_induction_collisions(
            PartialInductionHead(induction, angle=angle, match=match, recency=recency), induction
        ),
    ):
        assert not pair.coincides()
        assert pair.right == 2


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


def test_the_middle_is_the_best_phase_of_the_symbolic_head():
    best = limits.compute_symbolic_peak(9, 0.3, 4.0).min()
    for centre in torch.linspace(-2, 10, 49).tolist():
        assert limits.compute_symbolic_peak(9, 0.3, 4.0, centre).min() <= best + 1e-12


def test_u_shape_can_fail_beyond_the_condition():
    curve = limits.compute_positional_peak(9, 1.5, 4.0)
    assert not bool((curve[:5].diff() <= 0).all())


HEADLESS = IndexTask(length=7, symbols=4)
SHORT = PartialInductionTask(length=2, symbols=3, attributes=3, repetition=2)
test_refusals = refuse_each(
    (lambda: list_inputs(RetrievalTask(length=8, symbols=8, attributes=8)), "length 8 with 64 .* at most 1000000 are"),
    (lambda: make_index_collision(lambda tokens: tokens[:, 0].float(), HEADLESS), r"for 2 inputs it returned \(2,\)"),
    (lambda: make_induction_collisions(torch.zeros_like, SHORT), "need three positions; got length 2"),
)  # fmt: skip

"""Canonical tasks: an independent literal solver, the documented distributions, refusals."""

import pytest
import torch
from refusals import refuse_each

from posym_core.tasks._facts import FactsTask
from posym_core.tasks._index_retrieval import IndexTask, PartialInductionTask, RetrievalTask
from posym_core.tasks._number_letter import LetterTask, NumberTask
from posym_core.tasks._sentences import CountTask, DistanceTask

CASES = [
    IndexTask(length=5, symbols=3),
    IndexTask(length=16, symbols=32),
    RetrievalTask(length=6, symbols=6, attributes=3),
    RetrievalTask(length=4, symbols=9, attributes=2),
    PartialInductionTask(length=9, symbols=4, attributes=3, repetition=3),
    PartialInductionTask(length=4, symbols=2, attributes=2, repetition=4),
    # The smallest of each kind.
    IndexTask(length=2, symbols=2),
    RetrievalTask(length=2, symbols=2, attributes=2),
    PartialInductionTask(length=2, symbols=2, attributes=2, repetition=2),
]


def draw(task, count=400, seed=0):
    return task.sample(count, torch.Generator().manual_seed(seed))


def solve(task, tokens: list[int]) -> tuple[int, int]:
    """Answer and its position, read from the tokens by the tasks' descriptions and nothing else."""
    *context, query = tokens
    if isinstance(task, IndexTask):
        place = query - task.symbols
        return context[place], place
    pairs = [divmod(token, task.attributes) for token in context]
    asked = query - task.symbols * task.attributes
    places = [place for place, (symbol, _) in enumerate(pairs) if symbol == asked]
    if isinstance(task, RetrievalTask):
        assert len(places) == 1
        assert len({symbol for symbol, _ in pairs}) == task.length
    else:
        assert len(places) == task.repetition
    return pairs[places[-1]][1], places[-1]


@pytest.mark.parametrize("task", CASES, ids=lambda task: type(task).__name__)
def test_answers_are_those_of_a_literal_solver(task):
    batch = draw(task)
    assert batch.tokens.shape == (400, task.length + 1)
    for tokens, answer, position in zip(*(field.tolist() for field in batch), strict=True):
        assert all(0 <= token < task.context_vocabulary for token in tokens[:-1])
        assert task.context_vocabulary <= tokens[-1] < task.vocabulary
        assert solve(task, tokens) == (answer, position)


def uniform(values: torch.Tensor, low: int, high: int) -> bool:
    """Counts of ``low .. high - 1`` within six standard deviations of uniform, and nothing outside."""
    counts = torch.bincount(values.flatten(), minlength=high)
    expected = values.numel() / (high - low)
    return int(counts[:low].sum()) == 0 and bool(((counts[low:] - expected).abs() < 6 * expected**0.5).all())


@pytest.mark.parametrize("task", CASES, ids=lambda task: type(task).__name__)
def test_distributions_are_those_documented(task):
    batch = draw(task, 20_000)
    first = task.repetition - 1 if isinstance(task, PartialInductionTask) else 0
    assert uniform(batch.position, first, task.length)
    assert uniform(batch.answer, 0, task.classes)
    assert uniform(batch.tokens[:, -1] - task.context_vocabulary, 0, task.queries)
    if isinstance(task, IndexTask):
        assert uniform(batch.tokens[:, :-1], 0, task.symbols)
    else:
        assert uniform(batch.tokens[:, :-1] % task.attributes, 0, task.attributes)


def test_earlier_occurrences_are_spread_over_all_earlier_positions():
    task = PartialInductionTask(length=8, symbols=5, attributes=2, repetition=2)
    batch = draw(task, 20_000)
    asked = (batch.tokens[:, -1] - task.context_vocabulary)[:, None]
    earlier = (batch.tokens[:, :-1] // task.attributes == asked).long().argmax(1)
    for last in range(1, task.length):
        assert uniform(earlier[batch.position == last], 0, last)


def test_parts_tell_all_tokens_apart():
    for task in CASES:
        parts = task.parts(torch.arange(task.vocabulary))
        assert len({tuple(sorted(row)) for row in parts.tolist()}) == task.vocabulary
        assert int(parts.max()) == task.part_vocabulary - 1


@pytest.mark.parametrize(
    "task", [*CASES[::2], FactsTask(), NumberTask(), LetterTask(), CountTask(), DistanceTask()], ids=repr
)
def test_the_same_generator_state_draws_the_same_inputs(task):
    first, again, other = (task.sample(50, generator=torch.Generator().manual_seed(seed)).tokens for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


test_refusals = refuse_each(
    (lambda: IndexTask(length=1), r"length must be a whole number of at least 2 \(one position .*; got 1"),
    (lambda: RetrievalTask(length=9, symbols=8), "9 positions need as many distinct symbols but symbols"),
    (lambda: PartialInductionTask(repetition=1), "repetition must be a whole number of at least 2"),
    (lambda: PartialInductionTask(length=3, repetition=4), "stands 4 times but there are only 3 posit"),
    (lambda: draw(IndexTask(), 0), "count must be a whole number of at least 1"),
)  # fmt: skip

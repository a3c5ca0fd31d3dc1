"""Counting instead of walking: against counts by hand, and sequences that lead elsewhere."""

from __future__ import annotations

import pytest
import torch

from posym_companion.several_hops.number_letter_shortcuts import (
    find_possible_answers,
    measure_counting_accuracy,
    reroute,
)
from posym_core.tasks._number_letter import LetterTask, MultihopBatch, NumberTask
from posym_core.tasks._number_letter_programs import walk


def drawn(task, count=200, **options):
    return task.sample(count, generator=torch.Generator().manual_seed(0), **options)


def by_hand(words, steps):
    """Places of the window whose left letter stands once on the left and somewhere on the right behind the window."""
    pairs = [word[1:-1].split(",") for word in words]
    left, named = [pair[0] for pair in pairs], {pair[1] for pair in pairs[-steps - 1 :]}
    return [left.count(letter) == 1 and letter in named for letter in left[: -steps - 1]]


@pytest.mark.parametrize("extra", [0, 5])
def test_letters_are_counted_as_by_hand(extra):
    task = LetterTask()
    batch = drawn(task, extra=extra)
    names = task.token_names
    expected = [by_hand([names[token] for token in row], task.steps) for row in batch.tokens.tolist()]
    assert find_possible_answers(batch, task).tolist() == expected


@pytest.mark.parametrize("task", [LetterTask(), NumberTask(letters=9)])
def test_the_answer_is_always_possible(task):
    batch = drawn(task, 400)
    place = batch.path.gather(1, batch.hops[:, None])
    possible = find_possible_answers(batch, task)
    assert possible.gather(1, place).all()
    assert torch.equal(measure_counting_accuracy(batch, task), 1 / possible.sum(1).double())


def test_an_answer_that_is_not_possible_counts_nothing():
    task = NumberTask(window=3, steps=1, letters=3, hops=1)
    tokens = torch.tensor([[0, 0, 1, 3, 5]])  # a a b, one back, three back
    batch = MultihopBatch(tokens=tokens, answer=torch.tensor([0]), hops=torch.tensor([1]), path=torch.tensor([[4, 1]]))
    assert measure_counting_accuracy(batch, task).tolist() == [0]


@pytest.mark.parametrize("extra", [0, 5])
def test_a_rerouted_query_leads_to_its_new_answer_and_nothing_else_changes(extra):
    task = LetterTask()
    before, after = reroute(drawn(task, 400, extra=extra), task)
    assert len(before.hops) > 50
    assert torch.equal(before.tokens[:, :-1], after.tokens[:, :-1])
    assert (before.hops > 1).all()
    assert (before.answer != after.answer).all()
    for batch in (before, after):
        assert torch.equal(walk(batch.tokens, task, hops=4, layers=4)[:, -1], batch.answer)
    assert torch.equal(walk(after.tokens, task, hops=1, layers=1)[:, -1], after.answer)
    assert torch.equal(after.tokens.gather(1, after.path[:, 1:2])[:, 0], after.answer)
    # The query's left letter, which is on no path, is as it was.
    ends = task.alphabet * task.integers
    assert torch.equal((before.tokens[:, -1] - ends) // 8, (after.tokens[:, -1] - ends) // 8)


def test_numbers_name_no_targets():
    task = NumberTask()
    with pytest.raises(TypeError, match="only Letter names its targets; got a NumberTask"):
        reroute(drawn(task), task)  # pyright: ignore[reportArgumentType]

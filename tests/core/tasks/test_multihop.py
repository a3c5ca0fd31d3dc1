"""Multi-hop tasks: a solver that follows the hops token by token, balance, unique paths."""

import re

import pytest
import torch
from refusals import refuse_each

from posym_companion.several_hops.number_letter_shortcuts import find_possible_answers, measure_counting_accuracy
from posym_core.tasks import apply_index, apply_retrieval, walk
from posym_core.tasks._number_letter import LetterTask, NumberTask, name_letters

TASKS = [NumberTask(), LetterTask()]
TINY = [NumberTask(window=3, steps=2, letters=5, hops=3), LetterTask(window=2, steps=3, alphabet=4, integers=2, hops=3)]


def sample(task, count=4000, seed=0, **options):
    return task.sample(count, generator=torch.Generator().manual_seed(seed), **options)


def solve_number(words):
    """Positions from the query to the first letter."""
    path = [len(words) - 1]
    while words[path[-1]].isdigit():
        path.append(path[-1] - int(words[path[-1]]))
        assert path[-1] >= 0
    return path


def solve_letter(words):
    """Positions from the query to the first pair with an integer; every letter named must stand once on the left."""
    pairs = [re.fullmatch(r"\((\w+),(\w+)\)", word).groups() for word in words]
    path = [len(words) - 1]
    while not pairs[path[-1]][1].isdigit():
        named = [i for i, (left, _) in enumerate(pairs) if left == pairs[path[-1]][1]]
        assert len(named) == 1
        assert named[0] < path[-1]
        path += named
    return path


SOLVERS = {"number": solve_number, "letter": solve_letter}


@pytest.mark.parametrize("extra", [0, 5])
@pytest.mark.parametrize("task", TASKS + TINY)
def test_a_solver_that_follows_the_hops_finds_path_and_answer(task, extra):
    batch, names = sample(task, 600, extra=extra), task.token_names
    assert batch.tokens.shape == (600, extra + task.window + task.steps + 1)
    assert len(names) == len(set(names)) == task.vocabulary
    assert int(batch.tokens.min()) >= 0
    assert int(batch.tokens.max()) < task.vocabulary
    for tokens, answer, hops, path in zip(batch.tokens, batch.answer, batch.hops, batch.path, strict=True):
        words = [names[token] for token in tokens.tolist()]
        found = SOLVERS[task.name](words)
        assert len(found) == hops + 1
        assert path.tolist() == found + [-1] * (task.hops - int(hops))
        assert words[found[-1]] == names[answer]
        assert words.count(names[answer]) == 1
        assert found[-1] >= extra


@pytest.mark.parametrize("task", TASKS)
def test_hops_places_and_answers_are_balanced(task):
    values = task.letters if task.name == "number" else task.alphabet * task.integers
    batch = sample(task, 4 * 8 * values * 2)
    assert batch.hops.bincount().tolist() == [0, *[len(batch.hops) // 4] * 4]
    for hops in range(1, 5):
        rows = batch.hops == hops
        place = batch.path[rows, hops]
        assert place.bincount().tolist() == [2 * values] * 8
        pairs = torch.stack([place, batch.answer[rows]], 1).unique(dim=0, return_counts=True)[1]
        assert (pairs == 2).all()


@pytest.mark.parametrize("task", TASKS)
def test_stations_are_any_places_equally_often(task):
    batch = sample(task, 40_000)
    for hops in (2, 3, 4):
        stations = batch.path[batch.hops == hops][:, 1:hops]
        assert (stations[:, :-1] > stations[:, 1:]).all()
        share = stations.flatten().bincount(minlength=16)[8:16] / stations.numel()
        # A count of n with probability 1/8 each: six standard deviations.
        assert (share - 1 / 8).abs().max() < 6 * (1 / 8 * 7 / 8 / stations.numel()) ** 0.5


test_refusals = refuse_each(
    (lambda: NumberTask(hops=10), "10 hops needs 9 stations between window and query, but there are 8 places"),
    (lambda: LetterTask(hops=8), "the alphabet has 8; pass alphabet=9 or more"),
    (lambda: NumberTask(letters=1), "letters must be a whole number of at least 2; got 1"),
    (lambda: sample(LetterTask(), 1, extra=-1), "extra must be a whole number of at least 0; got -1"),
    (lambda: name_letters(703), "there are names for 702 letters; got 703"),
    (lambda: walk(sample(NumberTask(), 4).tokens, NumberTask(), hops=5, layers=4), "make from 0 to 4 hops; got hops=5"),
)  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_programs_take_ids_of_the_vocabulary_alone(task):
    hop = apply_index if task.name == "number" else apply_retrieval
    tokens = torch.tensor([[0, task.vocabulary - 1, 0]])
    assert hop(tokens, task).shape == tokens.shape
    assert hop(tokens[:0], task).shape == (0, 3)
    for wrong in (tokens + 1, tokens - 1, tokens[0]):
        with pytest.raises(ValueError, match=f"with ids from 0 to {task.vocabulary - 1}; got shape"):
            hop(wrong, task)
    batch = sample(task, 40)
    assert torch.equal(walk(batch.tokens, task, hops=4, layers=4)[:, -1], batch.answer)
    assert torch.equal(walk(batch.tokens, task, hops=0, layers=0), batch.tokens)


@pytest.mark.parametrize("extra", [0, 5])
def test_letters_are_counted_as_by_hand_and_the_answer_is_always_possible(extra):
    """A place of the window is possible whose left letter stands once on the left, and on the right behind it."""
    task = LetterTask()
    batch = sample(task, 200, extra=extra)
    possible = find_possible_answers(batch, task)
    for row, found in zip(batch.tokens.tolist(), possible.tolist(), strict=True):
        pairs = [task.token_names[token][1:-1].split(",") for token in row]
        left, named = [pair[0] for pair in pairs], {pair[1] for pair in pairs[-task.steps - 1 :]}
        assert found == [left.count(letter) == 1 and letter in named for letter in left[: -task.steps - 1]]
    assert possible.gather(1, batch.path.gather(1, batch.hops[:, None])).all()
    assert torch.equal(measure_counting_accuracy(batch, task), 1 / possible.sum(1).double())

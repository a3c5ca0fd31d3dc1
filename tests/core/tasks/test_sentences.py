"""Distance and Count: a reader that looks at the tokens alone finds every answer; balance; sentences fit."""

import pytest
import torch
from refusals import refuse_each

from posym_core.tasks._sentences import PADDING, TRIGGERS, WORDS, CountTask, DistanceTask


def sample(task, count=2000, seed=0):
    return task.sample(count, generator=torch.Generator().manual_seed(seed))


def read_distance(words):
    """Class by looking for the triggers, one each."""
    assert words.count(TRIGGERS[0]) == words.count(TRIGGERS[1]) == 1
    return words.index(TRIGGERS[1]) - words.index(TRIGGERS[0]) - 1


def read_count(words):
    return sum(word in TRIGGERS for word in words)


READERS = {"distance": read_distance, "count": read_count}


def check(task, batch):
    assert batch.tokens.shape[1] == task.longest
    assert int(batch.tokens.max()) < task.vocabulary
    assert int(batch.tokens.min()) >= 0
    for tokens, answer, seen in zip(batch.tokens.tolist(), batch.answer.tolist(), batch.seen.tolist(), strict=True):
        length = sum(seen)
        assert seen == [True] * length + [False] * (task.longest - length)
        assert PADDING not in tokens[:length]
        assert READERS[task.name](tokens[:length]) == answer
        assert 0 <= answer < task.classes


@pytest.mark.parametrize(("distances", "side", "room"), [(1, 0, 0), (2, 9, 0), (5, 1, 30), (20, 9, 4)])
def test_distances_of_all_sizes(distances, side, room):
    task = DistanceTask(distances=distances, side=side, longest=distances + 1 + room, vocabulary=9)
    batch = sample(task, 200)
    check(task, batch)
    for tokens, seen in zip(batch.tokens.tolist(), batch.seen.tolist(), strict=True):
        words = tokens[: sum(seen)]
        assert words.index(TRIGGERS[0]) <= side
        assert len(words) - 1 - words.index(TRIGGERS[1]) <= side


@pytest.mark.parametrize(("most", "shortest", "room"), [(1, 1, 0), (12, 1, 0), (5, 5, 9), (4, 8, 3)])
def test_counts_of_all_sizes(most, shortest, room):
    task = CountTask(most=most, shortest=shortest, longest=max(most, shortest) + room, vocabulary=6)
    batch = sample(task, 200)
    check(task, batch)
    assert int(batch.seen.sum(1).min()) >= shortest


@pytest.mark.parametrize("task", [DistanceTask(), CountTask()])
def test_answers_words_and_places_are_balanced(task):
    count = 60 * task.classes
    batch = sample(task, count)
    assert set(batch.answer.bincount().tolist()) == {60}
    uneven = sample(task, task.classes + 7).answer.bincount(minlength=task.classes)
    assert uneven.min() == 1
    assert uneven.max() == 2
    words = batch.tokens[batch.tokens >= WORDS].bincount()[WORDS:].double()
    assert len(words) == 571
    expected = words.sum() / 571
    assert ((words - expected).abs() < 6 * expected.sqrt()).all()
    if task.name == "distance":
        front = (batch.tokens == TRIGGERS[0]).long().argmax(1)
        seen = front.bincount(minlength=26)
        assert len(seen) == 26
        assert ((seen - count / 26).abs() < 6 * (count / 26) ** 0.5).all()
    else:
        places = (batch.tokens <= 2).double().mean(0)
        assert (places - places.mean()).abs().max() < 6 * (0.25 / count) ** 0.5
        kinds = [(batch.tokens == trigger).sum() for trigger in TRIGGERS]
        assert abs(int(kinds[0] - kinds[1])) < 6 * int(sum(kinds)) ** 0.5


test_refusals = refuse_each(
    (lambda: DistanceTask(longest=70), "triggers 70 apart need 71 tokens; got longest=70"),
    (lambda: DistanceTask(vocabulary=3), "vocabulary must be a whole number of at least 4; got 3"),
    (lambda: CountTask(longest=110), "100 triggers and sentences of at least 120 tokens must fit; got longest=110"),
    (lambda: CountTask(most=9, shortest=4, longest=8), "9 triggers and sentences of at least 4 tokens must fit"),
    (lambda: sample(CountTask(), 0), "count must be a whole number of at least 1; got 0"),
)


@pytest.mark.parametrize(
    "task", [DistanceTask(distances=4, side=2, longest=8), DistanceTask(distances=5, side=9, longest=7)]
)
def test_the_best_guess_without_order_against_a_count(task):
    batch = task.sample(200_000, generator=torch.Generator().manual_seed(1))
    table = torch.zeros(task.distances, task.longest + 1)
    table.index_put_((batch.answer, batch.seen.sum(1)), torch.ones(1), accumulate=True)
    assert task.best_without_order() == pytest.approx(float(table.amax(0).sum() / table.sum()), abs=5e-3)

"""The language of facts: an independent solver, the distributions, errors."""

import pytest
import torch
from refusals import refuse_each

from posym_core.tasks._facts import ASK, MARKS, QUESTIONS, START, STOP, VERB, FactsTask


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def solve(task: FactsTask, row: list[int]) -> list[tuple[str, int, int]]:
    """Kind, answer and fact of every question, from the words of the definition alone."""
    assert row[0] == START
    assert row[task.context - 1] == ASK
    told = [row[1 + k * task.words : 1 + (k + 1) * task.words] for k in range(task.facts)]
    for words in told:
        assert task.words == 2 or words[1] == VERB
        assert task.words < 4 or words[3] == STOP
    names = [words[0] for words in told]
    attributes = [words[1 if task.words == 2 else 2] for words in told]
    solved = []
    for asked in row[task.context :: 2]:
        if asked >= task.first_ordinal:
            kind, fact = "index", asked - task.first_ordinal
        else:
            places = [k for k, name in enumerate(names) if name == asked]
            kind, fact = ("binding" if len(places) == 1 else "last"), places[-1]
        solved.append((kind, attributes[fact] - task.first_attribute, fact))
    for question, after in enumerate(row[task.context + 1 :: 2]):
        assert after - task.first_attribute == solved[question][1]
    return solved


@pytest.mark.parametrize("words", [2, 3, 4])
@pytest.mark.parametrize("questions", [("binding",), ("index",), ("last",), ("binding", "index"), QUESTIONS])
def test_answers_are_those_of_an_independent_solver(words, questions):
    task = FactsTask(facts=6, words=words, names=9, attributes=5, questions=questions)
    batch = task.sample(60, generator())
    seen = set()
    for row, answer, fact, kind in zip(*(x.tolist() for x in batch), strict=True):
        assert max(row) < task.vocabulary
        assert solve(task, row) == [(QUESTIONS[k], a, f) for k, a, f in zip(kind, answer, fact, strict=True)]
        assert len(set(fact)) == len(fact)
        seen |= {QUESTIONS[k] for k in kind}
    assert seen == set(questions)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_single_question_is_the_last_token(question):
    task = FactsTask(facts=8)
    batch = task.ask(question, 200, generator())
    for row, answer, fact in zip(batch.tokens.tolist(), batch.answer.tolist(), batch.fact.tolist(), strict=True):
        assert len(row) == task.context + 1
        assert solve(task, row) == [(question, answer[0], fact[0])]


def test_what_is_asked_is_spread_evenly():
    task = FactsTask(facts=4)
    for question, expected in (("binding", [1 / 4] * 4), ("index", [1 / 4] * 4), ("last", [0, 1 / 6, 2 / 6, 3 / 6])):
        fact = task.ask(question, 20_000, generator()).fact
        shares = torch.bincount(fact.flatten(), minlength=4) / len(fact)
        torch.testing.assert_close(shares, torch.tensor(expected), atol=0.015, rtol=0)
    names = (task.sample(20_000, generator()).tokens[:, 1] - MARKS).bincount(minlength=32)
    torch.testing.assert_close(names / 20_000, torch.full((32,), 1 / 32), atol=0.01, rtol=0)


test_refusals = refuse_each(
    (lambda: FactsTask(facts=1), "one fact leaves nothing to choose"),
    (lambda: FactsTask(words=5), "2, 3 or 4 words.*got words=5"),
    (lambda: FactsTask(facts=8, names=7), "Pass names=8"),
    (lambda: FactsTask(attributes=1), "one attribute"),
    (lambda: FactsTask(questions=("who",)), "some of binding, index, last"),
    (lambda: FactsTask(facts=5, questions=("last",)), "facts must be even; got 5"),
    (lambda: FactsTask().ask("who", 1, generator()), "'who'"),
)  # fmt: skip


def test_every_attribute_is_as_often_the_answer():
    answers = FactsTask(facts=4, names=4, attributes=3).sample(200, generator()).answer
    assert answers.flatten().bincount(minlength=3).min() > 150

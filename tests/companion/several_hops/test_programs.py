"""Heads that run a program are recognised, whatever the program; counts against a literal loop."""

from __future__ import annotations

import math

import pytest
import torch

from posym_companion.several_hops.programs import agreement, candidates
from posym_core.tasks._number_letter import LetterTask, NumberTask

TASKS = [NumberTask(hops=3, letters=20), LetterTask(hops=3)]
NAMES = ("reflexive", "previous", "first", "hop 1", "hop 2", "hop 3")


def sample(task, count=40, seed=0):
    return task.sample(count, generator=torch.Generator().manual_seed(seed))


def as_heads(*attention):
    """One layer with these heads."""
    return torch.stack(attention, 1)[:, None]


@pytest.mark.parametrize("task", TASKS, ids=["number", "letter"])
def test_hops_follow_the_path(task):
    batch = sample(task)
    found = candidates(batch.tokens, task, hops=3)
    assert found.names == NAMES
    assert found.asks[:, -1].all()
    assert not found.asks[:, : task.window].any()
    for hop in (1, 2, 3):
        far = batch.hops >= hop
        assert (found.target[2 + hop][far, -1] == batch.path[far, hop]).all()
        if isinstance(task, NumberTask):  # behind the answer there is nothing
            assert (found.target[2 + hop][~far, -1] == -1).all()


@pytest.mark.parametrize("task", TASKS, ids=["number", "letter"])
def test_every_program_is_recognised(task):
    tokens = sample(task).tokens
    programs = candidates(tokens, task, hops=3)
    heads = as_heads(*[programs.attention(name) for name in NAMES])
    found = agreement(heads, tokens, task, hops=3)
    for number, name in enumerate(NAMES):
        assert found.function(0, number) == (name, 1.0)
    # Judged where no other program looks; only, a token without a target looks at itself.
    off = found.hits[0].masked_fill(torch.eye(len(NAMES), dtype=torch.bool), 0)
    assert float(off[:, 1:].max()) == 0


@pytest.mark.parametrize("task", TASKS, ids=["number", "letter"])
def test_counts_are_those_of_a_loop(task):
    tokens = sample(task, count=60).tokens
    length = tokens.shape[1]
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(60, 2, 2, length, length, generator=generator)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    attention = logits.masked_fill(future, -math.inf).softmax(-1)
    programs = candidates(tokens, task, hops=3)
    found = agreement(attention, tokens, task, hops=3)
    for number in range(len(NAMES)):
        hits = []
        for row in range(60):
            for n in range(length):
                targets = [int(x[row, n]) for x in programs.target]
                mine = targets.pop(number)
                if programs.asks[row, n] and mine >= 0 and mine not in targets:
                    hits.append(int(attention[row, 1, 0, n].argmax()) == mine)
        assert len(hits) > 10
        assert float(found.hits[1, 0, number]) == pytest.approx(sum(hits) / len(hits))


def test_a_head_without_a_program_has_none():
    task = TASKS[0]
    tokens = sample(task, count=200).tokens
    length = tokens.shape[1]
    logits = torch.randn(200, 1, 1, length, length, generator=torch.Generator().manual_seed(2))
    attention = logits.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf).softmax(-1)
    found = agreement(attention, tokens, task, hops=3)
    assert found.function(0, 0)[0] == "none"
    uniform = torch.ones(length, length).tril() / torch.arange(1, length + 1)[:, None]
    tied = agreement(uniform.expand(200, 1, 1, -1, -1), tokens, task, hops=3)
    assert float(tied.hits.max()) == 0

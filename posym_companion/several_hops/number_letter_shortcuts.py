"""What Number and Letter give away to those who count instead of walking, and how to tell the two apart.

A unique path leaves a trace. In Letter, letters on the path stand nowhere else on the left, so the answer's left letter
stands once and is named by a right one, while few letters are left for all other pairs and repeat. In Number the
answer's letter stands once in the window. This project's own.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core.tasks import LetterTask, MultihopBatch, NumberTask, split_letters


def find_possible_answers(batch: MultihopBatch, task: NumberTask | LetterTask) -> Bool[Tensor, "sequence place"]:
    """Tokens of the window that could be the answer as far as counting tells."""
    window = batch.tokens[:, : _window(batch, task)]
    if isinstance(task, NumberTask):
        return (window[:, :, None] == window[:, None]).sum(-1) == 1
    left, right = split_letters(batch.tokens, task)
    letters = left[:, : window.shape[1], None]
    named = (letters == right[:, None, window.shape[1] :]).any(-1)
    return ((letters == left[:, None]).sum(-1) == 1) & named


def measure_counting_accuracy(batch: MultihopBatch, task: NumberTask | LetterTask) -> Float[Tensor, " sequence"]:
    """Return the probability that a pick among :func:`find_possible_answers` is right.

    >>> task = NumberTask(letters=2)
    >>> measure_counting_accuracy(task.sample(8, generator=torch.Generator().manual_seed(0)), task).mean()
    tensor(1., dtype=torch.float64)
    """
    possible = find_possible_answers(batch, task)
    right = possible & (batch.tokens[:, : possible.shape[1]] == batch.answer[:, None])
    return right.sum(1).double() / possible.sum(1)


def reroute(batch: MultihopBatch, task: LetterTask) -> tuple[MultihopBatch, MultihopBatch]:
    """Return sequences of two or more hops, as they are and with a query that names another pair of the window.

    That pair's left letter stands once, like the answer's, and nothing but the query's right letter is changed. So
    whoever counts still prefers the old answer, and whoever walks reaches the new one, in one hop.

    Returns:
        The sequences that have such a pair, before and after, with their answers.
    """
    if not isinstance(task, LetterTask):
        raise TypeError(f"only Letter names its targets; got a {type(task).__name__}")
    window = _window(batch, task)
    left, _ = split_letters(batch.tokens, task)
    once = (left[:, :window, None] == left[:, None]).sum(-1) == 1
    place = torch.arange(window, device=left.device)
    once &= place != batch.path.gather(1, batch.hops[:, None])
    rows = once.any(1) & (batch.hops > 1)
    other = once.int().argmax(1, keepdim=True)
    tokens = batch.tokens.clone()
    tokens[:, -1] = task.alphabet * (task.integers + left[:, -1]) + left.gather(1, other)[:, 0]
    path = torch.full_like(batch.path, -1)
    path[:, 0], path[:, 1] = tokens.shape[1] - 1, other[:, 0]
    before = MultihopBatch(
        tokens=batch.tokens[rows], answer=batch.answer[rows], hops=batch.hops[rows], path=batch.path[rows]
    )
    answer = tokens.gather(1, other)[:, 0]
    after = MultihopBatch(
        tokens=tokens[rows], answer=answer[rows], hops=torch.ones_like(batch.hops[rows]), path=path[rows]
    )
    return before, after


def _window(batch: MultihopBatch, task: NumberTask | LetterTask) -> int:
    return batch.tokens.shape[1] - task.steps - 1

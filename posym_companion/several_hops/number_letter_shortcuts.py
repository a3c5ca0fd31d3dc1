"""Shortcuts of Number and Letter for those who count instead of walking, and how to tell the two apart.

A unique path leaves a trace. In Letter, letters on the path stand nowhere else on the left, so the answer's left letter
stands once and is named by a right one, while few letters are left for all other pairs and repeat. In Number the
answer's letter stands once in the window. This project's own.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from posym_core.tasks import LetterTask, MultihopBatch, NumberTask, split_letters


def find_possible_answers(batch: MultihopBatch, task: NumberTask | LetterTask) -> Bool[Tensor, "sequence place"]:
    """Return tokens of the window that could be the answer as far as counting tells."""
    window = batch.tokens[:, : _window(batch, task)]
    if isinstance(task, NumberTask):
        return (window[:, :, None] == window[:, None]).sum(-1) == 1
    left, right = split_letters(batch.tokens, task)
    letters = left[:, : window.shape[1], None]
    named = (letters == right[:, None, window.shape[1] :]).any(-1)
    return ((letters == left[:, None]).sum(-1) == 1) & named


def measure_counting_accuracy(batch: MultihopBatch, task: NumberTask | LetterTask) -> Float[Tensor, " sequence"]:
    """Return the probability that a pick among :func:`find_possible_answers` is right.

    >>> import torch
    >>> task = NumberTask(letters=2)
    >>> measure_counting_accuracy(task.sample(8, generator=torch.Generator().manual_seed(0)), task).mean()
    tensor(1., dtype=torch.float64)
    """
    possible = find_possible_answers(batch, task)
    right = possible & (batch.tokens[:, : possible.shape[1]] == batch.answer[:, None])
    return right.sum(1).double() / possible.sum(1)


def _window(batch: MultihopBatch, task: NumberTask | LetterTask) -> int:
    return batch.tokens.shape[1] - task.steps - 1

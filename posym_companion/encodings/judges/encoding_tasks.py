"""How far a layer with each encoding reaches on the canonical tasks, from the stored experiment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def done_accuracy(chance: float) -> float:
    """Return the accuracy from which a task counts as done: midway between chance and all right.

    >>> done_accuracy(0.125)
    0.5625
    """
    return (1 + chance) / 2


def longest_context(accuracy: Float[np.ndarray, "seed length"], lengths: Sequence[int], chance: float) -> int | None:
    """Return the longest length up to which the mean accuracy over seeds is never below :func:`done_accuracy`.

    Args:
        accuracy: NaN where the encoding has no more rows, which ends the count.
        lengths: in rising order, the training's first.
        chance: accuracy of guessing.

    Returns:
        The length, or ``None`` if the task is not done even at the training's.

    >>> longest_context(np.array([[1.0, 0.9, 0.2, 0.9]]), [16, 32, 64, 128], 0.125)
    32
    """
    good = accuracy.mean(0) >= done_accuracy(chance)
    reached = len(good) if good.all() else int(good.argmin())
    return int(lengths[reached - 1]) if reached else None

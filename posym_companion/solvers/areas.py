"""Does a score tell which heads do something? Area under the curve, with its interval and against chance."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float

from posym_core.checks import require_count
from posym_core.metrics.stats import DRAWS, Estimate, as_array, as_labels, as_membership, percentile_interval


def detection(
    scores: np.ndarray | torch.Tensor,
    chosen: np.ndarray | torch.Tensor,
    *,
    groups: np.ndarray | torch.Tensor | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """Chance that one of the chosen heads scores above one of the others, ties counting half; 0.5 is blind.

    The interval draws chosen heads and others anew, each among themselves. It takes heads as independent, or, with
    ``groups``, whole groups of heads.

    Args:
        scores: one number per head, any shape.
        chosen: which heads do what is asked about, of the same shape.
        groups: a label per head, such as its model's, of the same shape.
        draws: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        ValueError: if shapes differ, a score is not finite, ``chosen`` holds what is neither true nor false, a label is
            NaN, there is no chosen head or no other, or ``draws`` is below 1.

    >>> detection(np.array([0.9, 0.8, 0.1]), np.array([True, False, False])).value
    1.0
    """
    first, second = _sides(scores, chosen)
    draws = require_count("draws", draws, 1)
    if groups is None:
        times, over = _redrawn((len(first), len(second)), draws, seed), "over chosen and other heads"
    else:
        inside = as_membership("chosen", chosen)
        labels = as_labels("groups", groups)
        if labels.shape != inside.shape:
            raise ValueError(f"groups must have one label per head, {inside.shape}; got {labels.shape}")
        (of_group,) = _redrawn((int(labels.max()) + 1,), draws, seed)
        times, over = [of_group[:, labels[side]] for side in (inside, ~inside)], "over groups of heads"
    return percentile_interval(_area(first, second), _areas(first, second, *times), over, draws)


def detection_difference(
    scores: np.ndarray | torch.Tensor,
    rivals: np.ndarray | torch.Tensor,
    chosen: np.ndarray | torch.Tensor,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """By how much one score tells the chosen heads better than another, on the same heads; see :func:`detection`."""
    (first, second), rival = (_sides(x, chosen) for x in (scores, rivals))
    draws = require_count("draws", draws, 1)
    times = _redrawn((len(first), len(second)), draws, seed)
    here = _area(first, second) - _area(*rival)
    drawn = _areas(first, second, *times) - _areas(*rival, *times)
    return percentile_interval(here, drawn, "over chosen and other heads", draws)


def _sides(scores: np.ndarray | torch.Tensor, chosen: np.ndarray | torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    x, inside = as_array(scores), as_membership("chosen", chosen)
    if x.shape != inside.shape:
        raise ValueError(f"scores and chosen must have one entry per head; got {x.shape} and {inside.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"scores must be finite; {int((~np.isfinite(x)).sum())} of {x.size} are not. Leave these out")
    if not 0 < inside.sum() < inside.size:
        raise ValueError(f"some heads must be chosen and some not; got {int(inside.sum())} of {inside.size}")
    return x[inside], x[~inside]


def _area(first: Float[np.ndarray, " chosen"], second: Float[np.ndarray, " other"]) -> float:
    others = np.sort(second)
    below, upto = (np.searchsorted(others, first, side=side) for side in ("left", "right"))
    return float((below + upto).mean() / 2 / len(others))


@lru_cache(maxsize=4)  # many scores are asked about the same heads
def _redrawn(sizes: tuple[int, ...], draws: int, seed: int) -> list[Float[np.ndarray, "draw of"]]:
    """How often each of so many is drawn when as many are drawn with replacement, for each size."""
    generator = np.random.default_rng(seed)
    rows = [[np.bincount(generator.integers(0, size, size), minlength=size) for size in sizes] for _ in range(draws)]
    return [np.array(times, dtype=np.float64) for times in zip(*rows, strict=True)]


def _areas(
    first: Float[np.ndarray, " chosen"],
    second: Float[np.ndarray, " other"],
    one: Float[np.ndarray, "draw chosen"],
    other: Float[np.ndarray, "draw other"],
) -> Float[np.ndarray, " draw"]:
    """The area of every draw, in which each head counts so many times; a draw without heads on one side is left out."""
    wins = (first[:, None] > second) + 0.5 * (first[:, None] == second)
    pairs = one.sum(1) * other.sum(1)
    return ((one @ wins) * other).sum(1)[pairs > 0] / pairs[pairs > 0]

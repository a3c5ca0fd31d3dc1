"""Does a score tell which heads do something? Area under the curve, with its interval and against chance."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from posym_companion.score_statistics import number_labels
from posym_core._checks import convert_array
from posym_core.metrics import DRAWS, Estimate, Resample


def detection(
    scores: np.ndarray | torch.Tensor,
    chosen: np.ndarray | torch.Tensor,
    *,
    groups: np.ndarray | torch.Tensor | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """Return the chance that one of the chosen heads scores above one of the others, ties counting half; 0.5 is blind.

    The interval draws chosen heads and others again, each among themselves. It takes heads as independent, or, with
    ``groups``, a label per head, whole groups of heads.

    >>> detection(np.array([0.9, 0.8, 0.1]), np.array([True, False, False])).value
    1.0
    """
    first, second = _sides(scores, chosen)
    if groups is None:
        sample = _redrawn(first, second, draws, seed)
        times = [sample.times(side) for side in (0, 1)]
    else:
        inside = convert_membership("chosen", chosen)
        labels = number_labels("groups", groups)
        if labels.shape != inside.shape:
            raise ValueError(f"groups must have one label per head, {inside.shape}; got {labels.shape}")
        sample = Resample([int(labels.max()) + 1], over="groups of heads", draws=draws, seed=seed)
        times = [sample.times()[:, labels[side]] for side in (inside, ~inside)]
    return sample.estimate(_area(first, second), _areas(first, second, *times))


def convert_membership(name: str, x: torch.Tensor | np.ndarray) -> np.ndarray:
    """Return numbers that are true or false as booleans; NaN is neither."""
    x = convert_array(x, None)
    wrong = (x != 0) & (x != 1)
    if wrong.any():
        raise ValueError(f"{name} must be booleans, or 0 and 1; {int(wrong.sum())} of {x.size} entries are neither")
    return x.astype(bool)


def _sides(scores: np.ndarray | torch.Tensor, chosen: np.ndarray | torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    x, inside = convert_array(scores), convert_membership("chosen", chosen)
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


def _redrawn(first: np.ndarray, second: np.ndarray, draws: int, seed: int) -> Resample:
    sizes = [len(first), len(second)]
    return Resample(sizes, over="chosen and other heads", draws=draws, seed=seed, one_by_one=True)


def _areas(
    first: Float[np.ndarray, " chosen"],
    second: Float[np.ndarray, " other"],
    one: Float[np.ndarray, "draw chosen"],
    other: Float[np.ndarray, "draw other"],
) -> Float[np.ndarray, " draw"]:
    """Return the area of every draw, in which each head counts so many times; NaN without heads on one side."""
    wins = (first[:, None] > second) + 0.5 * (first[:, None] == second)
    pairs = one.sum(1) * other.sum(1)
    return ((one @ wins) * other).sum(1) / np.where(pairs > 0, pairs, np.nan)

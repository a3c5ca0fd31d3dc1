"""Curves, thresholds and judges of the claims about toys that own chosen angles, from the stored frequency control."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from posym_companion.experiments.frequency_control import NAME
from posym_companion.findings.finding import Finding
from posym_core.metrics.stats import Estimate, mean_interval
from posym_core.runs.results import Result, load_result

MODEL = "one-layer attention-only toys, one or two angles a head"
SHOWN_IN = "book/one_head/success_by_frequency.ipynb"
LENGTH = 32
# A task counts as solved above this accuracy, and as failed below the other.
SOLVED, FAILED = 0.9, 0.5


Arrays = Result | Mapping[str, np.ndarray]


def accuracy(result: Arrays, cell: str) -> np.ndarray:
    """Accuracy over all inputs, ``[seed, variant]``."""
    return result[f"{cell}/hits"].sum(-1, dtype=np.int64) / result[f"{cell}/asked"].sum(-1, dtype=np.int64)[:, None]


def accuracy_by_position(result: Arrays, cell: str) -> np.ndarray:
    """Accuracy by the position of the answer, ``[seed, variant, position]``; NaN where the task never puts it."""
    hits, asked = result[f"{cell}/hits"].astype(float), result[f"{cell}/asked"].astype(float)[:, None]
    return np.where(asked > 0, hits / np.maximum(asked, 1), np.nan)


def u_index(result: Arrays, cell: str) -> np.ndarray:
    """Ends minus middle ``[seed, variant]``: above 0 is U-shaped ("lost in the middle"), below 0 inverse-U.

    Accuracy where the answer stands in the first or last eighth of the positions, minus accuracy in the central
    quarter, every position counting alike. Only for tasks whose answers stand everywhere.

    Raises:
        ValueError: if some of these positions were never asked for.
    """
    by_position = accuracy_by_position(result, cell)
    length = by_position.shape[-1]
    eighth = max(1, length // 8)
    ends = by_position[..., np.r_[0:eighth, length - eighth : length]]
    middle = by_position[..., length // 2 - eighth : length - length // 2 + eighth]
    if np.isnan(ends).any() or np.isnan(middle).any():
        raise ValueError(f"{cell} never puts the answer at some end or middle position; the U-index needs all of them")
    return ends.mean(-1) - middle.mean(-1)


def threshold(angles: np.ndarray, curve: np.ndarray) -> float:
    """Angle at which accuracy crosses half-way between its ends, interpolated in the angle's logarithm.

    ``angles`` ``[variant]`` in any order, ``curve`` ``[variant]``. The ends are the means of the quarters of the
    variants with the fastest and the slowest angles. Of several crossings the one next to the *worse* end counts,
    because a curve is flat where a task is impossible and can dip where it is possible. NaN if the ends differ by less
    than 0.1.
    """
    order = np.argsort(angles)
    x, y = np.log(np.asarray(angles, dtype=float)[order]), np.asarray(curve, dtype=float)[order]
    quarter = max(1, len(x) // 4)
    slow, fast = y[:quarter].mean(), y[-quarter:].mean()
    if abs(fast - slow) < 0.1:
        return float("nan")
    if fast < slow:
        x, y = x[::-1], y[::-1]
    above = y >= (slow + fast) / 2
    first = int(np.argmax(above))
    if first == 0:
        return float("nan")
    share = ((slow + fast) / 2 - y[first - 1]) / (y[first] - y[first - 1])
    return float(np.exp(x[first - 1] + share * (x[first] - x[first - 1])))


def window(angles: np.ndarray, curve: np.ndarray) -> tuple[float, float]:
    """Slow and fast edge of the range of angles in which a task is solved, for curves that fail at both ends.

    The crossings next to the peak of the level half-way between the peak and the mean of the two outermost variants,
    interpolated as in :func:`threshold`. NaN for an edge that is not crossed, or if the peak is less than 0.1 above.
    """
    order = np.argsort(angles)
    x, y = np.log(np.asarray(angles, dtype=float)[order]), np.asarray(curve, dtype=float)[order]
    peak = int(np.argmax(y))
    floor = (y[0] + y[-1]) / 2
    level = (y[peak] + floor) / 2
    if y[peak] - floor < 0.1:
        return float("nan"), float("nan")

    def edge(step: int) -> float:
        place = peak
        while y[place] >= level:
            if not 0 <= place + step < len(y):
                return float("nan")
            place += step
        share = (level - y[place]) / (y[place - step] - y[place])
        return float(np.exp(x[place] + share * (x[place - step] - x[place])))

    return edge(-1), edge(1)


def thresholds(result: Arrays, cell: str) -> np.ndarray:
    """:func:`threshold` of every seed ``[seed]``: for Index and Retrieval, which one end of the angles solves."""
    angles = variant_angles(result)
    return np.array([threshold(angles, curve) for curve in accuracy(result, cell)])


def windows(result: Arrays, cell: str) -> np.ndarray:
    """:func:`window` of every seed ``[seed, (slow, fast)]``: for Partial induction, which neither end solves."""
    angles = variant_angles(result)
    return np.array([window(angles, curve) for curve in accuracy(result, cell)])


def variant_angles(result: Arrays) -> np.ndarray:
    """``[variant]``: the angle of each variant of the ``single`` cells, ``theta_2`` of the ``pair`` cells."""
    return result["angles"][result["frequencies"] - 1]


def frequency_decides(folder: Path | None) -> Finding:
    """U25-6: which angles solve which task."""
    result = load_result(NAME, folder=folder)
    index, retrieval, single, pair = (
        accuracy(result, f"{cell}_{LENGTH}")
        for cell in ("index_single", "retrieval_single", "induction_single", "induction_pair")
    )
    quarter = index.shape[1] // 4
    fast, slow = slice(None, quarter), slice(-quarter, None)

    def best(accuracies: np.ndarray) -> Estimate:
        """At the angle that is best on average over seeds, so that no seed is picked."""
        return mean_interval(accuracies[:, accuracies.mean(0).argmax()])

    ours = {
        "Index, fastest quarter of angles, best": best(index[:, fast]),
        "Index, slowest quarter, best": best(index[:, slow]),
        "Retrieval, fastest quarter, best": best(retrieval[:, fast]),
        "Retrieval, slowest quarter, best": best(retrieval[:, slow]),
        "Partial induction, any single angle, best": best(single),
        "Partial induction, angles 0 and theta, best": best(pair),
        "Partial induction, angles 0 and the fastest": mean_interval(pair[:, 0]),
        "Partial induction, angles 0 and the slowest": mean_interval(pair[:, -1]),
        "theta of the best pair": float(result["angles"][pair.mean(0).argmax()]),
    }
    solved = ("Index, fastest quarter of angles, best", "Retrieval, slowest quarter, best")
    failed = ("Index, slowest quarter, best", "Retrieval, fastest quarter, best")
    parts = {
        "Index only fast, Retrieval only slow": all(ours[name].low > SOLVED for name in solved)
        and all(ours[name].high < FAILED for name in failed),
        "Partial induction with 0 and a moderate angle only": (
            ours["Partial induction, angles 0 and theta, best"].low > SOLVED
            and ours["Partial induction, any single angle, best"].high < SOLVED
            and ours["Partial induction, angles 0 and the fastest"].high < SOLVED
            and ours["Partial induction, angles 0 and the slowest"].high < SOLVED
        ),
    }
    return Finding(
        ours=ours,
        model=MODEL,
        evidence=[NAME, SHOWN_IN],
        verdict="reproduced in kind" if all(parts.values()) else "not reproduced",
        note="; ".join(f"{part}: {'yes' if held else 'no'}" for part, held in parts.items())
        + f". {LENGTH} positions, {len(index)} seeds; solved is above {SOLVED:.0%}, failed below {FAILED:.0%}; "
        "details of the set-up are ours.",
    )


def accuracy_is_bent(folder: Path | None) -> Finding:
    """U25-7: U and inverse U at the angles that are too slow for Index and not slow enough for Retrieval."""
    result = load_result(NAME, folder=folder)
    angles = result["angles"]
    ours: dict[str, float | int | str | Estimate] = {}
    for length in sorted(result.settings["lengths"]):
        for task, cell in (("Index", f"index_single_{length}"), ("Retrieval", f"retrieval_single_{length}")):
            reached = accuracy(result, cell).mean(0)
            partly = (
                (angles * length <= math.pi) & (reached > reached.min() + 0.05) & (reached < SOLVED * reached.max())
            )
            ours[f"ends minus middle, {task}, {length} positions"] = mean_interval(
                u_index(result, cell)[:, partly].mean(1)
            )
    held = [
        estimate.low > 0 if "Index" in name else estimate.high < 0
        for name, estimate in ours.items()
        if isinstance(estimate, Estimate)
    ]
    return Finding(
        ours=ours,
        model=MODEL,
        evidence=[NAME, SHOWN_IN],
        verdict="reproduced in kind" if all(held) else "not reproduced",
        note=f"The sign is the paper's with an interval off zero in {sum(held)} of {len(held)} cases; mean over the "
        "angles with theta times length up to pi that solve the task in part; intervals over seeds.",
    )

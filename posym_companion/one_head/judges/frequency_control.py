"""Curves, thresholds and judges of the claims about toys that own chosen angles, from the stored frequency control."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.one_head.frequency_control import NAME
from posym_companion.results import Result
from posym_core.metrics import Estimate, mean_interval

MODEL = "one-layer attention-only toys, one or two angles a head"
SHOWN_IN = "book/one_head/success_by_frequency.ipynb"
LENGTH = 32
# A task counts as solved above this accuracy, and as failed below the other.
SOLVED, FAILED = 0.9, 0.5
ONE_ANGLE = "Partial induction, any single angle, best"

Arrays = Result | Mapping[str, np.ndarray]


def accuracy(result: Arrays, cell: str) -> np.ndarray:
    """Return the accuracy over all inputs, ``[seed, variant]``."""
    return result[f"{cell}/hits"].sum(-1, dtype=np.int64) / result[f"{cell}/asked"].sum(-1, dtype=np.int64)[:, None]


def accuracy_by_position(result: Arrays, cell: str) -> np.ndarray:
    """Return accuracy by the answer's position, ``[seed, variant, position]``; NaN where the task never puts it."""
    hits, asked = result[f"{cell}/hits"].astype(float), result[f"{cell}/asked"].astype(float)[:, None]
    return np.where(asked > 0, hits / np.maximum(asked, 1), np.nan)


def u_index(result: Arrays, cell: str) -> np.ndarray:
    """Return ends minus middle ``[seed, variant]``: above 0 is U-shaped ("lost in the middle"), below 0 inverse-U.

    Accuracy where the answer stands in the first or last eighth of the positions, minus accuracy in the central
    quarter, every position counting alike. Only for tasks whose answers stand everywhere.
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
    """Return each seed's :func:`threshold` ``[seed]``: for Index and Retrieval, which one end of the angles solves."""
    angles = variant_angles(result)
    return np.array([threshold(angles, curve) for curve in accuracy(result, cell)])


def windows(result: Arrays, cell: str) -> np.ndarray:
    """Return :func:`window` of every seed ``[seed, (slow, fast)]``: for Partial induction, which neither end solves."""
    angles = variant_angles(result)
    return np.array([window(angles, curve) for curve in accuracy(result, cell)])


def variant_angles(result: Arrays) -> np.ndarray:
    """``[variant]``: the angle of each variant of the ``single`` cells, ``theta_2`` of the ``pair`` cells."""
    return result["angles"][result["frequencies"] - 1]


def bent_angles(result: Result, cell: str, length: int, *, half_turn: bool = True) -> np.ndarray:
    """Which angles solve a task in part, and (as Theorem 7 asks) turn by at most half a turn over the context."""
    reached = accuracy(result, cell).mean(0)
    partly = (reached > reached.min() + 0.05) & (reached < SOLVED * reached.max())
    return partly & (result["angles"] * length <= math.pi) if half_turn else partly


def best_angle_accuracy(accuracies: np.ndarray) -> Estimate:
    """Accuracy ``[seed, angle]`` at the angle that is best on average over seeds, so that no seed is picked."""
    return mean_interval(accuracies[:, accuracies.mean(0).argmax()])


@judge(SHOWN_IN, measured_on=MODEL)
def frequency_decides(look: Look) -> Iterator[Yielded]:
    """U25-6: which angles solve which task, at every length."""
    result = look.load(NAME)
    for length in sorted(result.settings["lengths"]):
        at = f"{length} positions"
        for task in ("Index", "Retrieval"):
            reached = accuracy(result, f"{task.lower()}_single_{length}")
            quarter = reached.shape[1] // 4
            fastest = f"{task}, fastest quarter{' of angles' if task == 'Index' else ''}, best"
            yield fastest, at, best_angle_accuracy(reached[:, :quarter])
            yield f"{task}, slowest quarter, best", at, best_angle_accuracy(reached[:, -quarter:])
        single, pair = (accuracy(result, f"induction_{cell}_{length}") for cell in ("single", "pair"))
        yield ONE_ANGLE, at, best_angle_accuracy(single)
        yield "Partial induction, angles 0 and theta, best", at, best_angle_accuracy(pair)
        yield "Partial induction, angles 0 and the fastest", at, mean_interval(pair[:, 0])
        yield "Partial induction, angles 0 and the slowest", at, mean_interval(pair[:, -1])
    if symbols := result.settings.get("few_symbols"):
        few = accuracy(result, f"induction_few_{LENGTH}")
        yield ONE_ANGLE, f"{LENGTH} positions, {symbols} symbols", best_angle_accuracy(few)
    look.note = (
        f"Solved is above {SOLVED:.0%}, failed below {FAILED:.0%}, with intervals over {len(single)} seeds, at the "
        "best angle of a quarter. A set-up is a length, or few symbols; other details are this project's."
    )


@judge(
    SHOWN_IN,
    measured_on=MODEL,
    note="Angles that solve the task in part and turn by at most half a turn over the context; intervals over seeds.",
)
def accuracy_is_bent(look: Look) -> Iterator[Yielded]:
    """U25-7: ends minus middle at every angle that is too slow for Index, or not slow enough for Retrieval."""
    result = look.load(NAME)
    for length in sorted(result.settings["lengths"]):
        for task, sign in (("Index", 1), ("Retrieval", -1)):
            cell, where = f"{task.lower()}_single_{length}", f"{task}, {length} positions"
            bends, partly = sign * u_index(result, cell), bent_angles(result, cell, length)
            for k in np.flatnonzero(partly):
                angle = f"{where}, {result['angles'][k]:.2g} rad"
                yield "ends minus middle, times the paper's sign", angle, mean_interval(bends[:, k])

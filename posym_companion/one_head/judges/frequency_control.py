"""Curves, thresholds and judges of the claims about toys that own chosen angles, from the stored frequency control."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.one_head.frequency_control import NAME
from posym_companion.results import Result, load_result
from posym_core.metrics import Estimate, mean_interval

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


def bent_angles(result: Result, cell: str, length: int, *, half_turn: bool = True) -> np.ndarray:
    """Which angles solve a task in part, and (as Theorem 7 asks) turn by at most half a turn over the context."""
    reached = accuracy(result, cell).mean(0)
    partly = (reached > reached.min() + 0.05) & (reached < SOLVED * reached.max())
    return partly & (result["angles"] * length <= math.pi) if half_turn else partly


def best_angle_accuracy(accuracies: np.ndarray) -> Estimate:
    """Accuracy ``[seed, angle]`` at the angle that is best on average over seeds, so that no seed is picked."""
    return mean_interval(accuracies[:, accuracies.mean(0).argmax()])


def frequency_decides(folder: Path | None) -> Measured:
    """U25-6: which angles solve which task, at every length."""
    result = load_result(NAME, folder=folder)
    lengths = sorted(result.settings["lengths"])
    ours: dict[str, Number] = {}
    held: dict[str, dict[str, bool]] = {}
    for length in lengths:
        index, retrieval, single, pair = (
            accuracy(result, f"{cell}_{length}")
            for cell in ("index_single", "retrieval_single", "induction_single", "induction_pair")
        )
        quarter = index.shape[1] // 4
        fast, slow, at = slice(None, quarter), slice(-quarter, None), f"{length} positions"
        found = {
            f"Index, fastest quarter of angles, best ({at})": best_angle_accuracy(index[:, fast]),
            f"Index, slowest quarter, best ({at})": best_angle_accuracy(index[:, slow]),
            f"Retrieval, fastest quarter, best ({at})": best_angle_accuracy(retrieval[:, fast]),
            f"Retrieval, slowest quarter, best ({at})": best_angle_accuracy(retrieval[:, slow]),
            f"Partial induction, any single angle, best ({at})": best_angle_accuracy(single),
            f"Partial induction, angles 0 and theta, best ({at})": best_angle_accuracy(pair),
            f"Partial induction, angles 0 and the fastest ({at})": mean_interval(pair[:, 0]),
            f"Partial induction, angles 0 and the slowest ({at})": mean_interval(pair[:, -1]),
        }
        ours |= found
        index_fast, index_slow, retrieval_fast, retrieval_slow, one, two, fastest, slowest = found.values()
        for part, value in {
            "Index is solved with fast angles": index_fast.low > SOLVED,
            "Index fails with slow angles": index_slow.high < FAILED,
            "Retrieval is solved with slow angles": retrieval_slow.low > SOLVED,
            "Retrieval fails with fast angles": retrieval_fast.high < FAILED,
            "Partial induction fails with one angle": one.high < SOLVED,
            "Partial induction is solved with 0 and a moderate angle": two.low > SOLVED,
            "Partial induction fails with 0 and the fastest or slowest": max(fastest.high, slowest.high) < SOLVED,
        }.items():
            held.setdefault(part, {})[f"{length} positions"] = value
    if result.settings.get("few_symbols"):
        where = f"{LENGTH} positions, {result.settings['few_symbols']} symbols"
        few = ours[f"Partial induction, any single angle, best ({where})"] = best_angle_accuracy(
            accuracy(result, f"induction_few_{LENGTH}")
        )
        held["Partial induction fails with one angle"][where] = few.high < SOLVED
    return Measured(
        ours={**{part: count_cases(x.values()) for part, x in held.items()}, **ours},
        model=MODEL,
        evidence=[NAME, SHOWN_IN],
        fails_in=[f"{part}: not at {where}" for part, x in held.items() for where, kept in x.items() if not kept],
        note=f"Solved is above {SOLVED:.0%}, failed below {FAILED:.0%}, with intervals over {len(index)} seeds, at "
        "the best angle of a quarter. A set-up is a length, or few symbols; other details are this project's.",
    )


def accuracy_is_bent(folder: Path | None) -> Measured:
    """U25-7: ends minus middle at every angle that is too slow for Index, or not slow enough for Retrieval."""
    result = load_result(NAME, folder=folder)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {"Index": [], "Retrieval": []}
    means: list[bool] = []
    fails = []
    for length in sorted(result.settings["lengths"]):
        for task, sign in (("Index", 1), ("Retrieval", -1)):
            cell = f"{task.lower()}_single_{length}"
            bends, partly = u_index(result, cell), bent_angles(result, cell, length)
            mean = ours[f"ends minus middle, {task}, {length} positions"] = mean_interval(bends[:, partly].mean(1))
            means.append(mean.low > 0 if sign > 0 else mean.high < 0)
            each = [mean_interval(sign * bends[:, k]) for k in np.flatnonzero(partly)]
            here = count_cases(x.low > 0 for x in each)
            held[task] += [x.low > 0 for x in each]
            ours[f"angles with the paper's sign, {task}, {length} positions"] = here
            against = sum(x.high < 0 for x in each)
            if here.held < here.of:
                fails.append(f"{task}, {length} positions: {here} angles; {against} have the other sign for certain")
            anywhere = bends[:, bent_angles(result, cell, length, half_turn=False)].mean(1)
            ours[f"the same mean without the limit of half a turn, {task}, {length} positions"] = mean_interval(
                anywhere
            )
            if not (sign * anywhere > 0).all():
                fails.append(f"{task}, {length} positions, angles beyond half a turn too: mean {anywhere.mean():.4f}")
    return Measured(
        ours={
            **{f"{task}: angles with the paper's sign": count_cases(x) for task, x in held.items()},
            "tasks and lengths whose mean has the paper's sign": count_cases(means),
            **ours,
        },
        model=MODEL,
        evidence=[NAME, SHOWN_IN],
        fails_in=fails,
        note="Angles that solve the task in part and turn by at most half a turn over the context; intervals over "
        "seeds.",
    )

"""Curves, intervals and thresholds read from a ``frequency_control`` result.

Every interval is Student's over seeds (each seed has its own initial weights and its own training and test data),
two-sided at 95 %, cut to the range the quantity can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from posym_core.models.constructed.canonical_limits import index_gap, planar_retrieval_limit, recency_angle_limit
from posym_core.runs.results import Result

LEVEL = 0.95
Arrays = Result | Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Means over seeds with the ends of their intervals; all arrays have one shape."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def seed_interval(values: np.ndarray, *, least: float = -np.inf, most: float = np.inf) -> Interval:
    """Mean over seeds (the first dimension) with Student's interval.

    Raises:
        ValueError: if there are fewer than two seeds.

    >>> seed_interval(np.array([[0.4, 1.0], [0.6, 1.0]]), most=1.0).mean
    array([0.5, 1. ])
    """
    from scipy import stats

    values = np.asarray(values, dtype=np.float64)
    if values.ndim < 1 or len(values) < 2:
        raise ValueError(f"an interval over seeds needs two or more; got values of shape {values.shape}")
    mean = values.mean(0)
    error = values.std(0, ddof=1) / np.sqrt(len(values))
    half = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * error
    return Interval(mean=mean, low=np.clip(mean - half, least, most), high=np.clip(mean + half, least, most))


def accuracy(result: Arrays, cell: str) -> np.ndarray:
    """``[seed, variant]``, over all test inputs."""
    return result[f"{cell}/hits"].sum(-1, dtype=np.int64) / result[f"{cell}/asked"].sum(-1, dtype=np.int64)[:, None]


def accuracy_by_position(result: Arrays, cell: str) -> np.ndarray:
    """``[seed, variant, position]`` of the answer; NaN where the task never puts it."""
    asked = result[f"{cell}/asked"][:, None].astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(asked > 0, result[f"{cell}/hits"] / asked, np.nan)


def u_index(result: Arrays, cell: str) -> np.ndarray:
    """Ends minus middle ``[seed, variant]``: above 0 is U-shaped ("lost in the middle"), below 0 inverse-U.

    Accuracy where the answer stands in the first or last eighth of the positions, minus accuracy in the central
    quarter: as many positions on both sides. Only for tasks whose answers stand everywhere.

    Raises:
        ValueError: if some of these positions were never asked for.
    """
    hits, asked = result[f"{cell}/hits"].astype(float), result[f"{cell}/asked"].astype(float)
    length = asked.shape[-1]
    eighth = max(1, length // 8)
    middle = slice(length // 2 - eighth, length - length // 2 + eighth)
    ends = np.r_[0:eighth, length - eighth : length]
    if not (asked[:, ends].all() and asked[:, middle].all()):
        raise ValueError(f"{cell} never puts the answer at some end or middle position; the U-index needs all of them")
    outside = hits[..., ends].sum(-1) / asked[:, ends].sum(-1)[:, None]
    inside = hits[..., middle].sum(-1) / asked[:, middle].sum(-1)[:, None]
    return outside - inside


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


def index_gaps(result: Arrays, length: int) -> np.ndarray:
    """``[variant]``: Theorem 3's quantity, how far any two positions' phases stay from coinciding."""
    return np.array([index_gap(length, float(angle)) for angle in variant_angles(result)])


def predicted_limits(length: int, symbols: int) -> dict[str, float]:
    """Angles at which the constructed heads stop working at any strength.

    ``retrieval``: one plane with ``symbols`` directions works below it. ``induction``: ``theta_2`` of the head with
    angles 0 and ``theta_2`` works below it. Index has no such limit: its largest workable angle depends on which
    distances come near whole turns (:func:`index_gaps`), its smallest on the strength a head can reach.
    """
    return {"retrieval": planar_retrieval_limit(length, symbols), "induction": recency_angle_limit(length)}


def plane_energy(result: Arrays, cell: str) -> np.ndarray:
    """Share of every plane in the variance of the logits over keys ``[seed, plane]``, for ``all`` cells."""
    variance = result[f"{cell}/plane_variance"].astype(float)
    return variance / variance.sum(-1, keepdims=True)

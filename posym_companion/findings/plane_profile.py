"""At which angle a plane turns from position to symbol, from the stored profile of planes."""

from __future__ import annotations

import itertools

import numpy as np


def turning_angle(kept: np.ndarray, angles: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Angle at which half of the contents' variance is symbol, between the slowest planes and the first that lose it.

    Args:
        kept: ``[head, plane]``, ``S / (S + I)``; NaN where undefined.
        angles: ``[plane]``, fastest first, above 0.
        weights: ``[head, plane]``, what a head's plane counts; by default all the same.

    Returns:
        Radians per position, interpolated in its logarithm; NaN if the mean never crosses one half.

    By the law of the shares, ``kept`` is the squared Dirichlet kernel whatever the contents are, if their spread has
    no direction: one half at ``angle * keys = 2.78``.
    """
    counted = np.isfinite(kept)
    heavy = np.where(counted, np.ones_like(kept) if weights is None else weights, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (np.where(counted, kept, 0) * heavy).sum(0) / heavy.sum(0)
    slow_first = [(a, m) for a, m in zip(angles[::-1], mean[::-1], strict=True) if np.isfinite(m) and a > 0]
    for (slow, above), (fast, below) in itertools.pairwise(slow_first):
        if above >= 0.5 > below:
            part = (above - 0.5) / (above - below)
            return float(np.exp(np.log(slow) + part * (np.log(fast) - np.log(slow))))
    return float("nan")

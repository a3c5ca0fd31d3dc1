"""Statistics of scores beside their means: the order of layers, groups of prompts, what a score depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from posym_core._checks import convert_array, require_count, require_scores
from posym_core.metrics import DRAWS, Estimate, average_prompts, statistic_interval, student_margin


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Many estimates by one method; the arrays share a shape."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    method: str = ""


@dataclass(frozen=True, kw_only=True)
class LayerPermutation:
    """A statistic of the layers as they stand, and the fraction of orders (this one included) as far from 0."""

    value: float
    p: float


def permute_layers(
    statistic: Callable[[np.ndarray], float], scores: torch.Tensor | np.ndarray, *, draws: int = DRAWS, seed: int = 0
) -> LayerPermutation:
    """Return how often a statistic of the layers' order is as far from 0 when the layers stand in random order.

    Whole layers change places, each with all its heads, so that heads of one layer are not taken as independent. That
    neighbouring layers resemble each other is not respected: the order of layers is taken as exchangeable.
    """
    draws = require_count("draws", draws, 1)
    x = average_prompts(require_scores("scores", scores))[0]
    if len(x) < 2:
        raise ValueError(f"layers in random order need at least two layers; got {len(x)}")
    generator = np.random.default_rng(seed)
    here = float(statistic(x))
    drawn = np.array([statistic(x[generator.permutation(len(x))]) for _ in range(draws)])
    if not (np.isfinite(here) and np.isfinite(drawn).all()):
        raise ValueError(
            f"a permutation test needs a statistic that is finite in every order of the layers; it is {here} as they "
            f"stand and finite in {int(np.isfinite(drawn).sum())} of {draws} orders, and {int(np.isnan(x).sum())} of "
            f"{x.size} heads have no score. Leave these out, or pass a statistic that does"
        )
    # Rounding must not decide whether a drawn order that gives the same number counts.
    extreme = int((np.abs(drawn) >= abs(here) - 1e-12 * max(1.0, abs(here))).sum())
    return LayerPermutation(value=here, p=(1 + extreme) / (1 + draws))


def student_interval(
    values: torch.Tensor | np.ndarray, *, over: str = "values", least: float = -np.inf, most: float = np.inf
) -> Estimates:
    """Return means over the first dimension with Student's intervals, cut to the quantity's range ``least .. most``.

    Takes what :func:`student_margin` takes.

    >>> student_interval(np.array([[0.4, 1.0], [0.6, 1.0]]), most=1.0).value
    array([0.5, 1. ])
    """
    x = convert_array(values)
    half, mean = student_margin(x), x.mean(0)
    low, high = np.clip(mean - half, least, most), np.clip(mean + half, least, most)
    return Estimates(value=mean, low=low, high=high, method=f"Student's t over {over}")


def divide_sums(parts: torch.Tensor | np.ndarray, wholes: torch.Tensor | np.ndarray, *, draws: int = DRAWS) -> Estimate:
    """Return the sum of ``parts[prompt]`` over that of ``wholes[prompt]``, with an interval over prompts.

    The slope of ``y`` over ``x`` through zero has the parts ``(x * y).sum(1)`` and the wholes ``(x**2).sum(1)``.

    >>> divide_sums(np.array([1.0, 2.0]), np.array([2.0, 4.0]), draws=10).value
    0.5
    """
    sums = np.stack([convert_array(parts), convert_array(wholes)], -1)[:, None]
    if not (np.isfinite(sums).all() and sums[..., 1].sum() > 0):
        return Estimate(value=np.nan, low=np.nan, high=np.nan)
    return statistic_interval(
        lambda x: x[..., 0].sum((-1, -2)) / x[..., 1].sum((-1, -2)), sums, draws=draws, vectorized=True
    )


def number_labels(name: str, x: torch.Tensor | np.ndarray) -> np.ndarray:
    """Number labels of any type from 0, in the same shape."""
    x = convert_array(x, None)
    if (x != x).any():
        raise ValueError(f"{name} must be labels; {int((x != x).sum())} of {x.size} are NaN. Leave out what has none")
    return np.unique(x, return_inverse=True)[1].reshape(x.shape)

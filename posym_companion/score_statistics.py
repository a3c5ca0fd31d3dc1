"""What chapters ask of scores beside their means: the order of layers, groups of prompts, what a score depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from posym_core._checks import convert_array, convert_membership, require_count, require_scores
from posym_core.metrics import DRAWS, Estimate, Estimates, Resample, average_prompts, statistic_interval, student_margin


@dataclass(frozen=True, kw_only=True)
class LayerPermutation:
    """A statistic of the layers as they stand, and the fraction of orders (this one included) as far from 0."""

    value: float
    p: float


@dataclass(frozen=True, kw_only=True)
class GroupDifference:
    """Difference between prompts in a group and the others; every field has the measurements' shape.

    Attributes:
        difference: mean within the group minus mean of the rest; ``low`` and ``high`` by bootstrap over prompts.
        p: two-sided, from shuffled labels, each measurement by itself.
        p_adjusted: the same for the whole family of measurements: how often the largest difference of any, in units
            of its own spread, is as large by chance. It bounds the probability of a single false find.
    """

    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    p_adjusted: np.ndarray


def permute_layers(
    statistic: Callable[[np.ndarray], float], scores: torch.Tensor | np.ndarray, *, draws: int = DRAWS, seed: int = 0
) -> LayerPermutation:
    """How often a statistic of the layers' order is as far from 0 when the layers stand in random order.

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


def compare_groups(
    values: torch.Tensor | np.ndarray,
    group: torch.Tensor | np.ndarray,
    *,
    strata: torch.Tensor | np.ndarray | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> GroupDifference:
    """Mean of prompts in a group minus that of the others, for many measurements at once.

    With ``strata`` only prompts of the same stratum are compared: values and membership are taken relative to their
    stratum's mean, and labels are shuffled within strata only.
    """
    draws = require_count("draws", draws, 1)
    x = convert_array(values)
    inside = convert_membership("group", group)
    labels = np.zeros(inside.shape, dtype=int) if strata is None else number_labels("strata", strata)
    if inside.ndim != 1 or x.ndim < 1 or len(x) != len(inside) or labels.shape != inside.shape:
        raise ValueError(
            f"values, group and strata must have one entry per prompt; got {x.shape}, {inside.shape} and {labels.shape}"
        )
    if not np.isfinite(x).all():
        raise ValueError(f"values must be finite; {int((~np.isfinite(x)).sum())} of {x.size} are not")
    rows, shape = x.reshape(len(x), -1), x.shape[1:]
    members = [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]
    if not any(0 < inside[rows_of].mean() < 1 for rows_of in members):
        raise ValueError("a difference needs prompts on both sides within a stratum; every stratum has one side only")

    def centred(y: np.ndarray) -> np.ndarray:
        y = y.astype(np.float64).copy()
        for rows_of in members:
            y[rows_of] -= y[rows_of].mean(0)
        return y

    sign, deviation = centred(inside), centred(rows)
    energy = sign @ sign
    spread = np.sqrt((deviation**2).mean(0))
    unit = np.where(spread > 0, spread, 1) / np.sqrt(energy)
    here = sign @ deviation / energy
    generator = np.random.default_rng(seed)
    sample = Resample([len(rows_of) for rows_of in members], over="prompts", draws=draws, seed=seed)
    least, family = np.ones(rows.shape[1]), np.ones(rows.shape[1])
    resampled = np.empty((draws, rows.shape[1]))
    for draw in range(draws):
        shuffled, chosen = sign.copy(), np.empty(len(rows), dtype=int)
        for rows_of, drawn in zip(members, sample.places, strict=True):
            shuffled[rows_of] = sign[generator.permutation(rows_of)]
            chosen[rows_of] = rows_of[drawn[draw]]
        by_chance = np.abs(shuffled @ deviation / energy)
        least += by_chance >= np.abs(here) - 1e-12
        family += (by_chance / unit).max() >= np.abs(here) / unit - 1e-12
        again, other = centred(inside[chosen]), rows[chosen]
        strength = again @ again
        resampled[draw] = again @ other / strength if strength > 0 else np.nan
    if np.isnan(resampled).all():
        raise ValueError(f"an interval needs a draw with prompts on both sides; none of {draws} has. Pass more draws")
    low, high = sample.ends(resampled)
    return GroupDifference(
        difference=here.reshape(shape),
        low=low.reshape(shape),
        high=high.reshape(shape),
        p=(least / (1 + draws)).reshape(shape),
        p_adjusted=(family / (1 + draws)).reshape(shape),
    )


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


def variance_shares(
    scores: torch.Tensor | np.ndarray, *, draws: int = 200, seed: int = 0
) -> dict[Literal["head", "task", "head x task", "prompt", "rest"], Estimate]:
    """What a score ``[task, prompt, layer, head]`` depends on, as shares of its sum of squares that add up to 1.

    ``head`` is the part that a head keeps over tasks, ``task`` and ``prompt`` (within a task) what all heads share,
    ``head x task`` what is a head's own on a task, and ``rest`` what is a head's own on a single prompt. Intervals
    resample layers, and prompts within tasks.
    """
    x = convert_array(scores)
    if x.ndim != 4 or 0 in x.shape:
        raise ValueError(f"scores must have shape [task, prompt, layer, head] with one of each; got {x.shape}")
    if not np.isfinite(x).all() or np.ptp(x) == 0:
        raise ValueError("scores must be finite and not all equal; shares of no variance are undefined")

    def parts(y: np.ndarray) -> np.ndarray:
        y = y.reshape(*y.shape[:2], -1)
        # Of one value repeated the mean may be off by rounding, which is no variance.
        y = y - y.mean() if np.ptp(y) > 0 else np.zeros_like(y)
        head, task, both = y.mean((0, 1)), y.mean((1, 2)), y.mean(1)
        prompt = y.mean(2) - task[:, None]
        interaction = both - head - task[:, None]
        rest = y - both[:, None] - prompt[..., None]
        squares = [(part**2).mean() for part in (head, task, interaction, prompt, rest)]
        # A draw that repeats one value has no variance to share out and counts for none.
        return np.array(squares) / sum(squares) if sum(squares) > 0 else np.full(len(squares), np.nan)

    over = "layers, and prompts within tasks"
    sample = Resample([x.shape[2], *[x.shape[1]] * len(x)], over=over, draws=draws, seed=seed, one_by_one=True)
    layers, *prompts = sample.places
    drawn = [x[:, :, at][np.arange(len(x))[:, None], of] for at, of in zip(layers, np.stack(prompts, 1), strict=True)]
    here, many = parts(x), np.array([parts(y) for y in drawn])
    names: tuple[Literal["head", "task", "head x task", "prompt", "rest"], ...]
    names = ("head", "task", "head x task", "prompt", "rest")
    return {name: sample.estimate(float(here[place]), many[:, place]) for place, name in enumerate(names)}


def number_labels(name: str, x: torch.Tensor | np.ndarray) -> np.ndarray:
    """Number labels of any type from 0, in the same shape."""
    x = convert_array(x, None)
    if (x != x).any():
        raise ValueError(f"{name} must be labels; {int((x != x).sum())} of {x.size} are NaN. Leave out what has none")
    return np.unique(x, return_inverse=True)[1].reshape(x.shape)

"""Early against late layers, a group of prompts against the others: differences, intervals and permutation tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from posym_core.checks import require_count
from posym_core.metrics.stats import (
    DRAWS,
    Estimate,
    Resample,
    ResampledHeads,
    as_array,
    as_labels,
    as_membership,
    mean_over_prompts,
    require_scores,
)


@dataclass(frozen=True, kw_only=True)
class LayerContrast:
    """A score in the early and the late half of the layers.

    Attributes:
        early: median over heads of the first half (mean over prompts first, as the papers do).
        late: median over heads of the second half.
        difference: ``early - late`` with its interval.
        p: two-sided Mann-Whitney test of early against late heads, taken as independent.
    """

    early: Estimate
    late: Estimate
    difference: Estimate
    p: float


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


def layer_contrast(
    scores: torch.Tensor | np.ndarray, *, split: int | None = None, draws: int = DRAWS, seed: int = 0
) -> LayerContrast:
    """A score ``[prompt, layer, head]`` in layers before ``split`` (default: half of them) against the rest.

    Raises:
        ValueError: if either side has no layer, or no head with a score, or ``draws`` is below 1.
    """
    from scipy import stats

    x = require_scores("scores", scores)
    split = int(x.shape[1] // 2 if split is None else split)
    if not 0 < split < x.shape[1]:
        raise ValueError(f"split must leave layers on both sides, between 1 and {x.shape[1] - 1}; got {split}")
    sample = ResampledHeads(x.shape, draws=draws, seed=seed, split=split)

    def medians(heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        median = np.median if np.isfinite(heads).all() else np.nanmedian
        return median(heads[:, :split], axis=(1, 2)), median(heads[:, split:], axis=(1, 2))

    here = mean_over_prompts(x)
    before, after = (heads[np.isfinite(heads)] for heads in (here[0, :split], here[0, split:]))
    if not before.size or not after.size:
        raise ValueError("a contrast needs heads with a score on both sides; one side has none")
    (early,), (late,) = medians(here)
    drawn = sample.of(x)
    defined = np.isfinite(drawn)
    # A draw without a score on one side says nothing about the contrast.
    drawn = drawn[defined[:, :split].any(axis=(1, 2)) & defined[:, split:].any(axis=(1, 2))]
    if not len(drawn):
        raise ValueError(f"a contrast needs draws with a score on both sides; none of {draws} has. Pass more draws")
    many_early, many_late = medians(drawn)
    return LayerContrast(
        early=sample.estimate(float(early), many_early),
        late=sample.estimate(float(late), many_late),
        difference=sample.estimate(float(early - late), many_early - many_late),
        p=float(stats.mannwhitneyu(before, after).pvalue),
    )


def layer_permutation(
    statistic: Callable[[np.ndarray], float], scores: torch.Tensor | np.ndarray, *, draws: int = DRAWS, seed: int = 0
) -> LayerPermutation:
    """How often a statistic of the layers' order is as far from 0 when the layers stand in random order.

    Whole layers change places, each with all its heads, so that heads of one layer are not taken as independent. That
    neighbouring layers resemble each other is not respected: the order of layers is taken as exchangeable.

    Args:
        statistic: takes mean scores over prompts ``[layer, head]`` and returns a number, 0 if the order means nothing.
        scores: ``[prompt, layer, head]``.

    Raises:
        ValueError: if the shape does not fit, there are fewer than two layers, the statistic is not finite in some
            order of the layers, or ``draws`` is below 1.
    """
    draws = require_count("draws", draws, 1)
    x = mean_over_prompts(require_scores("scores", scores))[0]
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


def group_difference(
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

    Args:
        values: ``[prompt, ...]``, all finite.
        group: which prompts are in the group, ``[prompt]`` booleans.
        strata: a label per prompt.

    Raises:
        ValueError: if shapes do not fit, ``group`` holds what is neither true nor false, a stratum is NaN, no stratum
            or no draw has prompts on both sides, or ``draws`` is below 1.
    """
    draws = require_count("draws", draws, 1)
    x = as_array(values)
    inside = as_membership("group", group)
    labels = np.zeros(inside.shape, dtype=int) if strata is None else as_labels("strata", strata)
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

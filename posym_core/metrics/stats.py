"""Correlations, contrasts and intervals over heads and prompts.

Heads of one layer share their input and prompts share their template, so neither are independent draws. Intervals
come from a bootstrap that resamples whole layers (with all their heads) and whole prompts; the p-values of the
textbook tests, which treat heads as independent, are given beside them because the papers report those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its bootstrap interval.

    Attributes:
        value: the statistic of the data as they are.
        low: lower end of the interval.
        high: upper end.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def excludes(self, number: float) -> bool:
        """Whether ``number`` lies outside the interval."""
        return not self.low <= number <= self.high


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """Pearson and Spearman correlation over heads: estimates, and p-values that treat heads as independent."""

    pearson: Estimate
    pearson_p: float
    spearman: Estimate
    spearman_p: float


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
    """A statistic of the layers' order and how often random orders do as much.

    Attributes:
        value: the statistic of the layers as they stand.
        p: two-sided, fraction of orders (this one included) that are as far from 0.
    """

    value: float
    p: float


@dataclass(frozen=True, kw_only=True)
class GroupDifference:
    """Difference between prompts in a group and the others; every field has the measurements' shape.

    Attributes:
        difference: mean within the group minus mean of the rest.
        low: lower end of its bootstrap interval over prompts.
        high: upper end.
        p: two-sided, from shuffled labels, each measurement by itself.
        p_adjusted: the same for the whole family of measurements: how often the largest difference of any, in units
            of its own spread, is as large by chance. It bounds the probability of a single false find.
    """

    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    p_adjusted: np.ndarray


def head_correlation(
    first: torch.Tensor | np.ndarray, second: torch.Tensor | np.ndarray, *, draws: int = DRAWS, seed: int = 0
) -> Correlation:
    """Correlation over heads of two scores ``[prompt, layer, head]``, each first averaged over prompts.

    A prompt on which a head has no score (NaN) does not count for that head.

    Raises:
        ValueError: if shapes differ, there are fewer than three heads, a head has no score on any prompt, or all heads
            have the same.
    """
    from scipy import stats

    x, y = _scores("first", first), _scores("second", second)
    if x.shape != y.shape:
        raise ValueError(f"both scores must have the same shape [prompt, layer, head]; got {x.shape} and {y.shape}")
    if x.shape[1] * x.shape[2] < 3:
        raise ValueError(f"a correlation needs at least three heads; got {x.shape[1] * x.shape[2]}")
    heads_x, heads_y = _mean_over_prompts(x)[0].ravel(), _mean_over_prompts(y)[0].ravel()
    for heads in (heads_x, heads_y):
        if not np.isfinite(heads).all() or np.ptp(heads) <= 8 * np.finfo(float).eps * np.abs(heads).max():
            raise ValueError(
                f"a correlation needs scores of every head, not all the same; {int(np.isfinite(heads).sum())} of "
                f"{heads.size} heads have one. Leave out the others"
            )
    pearson, pearson_p = map(float, tuple(stats.pearsonr(heads_x, heads_y)))
    spearman, spearman_p = map(float, tuple(stats.spearmanr(heads_x, heads_y)))
    sample = _Resample(x.shape, [np.arange(x.shape[1])], draws, seed)
    many_x, many_y = (sample.of(scores).reshape(draws, -1) for scores in (x, y))
    return Correlation(
        pearson=_estimate(pearson, _row_correlation(many_x, many_y)),
        pearson_p=pearson_p,
        spearman=_estimate(spearman, _row_correlation(stats.rankdata(many_x, axis=1), stats.rankdata(many_y, axis=1))),
        spearman_p=spearman_p,
    )


def layer_contrast(
    scores: torch.Tensor | np.ndarray, *, split: int | None = None, draws: int = DRAWS, seed: int = 0
) -> LayerContrast:
    """A score ``[prompt, layer, head]`` in layers before ``split`` (default: half of them) against the rest.

    Raises:
        ValueError: if either side has no layer, or no head with a score.
    """
    from scipy import stats

    x = _scores("scores", scores)
    split = int(x.shape[1] // 2 if split is None else split)
    if not 0 < split < x.shape[1]:
        raise ValueError(f"split must leave layers on both sides, between 1 and {x.shape[1] - 1}; got {split}")
    sample = _Resample(x.shape, [np.arange(split), np.arange(split, x.shape[1])], draws, seed)

    def medians(heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.nanmedian(heads[:, :split], axis=(1, 2)), np.nanmedian(heads[:, split:], axis=(1, 2))

    here = _mean_over_prompts(x)
    before, after = (heads[np.isfinite(heads)] for heads in (here[0, :split], here[0, split:]))
    if not before.size or not after.size:
        raise ValueError("a contrast needs heads with a score on both sides; one side has none")
    (early,), (late,) = medians(here)
    drawn = sample.of(x)
    defined = np.isfinite(drawn)
    # A draw without a score on one side says nothing about the contrast.
    drawn = drawn[defined[:, :split].any(axis=(1, 2)) & defined[:, split:].any(axis=(1, 2))]
    many_early, many_late = medians(drawn)
    return LayerContrast(
        early=_estimate(float(early), many_early),
        late=_estimate(float(late), many_late),
        difference=_estimate(float(early - late), many_early - many_late),
        p=float(stats.mannwhitneyu(before, after).pvalue),
    )


def mean_interval(values: torch.Tensor | np.ndarray, *, draws: int = DRAWS, seed: int = 0) -> Estimate:
    """Mean of independent values ``[draw]`` (prompts, seeds) with its bootstrap interval; NaN does not count.

    Raises:
        ValueError: if there is no value, or an infinite one.
    """
    x = np.asarray(values, dtype=np.float64).ravel()
    if np.isinf(x).any():
        raise ValueError(f"values must be finite, or NaN where undefined; {int(np.isinf(x).sum())} are infinite")
    if np.isnan(x).all():
        raise ValueError("a mean needs at least one value; got none")
    drawn = x[np.random.default_rng(seed).integers(0, x.size, (draws, x.size))]
    # A draw of undefined values only has no mean and says nothing.
    drawn = drawn[~np.isnan(drawn).all(axis=1)]
    return _estimate(float(np.nanmean(x)), np.nanmean(drawn, axis=1))


def statistic_interval(
    statistic: Callable[[np.ndarray], float], scores: torch.Tensor | np.ndarray, *, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """Any statistic of ``scores[prompt, layer, ...]``, resampling prompts and layers.

    ``statistic`` takes an array of the same layout and returns a number.
    """
    x = np.asarray(scores, dtype=np.float64)
    sample = _Resample(x.shape, [np.arange(x.shape[1])], draws, seed)
    drawn = zip(sample.prompts, sample.layers, strict=True)
    return _estimate(statistic(x), np.array([statistic(x[prompts][:, layers]) for prompts, layers in drawn]))


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
        ValueError: if the shape does not fit or there are fewer than two layers.
    """
    x = _mean_over_prompts(_scores("scores", scores))[0]
    if len(x) < 2:
        raise ValueError(f"layers in random order need at least two layers; got {len(x)}")
    generator = np.random.default_rng(seed)
    here = float(statistic(x))
    drawn = np.array([statistic(x[generator.permutation(len(x))]) for _ in range(draws)])
    # Rounding must not decide whether a drawn order that gives the same number counts.
    extreme = int((np.abs(drawn) >= abs(here) - 1e-12).sum())
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
        ValueError: if shapes do not fit, or no stratum has prompts on both sides.
    """
    x = np.asarray(values, dtype=np.float64)
    inside = np.asarray(group).astype(np.float64)
    labels = (
        np.zeros(len(inside), dtype=int) if strata is None else np.unique(np.asarray(strata), return_inverse=True)[1]
    )
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
    least, family = np.ones(rows.shape[1]), np.ones(rows.shape[1])
    resampled = np.empty((draws, rows.shape[1]))
    for draw in range(draws):
        shuffled, chosen = sign.copy(), np.empty(len(rows), dtype=int)
        for rows_of in members:
            shuffled[rows_of] = sign[generator.permutation(rows_of)]
            chosen[rows_of] = generator.choice(rows_of, len(rows_of))
        by_chance = np.abs(shuffled @ deviation / energy)
        least += by_chance >= np.abs(here) - 1e-12
        family += (by_chance / unit).max() >= np.abs(here) / unit - 1e-12
        again, other = centred(inside[chosen]), rows[chosen]
        strength = again @ again
        resampled[draw] = again @ other / strength if strength > 0 else np.nan
    low, high = np.nanquantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return GroupDifference(
        difference=here.reshape(shape),
        low=low.reshape(shape),
        high=high.reshape(shape),
        p=(least / (1 + draws)).reshape(shape),
        p_adjusted=(family / (1 + draws)).reshape(shape),
    )


def variance_shares(
    scores: torch.Tensor | np.ndarray, *, draws: int = 200, seed: int = 0
) -> dict[Literal["head", "task", "head x task", "prompt", "rest"], Estimate]:
    """What a score ``[task, prompt, layer, head]`` depends on, as shares of its sum of squares that add up to 1.

    ``head`` is the part that a head keeps over tasks, ``task`` and ``prompt`` (within a task) what all heads share,
    ``head x task`` what is a head's own on a task, and ``rest`` what is a head's own on a single prompt. Intervals
    resample layers, and prompts within tasks.

    Raises:
        ValueError: if the shape does not fit, a value is not finite, or all are equal.
    """
    x = np.asarray(scores, dtype=np.float64)
    if x.ndim != 4 or 0 in x.shape:
        raise ValueError(f"scores must have shape [task, prompt, layer, head] with one of each; got {x.shape}")
    if not np.isfinite(x).all() or np.ptp(x) == 0:
        raise ValueError("scores must be finite and not all equal; shares of no variance are undefined")

    def parts(y: np.ndarray) -> np.ndarray:
        y = y.reshape(*y.shape[:2], -1)
        y = y - y.mean()
        head, task, both = y.mean((0, 1)), y.mean((1, 2)), y.mean(1)
        prompt = y.mean(2) - task[:, None]
        own = both - head - task[:, None]
        rest = y - both[:, None] - prompt[..., None]
        squares = [(part**2).mean() for part in (head, task, own, prompt, rest)]
        # A draw that repeats one value has no variance to share out and counts for none.
        return np.array(squares) / sum(squares) if sum(squares) > 0 else np.full(len(squares), np.nan)

    generator = np.random.default_rng(seed)
    sample = []
    for _ in range(draws):
        layers = generator.integers(0, x.shape[2], x.shape[2])
        prompts = generator.integers(0, x.shape[1], (len(x), x.shape[1]))
        sample.append(parts(x[:, :, layers][np.arange(len(x))[:, None], prompts]))
    here, many = parts(x), np.array(sample)
    names: tuple[Literal["head", "task", "head x task", "prompt", "rest"], ...]
    names = ("head", "task", "head x task", "prompt", "rest")
    return {name: _estimate(float(here[place]), many[:, place]) for place, name in enumerate(names)}


def _scores(name: str, x: torch.Tensor | np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 3 or 0 in x.shape:
        raise ValueError(f"{name} must have shape [prompt, layer, head] with at least one of each; got {x.shape}")
    if np.isinf(x).any():
        raise ValueError(
            f"{name} must be finite, or NaN where undefined; {int(np.isinf(x).sum())} of {x.size} are infinite"
        )
    return x


class _Resample:
    """Prompts over all, and layers within each stratum, drawn with replacement."""

    def __init__(self, shape: tuple[int, ...], strata: list[np.ndarray], draws: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.prompts = generator.integers(0, shape[0], (draws, shape[0]))
        self.layers = np.concatenate([generator.choice(stratum, (draws, len(stratum))) for stratum in strata], axis=1)

    def of(self, scores: np.ndarray) -> np.ndarray:
        """Mean over the drawn prompts of the drawn layers, ``[draw, layer, head]``."""
        times = np.stack([np.bincount(row, minlength=len(scores)) for row in self.prompts]).astype(np.float64)
        heads = _mean_over_prompts(scores, times)
        return np.take_along_axis(heads, self.layers[:, :, None], axis=1)


def _mean_over_prompts(scores: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
    """``[draw, layer, head]``: mean of what is defined, each prompt counted so many times; NaN where nothing is."""
    times = np.ones((1, len(scores))) if times is None else times
    defined = np.isfinite(scores)
    total = np.tensordot(times, np.where(defined, scores, 0), axes=1)
    count = np.tensordot(times, defined.astype(np.float64), axes=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _row_correlation(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pearson correlation of each row of ``x`` with that of ``y``; NaN where a row is constant."""
    x, y = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    norms = np.sqrt((x**2).sum(1) * (y**2).sum(1))
    return np.where(norms > 0, (x * y).sum(1) / np.where(norms > 0, norms, 1), np.nan)


def _estimate(value: float, sample: np.ndarray) -> Estimate:
    low, high = np.nanquantile(sample, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value=value, low=float(low), high=float(high))

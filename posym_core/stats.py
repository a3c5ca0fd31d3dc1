"""Correlations, contrasts and intervals over heads and prompts.

Heads of one layer share their input and prompts share their template, so neither are independent draws. Intervals
come from a bootstrap that resamples whole layers (with all their heads) and whole prompts; the p-values of the
textbook tests, which treat heads as independent, are given beside them because the papers report those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


def head_correlation(
    first: torch.Tensor | np.ndarray, second: torch.Tensor | np.ndarray, *, draws: int = DRAWS, seed: int = 0
) -> Correlation:
    """Correlation over heads of two scores ``[prompt, layer, head]``, each first averaged over prompts.

    A prompt on which a head has no score (NaN) does not count for that head.

    Raises:
        ValueError: if shapes differ or there are fewer than three heads.
    """
    from scipy import stats

    x, y = _scores("first", first), _scores("second", second)
    if x.shape != y.shape:
        raise ValueError(f"both scores must have the same shape [prompt, layer, head]; got {x.shape} and {y.shape}")
    if x.shape[1] * x.shape[2] < 3:
        raise ValueError(f"a correlation needs at least three heads; got {x.shape[1] * x.shape[2]}")
    heads_x, heads_y = _mean_over_prompts(x)[0].ravel(), _mean_over_prompts(y)[0].ravel()
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
        ValueError: if either side has no layer.
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
    (early,), (late,) = medians(here)
    many_early, many_late = medians(sample.of(x))
    return LayerContrast(
        early=_estimate(float(early), many_early),
        late=_estimate(float(late), many_late),
        difference=_estimate(float(early - late), many_early - many_late),
        p=float(stats.mannwhitneyu(here[0, :split].ravel(), here[0, split:].ravel()).pvalue),
    )


def mean_interval(values: torch.Tensor | np.ndarray, *, draws: int = DRAWS, seed: int = 0) -> Estimate:
    """Mean of independent values ``[draw]`` (prompts, seeds) with its bootstrap interval.

    Raises:
        ValueError: if there is no value.
    """
    x = np.asarray(values, dtype=np.float64).ravel()
    if x.size == 0:
        raise ValueError("a mean needs at least one value; got none")
    index = np.random.default_rng(seed).integers(0, x.size, (draws, x.size))
    return _estimate(float(np.nanmean(x)), np.nanmean(x[index], axis=1))


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


def _scores(name: str, x: torch.Tensor | np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 3 or 0 in x.shape:
        raise ValueError(f"{name} must have shape [prompt, layer, head] with at least one of each; got {x.shape}")
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

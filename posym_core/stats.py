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

    Heads for which either score is NaN on some prompt are left out of that prompt's mean.

    Raises:
        ValueError: if shapes differ or there are fewer than three heads.
    """
    from scipy import stats

    x, y = _scores("first", first), _scores("second", second)
    if x.shape != y.shape:
        raise ValueError(f"both scores must have the same shape [prompt, layer, head]; got {x.shape} and {y.shape}")
    if x.shape[1] * x.shape[2] < 3:
        raise ValueError(f"a correlation needs at least three heads; got {x.shape[1] * x.shape[2]}")
    heads_x, heads_y = np.nanmean(x, 0).ravel(), np.nanmean(y, 0).ravel()

    def resampled(statistic: Callable[[np.ndarray, np.ndarray], float]) -> Callable[..., float]:
        return lambda prompts, layers: statistic(
            np.nanmean(x[prompts][:, layers], 0).ravel(), np.nanmean(y[prompts][:, layers], 0).ravel()
        )

    pearson, pearson_p = map(float, tuple(stats.pearsonr(heads_x, heads_y)))
    spearman, spearman_p = map(float, tuple(stats.spearmanr(heads_x, heads_y)))
    shape, everything = x.shape, [np.arange(x.shape[1])]
    return Correlation(
        pearson=_interval(pearson, resampled(lambda a, b: np.corrcoef(a, b)[0, 1]), shape, everything, draws, seed),
        pearson_p=pearson_p,
        spearman=_interval(
            spearman,
            resampled(lambda a, b: np.corrcoef(stats.rankdata(a), stats.rankdata(b))[0, 1]),
            shape,
            everything,
            draws,
            seed,
        ),
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
    early, late = np.arange(split), np.arange(split, x.shape[1])
    strata, heads = [early, late], np.nanmean(x, 0)

    def median(part: slice) -> Callable[..., float]:
        return lambda prompts, layers: float(np.nanmedian(np.nanmean(x[prompts][:, layers[part]], 0)))

    first, second = median(slice(None, split)), median(slice(split, None))
    everything = np.arange(x.shape[0]), np.arange(x.shape[1])

    def estimate(statistic: Callable[..., float]) -> Estimate:
        return _interval(statistic(*everything), statistic, x.shape, strata, draws, seed)

    return LayerContrast(
        early=estimate(first),
        late=estimate(second),
        difference=estimate(lambda *sample: first(*sample) - second(*sample)),
        p=float(stats.mannwhitneyu(heads[early].ravel(), heads[late].ravel()).pvalue),
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
    return _interval(
        statistic(x),
        lambda prompts, layers: statistic(x[prompts][:, layers]),
        x.shape,
        [np.arange(x.shape[1])],
        draws,
        seed,
    )


def _scores(name: str, x: torch.Tensor | np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 3 or 0 in x.shape:
        raise ValueError(f"{name} must have shape [prompt, layer, head] with at least one of each; got {x.shape}")
    return x


def _interval(
    value: float,
    statistic: Callable[..., float],
    shape: tuple[int, ...],
    strata: list[np.ndarray],
    draws: int,
    seed: int,
) -> Estimate:
    """Percentile interval; layers are drawn with replacement within each stratum, prompts over all."""
    generator = np.random.default_rng(seed)
    sample = [
        statistic(
            generator.integers(0, shape[0], shape[0]),
            np.concatenate([generator.choice(stratum, len(stratum)) for stratum in strata]),
        )
        for _ in range(draws)
    ]
    return _estimate(value, np.array(sample))


def _estimate(value: float, sample: np.ndarray) -> Estimate:
    low, high = np.nanquantile(sample, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value=value, low=float(low), high=float(high))

"""Every interval of the project; correlations over heads, and what scores depend on.

Heads of one layer share their input and prompts share their template, so neither are independent draws: their
intervals come from a bootstrap that resamples whole layers (with all their heads) and whole prompts. The p-values of
textbook tests, which treat heads as independent, are given beside them because the papers report those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from posym_core._checks import convert_array, require_count, require_no_infinity, require_scores

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A statistic of the data as they are, the 95 % interval around it, and the method that gave the interval."""

    value: float
    low: float
    high: float
    method: str = ""

    def __str__(self) -> str:
        return f"{self.value:z.2f} [{self.low:z.2f}, {self.high:z.2f}]"


def correlate_heads(
    first: torch.Tensor | np.ndarray,
    second: torch.Tensor | np.ndarray,
    *,
    by_rank: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """Correlate two scores ``[prompt, layer, head]`` over heads, each first averaged over prompts.

    A prompt on which a head has no score (NaN) does not count for that head.

    Args:
        by_rank: Spearman's correlation in place of Pearson's.
    """
    from scipy import stats

    x, y = require_scores("first", first), require_scores("second", second)
    if x.shape != y.shape:
        raise ValueError(f"both scores must have the same shape [prompt, layer, head]; got {x.shape} and {y.shape}")
    if x.shape[1] * x.shape[2] < 3:
        raise ValueError(f"a correlation needs at least three heads; got {x.shape[1] * x.shape[2]}")
    heads_x, heads_y = average_prompts(x)[0].ravel(), average_prompts(y)[0].ravel()
    for heads in (heads_x, heads_y):
        if not np.isfinite(heads).all() or np.ptp(heads) <= 8 * np.finfo(float).eps * np.abs(heads).max():
            raise ValueError(
                f"a correlation needs scores of every head, not all the same; {int(np.isfinite(heads).sum())} of "
                f"{heads.size} heads have one. Leave out the others"
            )
    value = float((stats.spearmanr if by_rank else stats.pearsonr)(heads_x, heads_y)[0])  # pyright: ignore
    sample = ResampledHeads(x.shape, draws=draws, seed=seed)
    drawn = [sample.of(scores).reshape(draws, -1) for scores in (x, y)]
    return sample.estimate(
        value, correlate_rows(*(stats.rankdata(heads, axis=1) if by_rank else heads for heads in drawn))
    )


def mean_interval(
    values: torch.Tensor | np.ndarray, *, over: str = "values", draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """Return the mean of independent values ``[draw]`` with its bootstrap interval; NaN does not count.

    Where nothing is NaN this is the percentile method of :func:`scipy.stats.bootstrap`, draw by draw.

    Args:
        values: one per prompt, seed, ...
        over: what they are, for the method's name.
    """
    x = _values("values", values)
    sample = Resample([x.size], over=over, draws=draws, seed=seed)
    return sample.estimate(float(np.nanmean(x)), _row_means(x[sample.places[0]]))


def student_margin(values: torch.Tensor | np.ndarray) -> np.ndarray:
    """Return half the width of Student's interval of means over the first dimension, whose values are independent.

    A mean over a NaN has no interval: it and its width are NaN.
    """
    from scipy import stats

    x = convert_array(values)
    require_no_infinity("values", x)
    if x.ndim < 1 or len(x) < 2:
        raise ValueError(f"a Student interval needs two or more values to a mean; got values of shape {x.shape}")
    return stats.t.ppf((1 + LEVEL) / 2, len(x) - 1) * (x.std(0, ddof=1) / np.sqrt(len(x)))


def statistic_interval(
    statistic: Callable[[np.ndarray], Any],
    scores: torch.Tensor | np.ndarray,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    vectorized: bool = False,
) -> Estimate:
    """Return any statistic of ``scores[prompt, layer, ...]`` with its interval, resampling prompts and layers.

    ``statistic`` takes an array of the same layout and returns a number; if it is ``vectorized`` it takes all draws at
    once, ``[draw, prompt, layer, ...]``, and returns a number for each. A draw on which it is NaN does not count.
    """
    x = convert_array(scores)
    if x.ndim < 2 or 0 in x.shape:
        raise ValueError(
            f"scores must have shape [prompt, layer, ...] with at least one of each; got {x.shape}. For values without "
            "layers use mean_interval"
        )
    sample = ResampledHeads(x.shape, draws=draws, seed=seed)
    if vectorized:
        drawn = x[sample.prompts[:, :, None], sample.layers[:, None]]
        return sample.estimate(float(statistic(x[None])[0]), statistic(drawn))
    pairs = zip(sample.prompts, sample.layers, strict=True)
    return sample.estimate(statistic(x), np.array([statistic(x[prompts][:, layers]) for prompts, layers in pairs]))


class Resample:
    """Units of some samples drawn with replacement, ``places[sample][draw, unit]``: the one bootstrap of the project.

    Draws and interval are those of :func:`scipy.stats.bootstrap` with percentiles, which refuses a sample of one and
    has no interval once a draw is undefined; here such a draw (NaN) does not count. Drawn one by one, all samples of
    the first draw come before any of the second: as good, and other draws of the same seed.
    """

    def __init__(self, sizes: Sequence[int], *, over: str, draws: int, seed: int, one_by_one: bool = False) -> None:
        self.draws, self.over = require_count("draws", draws, 1), over
        if min(sizes) < 1:
            raise ValueError(f"{over} can be drawn where there are any; got samples of {', '.join(map(str, sizes))}")
        generator = np.random.default_rng(seed)
        if one_by_one:
            drawn = generator.integers(0, np.repeat(sizes, sizes), (draws, sum(sizes)))
            self.places = np.split(drawn, np.cumsum(sizes)[:-1], axis=1)
        else:
            self.places = [generator.integers(0, size, (draws, size)) for size in sizes]

    def times(self, sample: int = 0) -> np.ndarray:
        """Return how often each unit of a sample is drawn, ``[draw, unit]``."""
        size = self.places[sample].shape[1]
        places = self.places[sample] + size * np.arange(self.draws)[:, None]
        return np.bincount(places.ravel(), minlength=self.draws * size).reshape(-1, size).astype(np.float64)

    def ends(self, drawn: np.ndarray) -> np.ndarray:
        """Return the percentile interval ``[low and high, ...]`` of ``drawn[draw, ...]``; NaN where none is defined."""
        columns = drawn.reshape(len(drawn), -1)
        interval = np.full((2, columns.shape[1]), np.nan)
        some = ~np.isnan(columns).all(0)  # NumPy warns of the others
        interval[:, some] = np.nanquantile(columns[:, some], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return interval.reshape(2, *drawn.shape[1:])

    def estimate(self, value: float, drawn: np.ndarray) -> Estimate:
        """Return a statistic of the data and its interval; refuse one that is not finite there, or in no draw."""
        finite = int(np.isfinite(drawn).sum())
        if not (np.isfinite(value) and finite):
            raise ValueError(
                f"an interval needs a statistic that is defined on the data and on draws from them; it is {value} on "
                f"the data and finite on {finite} of {self.draws} draws. Leave out what makes it undefined"
            )
        low, high = map(float, self.ends(drawn))
        return Estimate(value=value, low=low, high=high, method=f"bootstrap over {self.over}, {self.draws:,} draws")


class ResampledHeads(Resample):
    """Prompts drawn over all, and whole layers with all their heads before and behind ``split``."""

    def __init__(self, shape: tuple[int, ...], *, draws: int, seed: int, split: int = 0) -> None:
        parts = [split, shape[1] - split] if split else [shape[1]]
        super().__init__([shape[0], *parts], over="prompts and whole layers", draws=draws, seed=seed)
        self.prompts, *layers = self.places
        self.layers = np.concatenate([first + drawn for first, drawn in zip((0, split), layers, strict=False)], axis=1)

    def of(self, scores: np.ndarray) -> np.ndarray:
        """Return the mean over the drawn prompts of the drawn layers, ``[draw, layer, head]``."""
        return np.take_along_axis(average_prompts(scores, self.times()), self.layers[:, :, None], axis=1)


def average_prompts(scores: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
    """Return ``[draw, layer, head]``: means of what is defined, each prompt counted so many times; else NaN."""
    times = np.ones((1, len(scores))) if times is None else times
    defined = np.isfinite(scores)
    total = np.tensordot(times, np.where(defined, scores, 0), axes=1)
    if defined.all():
        return total / times.sum(1)[:, None, None]
    count = np.tensordot(times, defined.astype(np.float64), axes=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def correlate_rows(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation of each row of ``x`` with that of ``y``; NaN where a row is constant."""
    # The mean of equal numbers may be off by rounding, which would then be correlated.
    varies = (np.ptp(x, 1) > 0) & (np.ptp(y, 1) > 0)
    x, y = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    norms = np.sqrt((x**2).sum(1) * (y**2).sum(1))
    defined = varies & (norms > 0)
    return np.where(defined, (x * y).sum(1) / np.where(defined, norms, 1), np.nan)


def _values(name: str, values: torch.Tensor | np.ndarray) -> np.ndarray:
    x = convert_array(values)
    if x.ndim != 1:
        raise ValueError(
            f"{name} must be independent values in one dimension, one per prompt, seed, ...; got shape {x.shape}. Take "
            "the mean over what belongs to one prompt or seed first"
        )
    require_no_infinity(name, x)
    if np.isnan(x).all():
        raise ValueError("a mean needs at least one value; got none")
    return x


def _row_means(x: np.ndarray) -> np.ndarray:
    """Return means of ``[draw, unit]`` over what is defined; NaN for a draw of undefined values only."""
    defined = ~np.isnan(x)
    with np.errstate(invalid="ignore"):
        return np.where(defined, x, 0).sum(1) / defined.sum(1)

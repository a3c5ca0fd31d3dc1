"""Judges of U25-4: which planes are symbolic, positional, or both, from the profiles on the binding task.

A plane that hardly turns over a prompt is symbolic whatever it holds. So what random weights have, too, is no finding,
and a line that they meet is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models import binding_profile
from posym_companion.language_models.judges.binding_profile import FACTS, MODEL, SHOWN_IN, load_profiles
from posym_companion.results import Result, load_result
from posym_companion.verdicts import Number
from posym_core.metrics import Estimate, statistic_interval

DRAWS = 2000
# Medium to high frequencies: the faster half of the planes, as so many of twice as many bands.
BANDS = 4
GAPS, SHARES, LOWER = "s_SYM - s_POS", "symbolic - positional share", "lower of the two scores"


def band_means(result: Result, name: str, bands: int = 4) -> np.ndarray:
    """A measurement per plane, mean over prompts, averaged over the heads' bands of planes: ``[1, layer, band]``.

    The first band are the fastest planes. Planes that are dead in a head do not count.
    """
    mean = result[name][0].astype(float)
    quarters = np.array_split(np.arange(mean.shape[-1]), bands)
    return np.stack([np.nanmean(mean[..., quarter], axis=(1, 2)) for quarter in quarters], axis=-1)[None]


def leanings(result: Result, bands: int) -> dict[str, np.ndarray]:
    """Gaps of softmax scores and of variance shares, above 0 where planes lean to symbols, ``[1, layer, band]``."""
    gaps = band_means(result, "plane_symbolic", bands) - band_means(result, "plane_positional", bands)
    shares = band_means(result, "plane_symbolic_share", bands) - band_means(result, "plane_positional_share", bands)
    return {GAPS: gaps, SHARES: shares}


def lower_scores(result: Result) -> np.ndarray:
    """The lower of the two scores of each quarter of the planes, ``[1, layer, quarter]``."""
    return np.minimum(*(band_means(result, f"plane_{name}") for name in ("positional", "symbolic")))


def planes_with_random_weights(folder: Path | None, model: str = MODEL) -> dict[str, Number]:
    """How far random weights go with the claims, the farthest of all draws and wordings.

    The slowest quarter towards symbols, and towards positions any band of the faster half.
    """
    drawn = [load_result(setting.name, folder=folder) for setting in binding_profile.random_weight_settings(model)]
    ours: dict[str, Number] = {}
    for measure in (GAPS, SHARES):
        quarters, eighths = ([leanings(result, bands)[measure].mean((0, 1)) for result in drawn] for bands in (4, 8))
        ours[f"{measure}, slowest quarter, most of random weights"] = float(max(x[3] for x in quarters))
        ours[f"{measure}, faster half, most of random weights"] = float(min(x[:BANDS].min() for x in eighths))
    return ours


def load_wordings(look: Look) -> Mapping[str, Result]:
    """Return the profiles on the fewest facts by wording, with what is said of them as the note."""
    results = {template: result for (template, _), result in load_profiles(look, FACTS[:1]).items()}
    lowest = [lower_scores(result).mean((0, 1)) for result in results.values()]
    look.note = (
        f"Quarters and eighths of the {next(iter(results.values()))['plane_angle'].shape[-1]} planes by frequency ID, "
        "all heads, intervals over layers. Random weights are three draws in three wordings of 16 facts, whatever else "
        f"is done to the lists. The lower score of a single plane's two is {np.min(lowest):.2f} to "
        f"{np.max(lowest):.2f} in every quarter."
    )
    return results


def yield_random_weights(look: Look, band: str) -> Iterator[Yielded]:
    """Yield how far random weights go in a band of planes."""
    look.record(*(setting.name for setting in binding_profile.random_weight_settings(look.model)))
    drawn = planes_with_random_weights(look.folder, look.model)
    yield from ((name, "", number) for name, number in drawn.items() if f", {band}," in name)


@judge("book/where_and_what/frequencies.ipynb", SHOWN_IN, model=MODEL, measured_on="{model}")
def slow_planes(look: Look) -> Iterator[Yielded]:
    """U25-4a: gaps of softmax scores and of variance shares in the slowest quarter of the planes."""
    for where, result in load_wordings(look).items():
        for measure, values in leanings(result, 4).items():
            yield f"{measure}, slowest quarter", where, _mean(values, 3)
    yield from yield_random_weights(look, "slowest quarter")


@judge("book/where_and_what/frequencies.ipynb", SHOWN_IN, model=MODEL, measured_on="{model}")
def fast_planes(look: Look) -> Iterator[Yielded]:
    """U25-4b: the same gaps in each of the bands that are the faster half of the planes."""
    for where, result in load_wordings(look).items():
        for measure, eighths in leanings(result, 2 * BANDS).items():
            for band in range(BANDS):
                yield f"{measure} of a band", f"{where}, band {band + 1} of {2 * BANDS}", _mean(eighths, band)
    yield from yield_random_weights(look, "faster half")


@judge("book/where_and_what/frequencies.ipynb", SHOWN_IN, model=MODEL, measured_on="{model}")
def uniform_planes(look: Look) -> Iterator[Yielded]:
    """U25-4c: the lower of the two scores in the fastest quarter less the most of the others."""
    for where, result in load_wordings(look).items():
        lower = lower_scores(result)
        above = lower - lower[..., 1:].max(-1, keepdims=True)
        yield f"{LOWER}, fastest quarter less the most of the others", where, _mean(above, 0)


def _mean(x: np.ndarray, place: int) -> Estimate:
    return statistic_interval(lambda y: y[..., place].mean((1, 2)), x, draws=DRAWS, vectorized=True)

"""Judges of U25-4: which planes are symbolic, positional, or both, from the profiles on the binding task.

A plane that hardly turns over a prompt is symbolic whatever it holds. So what random weights have, too, is no finding,
and a line that they meet is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models import binding_profile
from posym_companion.language_models.judges.binding_profile import (
    FACTS,
    MODEL,
    SHOWN_IN,
    key_by_wording,
    load_profiles,
)
from posym_companion.results import Result, load_result
from posym_companion.verdicts import Number, count_cases
from posym_core.metrics import Estimate, statistic_interval

QUARTERS = ("fastest", "second", "third", "slowest")
# A softmax score of a single plane lies within a few hundredths of 1: a smaller gap is no division of work. Shares of
# the variance, without a softmax, use the whole range from 0 to 1.
GAP, SHARE = 0.1, 0.5
DRAWS = 2000
# Medium to high frequencies: the faster half of the planes, as so many of twice as many bands.
BANDS = 4
# Both scores of uniform planes are above this.
UNIFORM = 0.9
NAMES = ("positional", "symbolic", "positional_share", "symbolic_share")
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


def planes_with_random_weights(folder: Path | None, model: str = MODEL) -> dict[str, Number]:
    """How far random weights go with the claims, the farthest of all draws and wordings.

    The slowest quarter towards symbols, and towards positions the second quarter and any band of the faster half.
    """
    drawn = [load_result(setting.name, folder=folder) for setting in binding_profile.random_weight_settings(model)]
    ours: dict[str, Number] = {}
    for measure in (GAPS, SHARES):
        quarters, eighths = ([leanings(result, bands)[measure].mean((0, 1)) for result in drawn] for bands in (4, 8))
        ours[f"{measure}, slowest quarter, most of random weights"] = float(max(x[3] for x in quarters))
        ours[f"{measure}, second quarter, most of random weights"] = float(min(x[1] for x in quarters))
        ours[f"{measure}, faster half, most of random weights"] = float(min(x[:BANDS].min() for x in eighths))
    return ours


@judge("book/where_and_what/frequencies.ipynb", SHOWN_IN, model=MODEL, measured_on="{model}")
def division_of_planes(look: Look) -> Iterator[Yielded]:
    """U25-4: gaps of softmax scores and of variance shares, and the lower score, in each quarter of the planes."""
    profiles, lowest = load_profiles(look, FACTS[:1]), []
    in_prose = look.again and look.remedy == "prose"
    results = key_by_wording(profiles) if in_prose else {template: x for (template, _), x in profiles.items()}
    for where, result in results.items():
        lower = np.minimum(*(band_means(result, f"plane_{name}") for name in ("positional", "symbolic")))
        for measure, values in (leanings(result, 4) | {LOWER: lower}).items():
            for place, quarter in enumerate(QUARTERS):
                mean = _mean(values, place)
                yield f"{measure}, {quarter} quarter", where, mean
                lowest += [mean.value] if measure == LOWER else []
        above = lower - lower[..., 1:].max(-1, keepdims=True)
        yield f"{LOWER}, fastest quarter less the most of the others", where, _mean(above, 0)
        for measure, eighths in leanings(result, 2 * BANDS).items():
            for band in range(BANDS):
                yield f"{measure} of a band", f"{where}, band {band + 1} of {2 * BANDS}", _mean(eighths, band)
    look.record(*(setting.name for setting in binding_profile.random_weight_settings(look.model)))
    yield from ((name, "", number) for name, number in planes_with_random_weights(look.folder, look.model).items())
    look.note = (
        f"Quarters and eighths of the {next(iter(results.values()))['plane_angle'].shape[-1]} planes by frequency ID, "
        "all heads, intervals over layers. Random weights are three draws in three wordings of 16 facts, whatever else "
        f"is done to the lists. The lower score of a single plane's two is {min(lowest):.2f} to {max(lowest):.2f} in "
        "every quarter."
    )


def _mean(x: np.ndarray, place: int) -> Estimate:
    return statistic_interval(lambda y: y[..., place].mean((1, 2)), x, draws=DRAWS, vectorized=True)


@judge(model=MODEL, measured_on="{model}", note="A head's quarters of planes by frequency ID, means over prompts.")
def single_heads(look: Look) -> Iterator[Yielded]:
    """U25-4d: heads whose planes are symbolic where slow, positional where of medium to high frequency, else both."""
    profiles = load_profiles(look, FACTS[:1])
    drawn = [(one.template, look.load(one)) for one in binding_profile.random_weight_settings(look.model)]
    for measure in ("scores", "shares"):
        born = [(template, int(with_profile(result)[measure].sum())) for template, result in drawn]
        for (template, _), result in profiles.items():
            heads = with_profile(result)[measure]
            most = max(many for of, many in born if of == template)
            yield f"heads with the profile by {measure}", template, count_cases(heads.ravel())
            yield f"some head has the profile by {measure}", template, bool(heads.any())
            yield f"heads with the profile by {measure} less those of random weights", template, int(heads.sum()) - most
        yield f"heads with the profile by {measure}, most of random weights", "", max(many for _, many in born)


def with_profile(result: Result) -> dict[str, np.ndarray]:
    """``[layer, head]``: which heads divide their planes as the paper's does, by softmax scores and by shares."""
    by_head = {name: _by_quarter(result[f"plane_{name}"][0].astype(float)) for name in NAMES}
    gap = by_head["symbolic"] - by_head["positional"]
    lower = np.minimum(by_head["symbolic"], by_head["positional"])
    share = by_head["symbolic_share"] - by_head["positional_share"]
    return {
        # The fastest planes, both and uniform; then medium to high ones; then slow ones.
        "scores": (lower[..., 0] > UNIFORM) & (gap[..., :2].min(-1) < -GAP) & (gap[..., 3] > GAP),
        "shares": (share[..., :2].min(-1) < -SHARE) & (share[..., 3] > SHARE),
    }


def _by_quarter(x: np.ndarray) -> np.ndarray:
    """Mean over each quarter of a head's planes, ``[layer, head, quarter]``; dead planes do not count."""
    return np.stack([np.nanmean(part, axis=-1) for part in np.array_split(x, 4, axis=-1)], axis=-1)

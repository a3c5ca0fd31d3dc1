"""Judges of U25-4: which planes are symbolic, positional, or both, from the profiles on the binding task.

A plane that hardly turns over a prompt is symbolic whatever it holds. So what random weights have, too, is no finding,
and a line that they meet is not asked.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, Remedy, Tally, count_cases, lies_beyond
from posym_companion.language_models import binding_profile
from posym_companion.language_models.judges.binding_profile import (
    FACTS,
    MODEL,
    SHOWN_IN,
    binding_results,
    key_by_wording,
)
from posym_companion.results import Result, load_result
from posym_core.metrics import Estimate, statistic_interval

QUARTERS = ("fastest", "second", "third", "slowest")
# A softmax score of a single plane lies within a few hundredths of 1: a smaller gap is no division of work. Shares of
# the variance, without a softmax, use the whole range from 0 to 1.
GAP, SHARE = 0.1, 0.5
DRAWS = 2000
# Medium to high frequencies: the faster half of the planes, as so many of twice as many bands.
BANDS = 4
AT_BIRTH = "{}, {}, most of random weights"
# Both scores of uniform planes are above this.
UNIFORM = 0.9
NAMES = ("positional", "symbolic", "positional_share", "symbolic_share")
GAPS, SHARES, LOWER = "s_SYM - s_POS", "symbolic - positional share", "lower of the two scores"
# What is asked of which number of which quarter: its sign, and how far beyond 0 it lies.
ASKED = {
    (GAPS, "slowest"): {
        f"{GAPS} of the slowest quarter above {GAP}": (1, GAP),
        "the slowest quarter's gap above 0": (1, 0),
    },
    (SHARES, "slowest"): {f"its {SHARES} above {SHARE}": (1, SHARE)},
    (GAPS, "second"): {
        f"{GAPS} of the second quarter below -{GAP}": (-1, GAP),
        "the second quarter's gap below 0": (-1, 0),
    },
    (SHARES, "second"): {f"its {SHARES} below -{SHARE}": (-1, SHARE)},
    (LOWER, "fastest"): {"the fastest quarter's lower score above 0.9": (1, 0.9)},
}


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
        ours[AT_BIRTH.format(measure, "slowest quarter")] = float(max(x[3] for x in quarters))
        ours[AT_BIRTH.format(measure, "second quarter")] = float(min(x[1] for x in quarters))
        ours[AT_BIRTH.format(measure, "faster half")] = float(min(x[:BANDS].min() for x in eighths))
    return ours


def division_of_planes(folder: Path | None, remedy: Remedy | None = None, model: str = MODEL) -> Measured:
    """U25-4: gaps of softmax scores and of variance shares, and the lower score, in each quarter of the planes."""
    found = binding_results(folder, facts=FACTS[:1], remedy=remedy, model=model)
    results = (
        key_by_wording(found) if remedy == "prose" else {template: result for (template, _), result in found.items()}
    )
    tally, bands, uniform = Tally(), Tally(), []
    for where, result in results.items():
        positional, symbolic = band_means(result, "plane_positional"), band_means(result, "plane_symbolic")
        leaning = leanings(result, 4)
        for number, line in ((GAPS, GAP), (SHARES, SHARE)):
            eighths = leanings(result, 2 * BANDS)[number]
            for band in range(BANDS):
                found = _mean(eighths, band)
                part = {f"{number} below -{line}": lies_beyond(found, -1, line)}
                bands.add(f"{number}, band {band + 1} of {2 * BANDS}", where, found, part)
        lower = np.minimum(positional, symbolic)
        for number, values in (*leaning.items(), (LOWER, lower)):
            for place, quarter in enumerate(QUARTERS):
                found = _mean(values, place)
                called, asked = f"{number}, {quarter} quarter", ASKED.get((number, quarter), {})
                holds = {part: lies_beyond(found, *x) for part, x in asked.items()}
                tally.add(called, where, found, holds, f"{where}: {called} {found}")
        uniform.append(_mean(lower - lower[..., 1:].max(-1, keepdims=True), 0).low > 0)
    planes = next(iter(results.values()))["plane_angle"].shape[-1]
    drawn = [setting.name for setting in binding_profile.random_weight_settings(model)]
    lowest = [tally.value(f"{LOWER}, {quarter} quarter", where) for quarter in QUARTERS for where in results]
    ours = {
        **tally.counts("wordings with {}"),
        **bands.counts("bands and wordings with {}"),
        **planes_with_random_weights(folder, model),
        "wordings whose fastest quarter has the highest lower score": count_cases(uniform),
        **tally.numbers,
        **bands.numbers,
    }
    return Measured(
        ours=ours,
        model=model,
        evidence=[
            *(result.name for result in results.values()),
            *drawn,
            "book/where_and_what/frequencies.ipynb",
            SHOWN_IN,
        ],
        fails_in=tally.missed,
        note=f"Quarters and eighths of the {planes} planes by frequency ID, all heads, intervals over layers. Random "
        "weights are three draws in three wordings of 16 facts, whatever else is done to the lists. The lower score of "
        f"a single plane's two is {min(lowest):.2f} to {max(lowest):.2f} in every quarter.",
    )


def _mean(x: np.ndarray, place: int) -> Estimate:
    return statistic_interval(lambda y: y[..., place].mean((1, 2)), x, draws=DRAWS, vectorized=True)


def single_heads(folder: Path | None, model: str = MODEL) -> Measured:
    """U25-4d: heads whose planes are symbolic where slow, positional where of medium to high frequency, else both."""
    found = binding_results(folder, facts=FACTS[:1], model=model)
    drawn = [
        (one.template, load_result(one.name, folder=folder)) for one in binding_profile.random_weight_settings(model)
    ]
    ours: dict[str, Number] = {}
    for measure in ("scores", "shares"):
        shown = {template: with_profile(result)[measure] for (template, _), result in found.items()}
        born = [(template, int(with_profile(result)[measure].sum())) for template, result in drawn]
        more = [heads.sum() > max(n for of, n in born if of == template) for template, heads in shown.items()]
        ours |= {
            f"heads with the profile by {measure} ({template})": count_cases(heads.ravel())
            for template, heads in shown.items()
        }
        ours |= {
            f"wordings on which some head has the profile by {measure}": count_cases(x.any() for x in shown.values()),
            f"wordings on which more heads have the profile by {measure} than in every draw of random weights": (
                count_cases(more)
            ),
            f"heads with the profile by {measure} on every wording": count_cases(
                np.all([*shown.values()], axis=0).ravel()
            ),
            f"heads with the profile by {measure}, most of random weights": max(n for _, n in born),
            f"heads with the profile by {measure}, least of random weights": min(n for _, n in born),
        }
    note = "A head's quarters of planes by frequency ID, means over prompts."
    evidence = [*(one.name for one in found.values()), *(result.name for _, result in drawn)]
    return Measured(ours=ours, model=model, evidence=evidence, note=note)


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

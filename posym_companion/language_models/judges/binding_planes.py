"""Judges of U25-4: which planes are symbolic, positional, or both, from the profiles on the binding task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Remedy, Tally, beyond, cases
from posym_companion.language_models.judges.binding_profile import (
    FACTS,
    MODEL,
    SHOWN_IN,
    binding_results,
    by_words,
)
from posym_core.metrics.stats import Estimate, statistic_interval
from posym_core.runs.results import Result

QUARTERS = ("fastest", "second", "third", "slowest")
# A softmax score of a single plane lies within a few hundredths of 1: a smaller gap is no division of work. Shares of
# the variance, without a softmax, use the whole range from 0 to 1.
GAP, SHARE = 0.1, 0.5
DRAWS = 2000
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


def band_means(result: Result, name: str) -> np.ndarray:
    """A measurement per plane, mean over prompts, averaged over the heads' quarters of planes: ``[1, layer, quarter]``.

    The first quarter are the fastest planes. Planes that are dead in a head do not count.
    """
    mean = result[name][0].astype(float)
    quarters = np.array_split(np.arange(mean.shape[-1]), 4)
    return np.stack([np.nanmean(mean[..., quarter], axis=(1, 2)) for quarter in quarters], axis=-1)[None]


def division_of_planes(folder: Path | None, remedy: Remedy | None = None, model: str = MODEL) -> Measured:
    """U25-4: gaps of softmax scores and of variance shares, and the lower score, in each quarter of the planes."""
    found = binding_results(folder, facts=FACTS[:1], remedy=remedy, model=model)
    results = by_words(found) if remedy == "prose" else {template: result for (template, _), result in found.items()}
    tally, uniform = Tally(), []
    for where, result in results.items():
        positional, symbolic = band_means(result, "plane_positional"), band_means(result, "plane_symbolic")
        shares = band_means(result, "plane_symbolic_share") - band_means(result, "plane_positional_share")
        lower = np.minimum(positional, symbolic)
        for number, values in ((GAPS, symbolic - positional), (SHARES, shares), (LOWER, lower)):
            for place, quarter in enumerate(QUARTERS):
                found = _mean(values, place)
                called, asked = f"{number}, {quarter} quarter", ASKED.get((number, quarter), {})
                holds = {part: beyond(found, *x) for part, x in asked.items()}
                tally.add(called, where, found, holds, f"{where}: {called} {found}")
        uniform.append(_mean(lower - lower[..., 1:].max(-1, keepdims=True), 0).low > 0)
    planes = next(iter(results.values()))["plane_angle"].shape[-1]
    lowest = [tally.value(f"{LOWER}, {quarter} quarter", where) for quarter in QUARTERS for where in results]
    ours = {
        **tally.counts("wordings with {}"),
        "wordings whose fastest quarter has the highest lower score": cases(uniform),
        **tally.numbers,
    }
    return Measured(
        ours=ours,
        model=model,
        evidence=[*(result.name for result in results.values()), "book/where_and_what/frequencies.ipynb", SHOWN_IN],
        fails_in=tally.missed,
        note=f"Quarters of the {planes} planes by frequency ID, all heads, intervals over layers. The lower score of a "
        f"single plane's two is {min(lowest):.2f} to {max(lowest):.2f} in every quarter.",
    )


def _mean(x: np.ndarray, place: int) -> Estimate:
    return statistic_interval(lambda y: y[..., place].mean((1, 2)), x, draws=DRAWS, vectorized=True)

"""Judges of U25-4: which planes are symbolic, positional, or both, from the profiles on the binding task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Cases, Measured, Number, cases
from posym_companion.language_models.judges.binding_profile import FACTS, MODEL, SHOWN_IN, binding_results
from posym_core.metrics.stats import Estimate, statistic_interval
from posym_core.runs.results import Result

QUARTERS = ("fastest", "second", "third", "slowest")
# A softmax score of a single plane lies within a few hundredths of 1: a smaller gap is no division of work. Shares of
# the variance, without a softmax, use the whole range from 0 to 1.
GAP, SHARE = 0.1, 0.5
DRAWS = 2000


def band_means(result: Result, name: str) -> np.ndarray:
    """A measurement per plane, mean over prompts, averaged over the heads' quarters of planes: ``[1, layer, quarter]``.

    The first quarter are the fastest planes. Planes that are dead in a head do not count.
    """
    mean = result[name][0]
    quarters = np.array_split(np.arange(mean.shape[-1]), 4)
    return np.stack([np.nanmean(mean[..., quarter], axis=(1, 2)) for quarter in quarters], axis=-1)[None]


def division_of_planes(folder: Path | None) -> Measured:
    """U25-4: gaps of softmax scores and of variance shares, and the lower score, in each quarter of the planes."""
    results = {template: result for (template, _), result in binding_results(folder, facts=FACTS[:1]).items()}
    gap, share, both = {}, {}, {}
    uniform = []
    for template, result in results.items():
        positional, symbolic = band_means(result, "plane_positional"), band_means(result, "plane_symbolic")
        shares = band_means(result, "plane_symbolic_share") - band_means(result, "plane_positional_share")
        lower = np.minimum(positional, symbolic)
        for place, quarter in enumerate(QUARTERS):
            gap[quarter, template] = _mean(symbolic - positional, place)
            share[quarter, template] = _mean(shares, place)
            both[quarter, template] = _mean(lower, place)
        uniform.append(_mean(lower - lower[..., 1:].max(-1, keepdims=True), 0).low > 0)

    def beyond(values: dict[tuple[str, str], Estimate], quarter: str, sign: int, line: float) -> Cases:
        return cases(sign * (x.low if sign > 0 else x.high) > line for (q, _), x in values.items() if q == quarter)

    ours: dict[str, Number] = {
        "wordings with s_SYM - s_POS of the slowest quarter above 0.1": beyond(gap, "slowest", 1, GAP),
        "wordings with its symbolic - positional share above 0.5": beyond(share, "slowest", 1, SHARE),
        "wordings with s_SYM - s_POS of the second quarter below -0.1": beyond(gap, "second", -1, GAP),
        "wordings with its symbolic - positional share below -0.5": beyond(share, "second", -1, SHARE),
        "wordings whose fastest quarter has the highest lower score": cases(uniform),
        "wordings with the slowest quarter's gap above 0": beyond(gap, "slowest", 1, 0),
        "wordings with the second quarter's gap below 0": beyond(gap, "second", -1, 0),
        "wordings with the fastest quarter's lower score above 0.9": beyond(both, "fastest", 1, 0.9),
        **{f"s_SYM - s_POS, {q} quarter ({where})": x for (q, where), x in gap.items()},
        **{f"symbolic - positional share, {q} quarter ({where})": x for (q, where), x in share.items()},
        **{f"lower of the two scores, {q} quarter ({where})": x for (q, where), x in both.items()},
    }
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in results.values()), "book/where_and_what/frequencies.ipynb", SHOWN_IN],
        fails_in=[
            "one plane's softmax is nearly uniform, so that both scores are near 1 in every quarter "
            f"({min(x.value for x in both.values()):.2f} to {max(x.value for x in both.values()):.2f})",
            "the second quarter's variance share is "
            + ", ".join(f"{x.value:.2f} ({where})" for (q, where), x in share.items() if q == "second"),
        ],
        note="Quarters of the 128 planes by frequency ID, all heads, intervals over layers.",
    )


def _mean(x: np.ndarray, place: int) -> Estimate:
    return statistic_interval(lambda y: y[..., place].mean((1, 2)), x, draws=DRAWS, vectorized=True)

"""Judges of U25-4: which planes are symbolic, positional, or both, from the profiles on the binding task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from posym_companion.finding import Cases, Claim, Line, Measured, Number, Rule, cases
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


def _claim(
    letter: str, short: str, says: str, lines: Mapping[str, str], first: str, counted: str, because: str
) -> Claim:
    return Claim(
        id=f"U25-4{letter}",
        short=short,
        claim=f"{short} (softmax scores of single planes)",
        paper="profile of head 12:0 (gemma-2-2b-it)",
        rule=Rule(says=says, lines=_lines(lines), whole="reproduced in kind"),
        first_rule=Rule(says=first, lines=_lines({short: counted}), whole="reproduced in kind", strict=True),
        changed_because=because,
        measure=division_of_planes,
        rule_fixed="after a first look",
        changes="Heads whose single planes have logits large enough for their softmax to be sharp. T-3 is the row of "
        "models that solve the task.",
    )


def _lines(counted: Mapping[str, str]) -> tuple[Line, ...]:
    return tuple(Line(part=part, of=number, unit="wordings") for part, number in counted.items())


_ANY_GAP = "it asked for a gap of any size, and softmax scores of single planes differ by a few hundredths"
SLOW_SYMBOLIC = _claim(
    "a",
    "Within a head, low frequencies are symbolic",
    "In every wording the slowest quarter of planes has s_SYM above s_POS by more than 0.1, and a symbolic share of "
    "its variance above the positional one by more than 0.5, with intervals.",
    {
        "by softmax scores": "wordings with s_SYM - s_POS of the slowest quarter above 0.1",
        "by variance shares": "wordings with its symbolic - positional share above 0.5",
    },
    "In every wording the slowest quarter's s_SYM - s_POS is above 0 with its interval.",
    "wordings with the slowest quarter's gap above 0",
    _ANY_GAP,
)
FAST_POSITIONAL = _claim(
    "b",
    "Within a head, medium to high frequencies are positional",
    "In every wording the second fastest quarter of planes has s_POS above s_SYM by more than 0.1, and a positional "
    "share of its variance above the symbolic one by more than 0.5, with intervals.",
    {
        "by softmax scores": "wordings with s_SYM - s_POS of the second quarter below -0.1",
        "by variance shares": "wordings with its symbolic - positional share below -0.5",
    },
    "In every wording the second quarter's s_SYM - s_POS is below 0 with its interval.",
    "wordings with the second quarter's gap below 0",
    _ANY_GAP,
)
FASTEST_BOTH = _claim(
    "c",
    "Within a head, the highest frequencies are both, and uniform",
    "In every wording the lower of the two scores is higher in the fastest quarter of planes than in each other, "
    "with its interval.",
    {"the fastest are the most uniform": "wordings whose fastest quarter has the highest lower score"},
    "In every wording the fastest quarter's lower score is above 0.9. (So it is in every other quarter.)",
    "wordings with the fastest quarter's lower score above 0.9",
    "every other quarter meets it as well",
)

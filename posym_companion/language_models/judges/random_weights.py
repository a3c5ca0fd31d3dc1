"""What random weights give on the same prompts: the null that matters for claims about what a model has learned.

The rules, written before the three draws were run (of one of them, on one wording at one length, the correlation and
the frequency law had been seen): a trained model's correlation of the two scores counts as learned where its interval
lies below the correlation of *every* draw of random weights on the same prompts; its rank correlation of behaviour with
frequencies where its interval lies above that of every draw. The law of expression (a plane has lost half of what
distinguishes contents at an angle of 2.78 over the number of keys) holds for a model if the median over layers lies
within a tenth of 2.78 on each of the four kinds of prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from posym_companion.experiments import TAUGHT
from posym_companion.judging import Yielded
from posym_companion.language_models.binding_profile import FRAMES
from posym_companion.language_models.random_weights import (
    DRAWS,
    FACTS,
    TAUS,
    WORDINGS,
    RandomWeights,
    Weights,
    framed_lengths,
)
from posym_companion.results import Result, load_result
from posym_companion.verdicts import Cases, Remedy, count_cases
from posym_core.metrics import Estimate, correlate_heads, measure_behaviour_and_use, measure_layer_trend
from posym_profile.language_models import PACKAGED

# A plane whose contents' spread has no direction keeps half of their variance at this angle times the number of keys.
HALF = 2.7831
WITHIN = 0.1
# Of the bootstrap; beside random weights an interval decides, not its third digit.
RESAMPLES = 500
Kind = tuple[str, int]
KINDS: tuple[Kind, ...] = tuple((wording, facts) for facts in FACTS for wording in WORDINGS)


@dataclass(frozen=True, kw_only=True)
class BesideRandomWeights:
    """A trend of one model on one kind of prompt beside the same of every draw of random weights.

    Attributes:
        found: with its interval over prompts and layers.
        drawn: of each draw.
    """

    found: Estimate
    drawn: tuple[float, ...]

    @property
    def less_least(self) -> Estimate:
        """Return the trend less the least of all draws: it lies below zero as it lies below every draw."""
        return shift_estimate(self.found, np.min(self.drawn))

    @property
    def less_most(self) -> Estimate:
        """Return the trend less the most of all draws; undefined where that of a draw is."""
        return shift_estimate(self.found, np.max(self.drawn))


def shift_estimate(estimate: Estimate, level: float) -> Estimate:
    """Return a number with its interval less a level."""
    value, low, high = (float(x - level) for x in (estimate.value, estimate.low, estimate.high))
    return replace(estimate, value=value, low=low, high=high)


def find_weights(model: str) -> tuple[Weights, str]:
    """Return whether a model's weights are as they came or taught, and whose architecture random ones are drawn for."""
    return ("taught", PACKAGED) if model == TAUGHT else ("trained", model)


def random_weight_kinds(remedy: Remedy = "none", model: str = PACKAGED) -> tuple[Kind, ...]:
    """On which kinds of prompt random weights are measured with a remedy."""
    lengths = framed_lengths(remedy, model)
    return tuple((wording, facts) for wording, facts in KINDS if facts in lengths)


def random_weight_results(
    wording: str, facts: int, folder: Path | None = None, remedy: Remedy = "none", model: str = PACKAGED
) -> list[Result]:
    """Results of every draw of random weights."""
    kind: dict[str, Any] = {"model": model, "wording": wording, "facts": facts, **FRAMES[remedy]}
    return [load_result(RandomWeights(draw=draw, **kind).name, folder=folder) for draw in DRAWS]


def list_measured_weights(weights: Weights, remedy: Remedy = "none", model: str = PACKAGED) -> list[str]:
    """Return the names of the results that :func:`measure_random_weights` reads."""
    kinds = [{"wording": w, "facts": facts, **FRAMES[remedy]} for w, facts in random_weight_kinds(remedy, model)]
    read: list[dict[str, Any]] = [{"weights": weights}, *({"draw": draw} for draw in DRAWS)]
    return [RandomWeights(model=model, **kind, **each).name for kind in kinds for each in read]


def measure_random_weights(
    statistic: Callable[[Result, int], Estimate],
    weights: Weights,
    folder: Path | None,
    remedy: Remedy = "none",
    model: str = PACKAGED,
) -> dict[Kind, BesideRandomWeights]:
    """A statistic of results, which takes how often it is resampled, by kind of prompt."""
    trends = {}
    for wording, facts in random_weight_kinds(remedy, model):
        setting = RandomWeights(model=model, weights=weights, wording=wording, facts=facts, **FRAMES[remedy])
        trends[wording, facts] = BesideRandomWeights(
            found=statistic(load_result(setting.name, folder=folder), RESAMPLES),
            drawn=tuple(
                statistic(one, 2).value for one in random_weight_results(wording, facts, folder, remedy, model)
            ),
        )
    return trends


def correlation_with_random_weights(
    weights: Weights,
    tau: str = "1e-4",
    folder: Path | None = None,
    remedy: Remedy = "none",
    model: str = PACKAGED,
) -> dict[Kind, BesideRandomWeights]:
    """Return Pearson's r of the two scores over heads, by kind of prompt; pairs are weighed as one of ``TAUS``."""
    place = list(TAUS).index(tau)

    def r(result: Result, draws: int) -> Estimate:
        scores = (result[name][place].astype(float) for name in ("positional", "symbolic"))
        return correlate_heads(*scores, draws=draws)

    return measure_random_weights(r, weights, folder, remedy, model)


def frequency_law_with_random_weights(
    weights: Weights, folder: Path | None = None, remedy: Remedy = "none", model: str = PACKAGED
) -> dict[Kind, BesideRandomWeights]:
    """Rank correlation over heads of behaviour with the energy-weighted mean log angle, by kind of prompt."""

    def rho(result: Result, draws: int) -> Estimate:
        positional, symbolic = (result[name][0].astype(float) for name in ("positional", "symbolic"))
        use = (result[name].astype(float) for name in ("energy", "angles"))
        return correlate_heads(*measure_behaviour_and_use(positional, symbolic, *use), draws=draws, by_rank=True)

    return measure_random_weights(rho, weights, folder, remedy, model)


def layer_trend_with_random_weights(folder: Path | None = None) -> Cases:
    """Return in how many draws and kinds of prompt random weights have both contrasts of the layer trend, off zero."""
    both = []
    for wording, facts in KINDS:
        for result in random_weight_results(wording, facts, folder):
            every = np.arange(len(result["angles"]))
            trends = (measure_layer_trend(result[name][0].astype(float), every) for name in ("positional", "symbolic"))
            positional, symbolic = (trend.difference for trend in trends)
            both.append(positional.low > 0 and symbolic.high < 0)
    return count_cases(both)


def compare_with_random_weights(
    found: Mapping[Kind, BesideRandomWeights], what: str, *, below: bool = False
) -> Iterator[Yielded]:
    """Yield the trend less the most of all draws of random weights, or the least."""
    beyond = f"{what} less the {'least' if below else 'most'} of random weights"
    yield beyond, "", None
    for (wording, facts), each in found.items():
        yield beyond, f"{wording}, {facts} facts", each.less_least if below else each.less_most

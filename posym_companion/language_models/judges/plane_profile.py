"""From stored profiles of planes: where a plane changes from position to symbol, and which heads use which (U25-9)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models import plane_profile
from posym_companion.language_models.judges.binding_profile import (
    FACTS,
    MODEL,
    SHOWN_IN,
    TAUGHT_IN,
    key_by_wording,
    load_profiles,
)
from posym_companion.language_models.judges.random_weights import (
    HALF,
    KINDS,
    WITHIN,
    BesideRandomWeights,
    Kind,
    compare_with_random_weights,
    find_weights,
    frequency_law_with_random_weights,
    list_measured_weights,
)
from posym_companion.language_models.random_weights import DRAWS, RandomWeights
from posym_companion.results import Result, load_result
from posym_companion.score_statistics import permute_layers
from posym_core.metrics import correlate_heads, measure_behaviour_and_use


def turning_angle(kept: np.ndarray, angles: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Find the angle at which half of the contents' variance is symbol, between slowest planes and first to lose it.

    Of ``kept [head, plane]``, ``S / (S + I)``, fastest first; interpolated in the angle's logarithm, NaN if the mean
    never crosses one half. By the law of the shares it is ``angle * keys = 2.78`` if the contents' spread has no
    direction.
    """
    counted = np.isfinite(kept)
    heavy = np.where(counted, np.ones_like(kept) if weights is None else weights, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (np.where(counted, kept, 0) * heavy).sum(0) / heavy.sum(0)
    slow_first = [(a, m) for a, m in zip(angles[::-1], mean[::-1], strict=True) if np.isfinite(m) and a > 0]
    for (slow, above), (fast, below) in itertools.pairwise(slow_first):
        if above >= 0.5 > below:
            part = (above - 0.5) / (above - below)
            return float(np.exp(np.log(slow) + part * (np.log(fast) - np.log(slow))))
    return float("nan")


def measure_layer_p(behaviour: np.ndarray, use: np.ndarray) -> float:
    """Return how often whole layers correlate as much if their frequency use is exchanged at random."""
    from scipy.stats import rankdata

    ranks, moved = (rankdata(x).reshape(x.shape) for x in (behaviour, use))
    return permute_layers(lambda x: np.corrcoef(ranks.ravel(), x.ravel())[0, 1], moved[None], draws=499).p


def half_loss_phase(result: Result) -> float:
    """Angle times number of keys at which a plane has lost half of what distinguishes contents, median over layers."""
    layers = zip(result["kept"].astype(float), result["angles"].astype(float), strict=True)
    return float(np.nanmedian([turning_angle(kept, angles) for kept, angles in layers]) * result["keys"])


def law_with_random_weights(folder: Path | None = None) -> dict[str, dict[Kind, float]]:
    """Return the law of expression, ``half_loss_phase`` by kind of prompt, of trained, taught and random weights."""
    settings = [RandomWeights(weights="trained"), RandomWeights(weights="taught")]
    settings += [RandomWeights(draw=draw) for draw in DRAWS]
    return {
        setting.name.partition("_likes")[0].partition(f"{MODEL}-")[2]: {
            (wording, facts): half_loss_phase(
                load_result(replace(setting, wording=wording, facts=facts).name, folder=folder)
            )
            for wording, facts in KINDS
        }
        for setting in settings
    }


def keeps_the_law(found: Mapping[Kind, float]) -> bool:
    """Return whether a model keeps the law: within a tenth of 2.78 on every kind of prompt."""
    return all(abs(value / HALF - 1) <= WITHIN for value in found.values())


Heads = Mapping[str, tuple[np.ndarray, np.ndarray]]


def yield_frequency_use(settings: Heads, birth: Mapping[Kind, BesideRandomWeights]) -> Iterator[Yielded]:
    """Yield the claim of U25-9 in any settings, of behaviour and use as :func:`measure_behaviour_and_use` has them."""
    for where, heads in settings.items():
        yield "rank correlation", where, correlate_heads(*heads, draws=500, by_rank=True)
        yield "p by layers exchanged at random", where, measure_layer_p(*(x[0] for x in heads))
    yield from compare_with_random_weights(birth, "rank correlation")


@judge(SHOWN_IN, model=MODEL, measured_on="{model}", taught_in=TAUGHT_IN)
def all_heads(look: Look) -> Iterator[Yielded]:
    """U25-9: behaviour against frequency use over all heads, in every stored setting; with a remedy, in those of it."""
    heads = {}
    for setting in () if look.again else plane_profile.full_size(look.model):
        result = look.load(setting)
        fields = (result[name].astype(float) for name in ("positional", "symbolic", "energy_share", "angles"))
        heads[f"{setting.task}, {setting.facts}"] = measure_behaviour_and_use(*fields)
    for where, result in key_by_wording(load_profiles(look, FACTS[:1])).items():
        energy, angles = result["plane_energy_share"][0].astype(float), result["plane_angle"].astype(float)
        heads[where] = measure_behaviour_and_use(result["positional"], result["symbolic"], energy, angles)
    weights, architecture = find_weights(look.model)
    look.record(*list_measured_weights(weights, look.remedy, architecture))
    birth = frequency_law_with_random_weights(weights, look.folder, look.remedy, architecture)
    yield from yield_frequency_use(heads, birth)
    look.note = (
        f"Over {next(iter(heads.values()))[0].size} heads, the mean log angle weighted by each plane's energy against "
        "s_POS - s_SYM; intervals over layers. The null exchanges whole layers, so that the layers' own bands of "
        "angles do not count as evidence. Random weights are three draws, on two wordings at two lengths"
    )

"""Judges of the claims about language models, from the stored profiles on the binding task."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.binding_profile import FACTS, plain_settings, variant_settings
from posym_companion.language_models.judges.random_weights import (
    BesideRandomWeights,
    Kind,
    compare_with_random_weights,
    correlation_with_random_weights,
    find_weights,
    list_measured_weights,
    shift_estimate,
)
from posym_companion.language_models.random_weights import TAUS
from posym_companion.results import MissingResultError, Result, list_results, load_result
from posym_companion.verdicts import Number, Remedy, count_cases
from posym_core.metrics import (
    Estimate,
    LayerContrast,
    contrast_layers,
    correlate_heads,
    find_local_layers,
    measure_layer_trend,
)

MODEL = "gemma-3-270m"
SHOWN_IN = "book/language_model/language_model.ipynb"
TAUGHT_IN = "book/language_model/gemma_learns.ipynb"
Setting = tuple[str, int]
# Families of U25-5, by what their models are called.
KNOWN_FAMILIES = {"Gemma-2": r"gemma-?2\b", "Qwen-2": r"qwen-?2(\.5)?\b", "Llama-3": r"llama-?3(\.\d)?\b"}
# Rounding of float32 sums over the matrix.
ROUNDING = 1e-5
DRAWS = 2000
SCORES = {"s_POS": "positional", "s_SYM": "symbolic"}
Heads = Result | Mapping[str, np.ndarray]
S = TypeVar("S", bound=Hashable)


def binding_results(
    folder: Path | None, *, facts: tuple[int, ...] = FACTS, remedy: Remedy | None = None, model: str = MODEL
) -> dict[Setting, Result]:
    """Load stored profiles by template and number of facts; with a remedy, of fewer kinds."""
    settings = plain_settings(model, facts) if remedy is None else variant_settings(remedy, model, facts)
    return {(one.template, one.facts): load_result(one.name, folder=folder) for one in settings}


def load_profiles(look: Look, facts: tuple[int, ...] = FACTS) -> dict[Setting, Result]:
    """Return what :func:`binding_results` does of what a judge is asked, kept as evidence."""
    remedy = look.remedy if look.again else None
    results = binding_results(look.folder, facts=facts, remedy=remedy, model=look.model)
    look.record(*results.values())
    return results


def key_by_wording(results: Mapping[Setting, Result]) -> dict[str, Result]:
    """The same by what the ledger calls the settings."""
    return {f"{template}, {facts} facts": result for (template, facts), result in results.items()}


# U25-1


@judge(
    "book/where_and_what/exclusion.ipynb",
    model=MODEL,
    measured_on="{model}",
    note="The inequality is a theorem; the identity for its slack is this project's own.",
)
def exclusion_holds(look: Look) -> Iterator[Yielded]:
    """U25-1: the inequality on every head and prompt, the identity, and how much slack there is."""
    results = load_profiles(look, FACTS[:1])
    variance, bound, slack = (
        np.concatenate([result[name].ravel() for result in results.values()]).astype(np.float64)
        for name in ("variance", "bound", "slack")
    )
    ratio = variance / bound
    # Half a million pairs are counted here: as cases each would have a name.
    yield "heads and prompts on which the bound holds", "", count_cases(variance <= bound * (1 + ROUNDING))
    yield "largest relative error of the identity", "", float((np.abs(variance + slack - bound) / bound).max())
    yield "median variance / bound", "", float(np.median(ratio))
    yield "largest variance / bound", "", float(ratio.max())


# U25-2


def layer_contrasts(
    settings: Mapping[S, Heads], *, local: bool = False
) -> dict[S, tuple[LayerContrast, LayerContrast]]:
    """Early against late half of the layers, positional and symbolic score, per setting.

    With ``local`` global layers, whose angles are slower, are left out; the halves stay where they are.
    """
    contrasts = {}
    for where, heads in settings.items():
        angles = heads["plane_angle"]
        layers = find_local_layers(angles) if local else np.arange(len(angles))
        positional, symbolic = (
            measure_layer_trend(heads[name], layers, draws=DRAWS) for name in ("positional", "symbolic")
        )
        contrasts[where] = positional, symbolic
    return contrasts


def yield_layer_trend(settings: Mapping[str, Heads], *, thirds: bool = False) -> Iterator[Yielded]:
    """Yield early less late in any settings, see :func:`layer_contrasts`: over all layers, and over local ones alone.

    With ``thirds`` also medians over heads of the last third of the layers.
    """
    for layers in ("all", "local"):
        for setting, contrasts in layer_contrasts(settings, local=layers == "local").items():
            where = f"{setting}, {layers} layers"
            for score, contrast in zip(SCORES, contrasts, strict=True):
                yield f"{score} early - late", where, contrast.difference
            yield "median s_SYM late", where, contrasts[1].late
    for where, heads in settings.items() if thirds else ():
        for score, name in SCORES.items():
            last = np.array_split(heads[name].mean(0), 3)[-1]
            yield f"median {score}, last third of layers", where, float(np.median(last))


def by_thirds(settings: Mapping[str, Heads]) -> dict[str, Number]:
    """Medians over heads of both scores in each third of the layers."""
    return {
        f"median {score}, {third} third of layers ({where})": float(np.median(part))
        for where, heads in settings.items()
        for score, name in (("s_POS", "positional"), ("s_SYM", "symbolic"))
        for third, part in zip(("first", "second", "last"), np.array_split(heads[name].mean(0), 3), strict=True)
    }


@judge(
    SHOWN_IN,
    model=MODEL,
    measured_on="{model}",
    note="Intervals resample layers and prompts.",
    taught_in=TAUGHT_IN,
)
def early_positional_late_symbolic(look: Look) -> Iterator[Yielded]:
    """U25-2: both contrasts over all layers, and over local ones alone."""
    yield from yield_layer_trend(key_by_wording(load_profiles(look)), thirds=look.again)


# U25-3


def score_correlation(scores: Heads) -> tuple[Estimate, float]:
    """Return Pearson's r over heads of a profile's two scores, and that of its null model.

    Wherever the book quotes the correlation of a stored profile, it comes from here.
    """
    correlation = correlate_heads(scores["positional"], scores["symbolic"], draws=DRAWS)
    return correlation, correlate_heads(scores["null_positional"], scores["null_symbolic"], draws=2).value


def yield_correlations(
    settings: Mapping[str, tuple[Estimate, float]], birth: Mapping[Kind, BesideRandomWeights]
) -> Iterator[Yielded]:
    """Yield the claim of U25-3 in any settings: r, r less that of the null model, and less that of random weights."""
    for where, (correlation, null) in settings.items():
        yield "Pearson r", where, correlation
        yield "Pearson r less the null model's", where, shift_estimate(correlation, null)
    yield from compare_with_random_weights(birth, "Pearson r", below=True)


@judge(SHOWN_IN, model=MODEL, measured_on="{model}", taught_in=TAUGHT_IN)
def scores_exclude_each_other(look: Look) -> Iterator[Yielded]:
    """U25-3: the correlation over heads, beside that of a null model with the same attention."""
    settings = {where: score_correlation(x) for where, x in key_by_wording(load_profiles(look)).items()}
    weights, architecture = find_weights(look.model)
    look.record(*list_measured_weights(weights, look.remedy, architecture))
    birth, alike = (
        correlation_with_random_weights(weights, tau, look.folder, look.remedy, architecture) for tau in TAUS
    )
    yield from yield_correlations(settings, birth)
    look.note = (
        "In the null model each swap sends a head's own attention in a random direction: what geometry and the "
        "attention alone would give. Random weights are three draws, on two "
        "wordings at two lengths. With all pairs of blocks weighed alike, in place of the papers' temperature of 1e-4, "
        f"r is {', '.join(f'{each.found.value:.2f}' for each in alike.values())} on the same prompts"
    )


# U25-5


@judge()
def across_families(look: Look) -> Iterator[Yielded]:
    """U25-5: correlation and layer contrasts in one or more models of every family, whoever has profiled them."""
    families: dict[str, dict[str, Result]] = {}
    for name in list_results("binding_profile", folder=look.folder):
        result = load_result(name, folder=look.folder)
        if result.settings.get("keys", "all") != "all":  # measured on other prompts beside the paper's
            continue
        model = str(result.settings.get("model", ""))
        for family, pattern in KNOWN_FAMILIES.items():
            if re.search(pattern, model, re.IGNORECASE):
                where = f"{model}, {result.settings['template']}, {result.settings['facts']}"
                families.setdefault(family, {})[where] = result
    if missing := [family for family in KNOWN_FAMILIES if family not in families]:
        raise MissingResultError(f"no profile of {', '.join(missing)}, whose weights are not part of this project")
    settings = {where: result for results in families.values() for where, result in results.items()}
    look.record(*settings.values())
    look.measured_on = ", ".join(dict.fromkeys(where.split(",")[0] for where in settings))
    for where, result in settings.items():
        yield "r", where, correlate_heads(result["positional"], result["symbolic"])
        for score, name in SCORES.items():
            yield f"{score} early - late", where, contrast_layers(result[name]).difference

"""Judges of the claims about language models, from the stored profiles on the binding task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, cases
from posym_companion.language_models.binding_profile import FACTS, TEMPLATES, BindingProfile
from posym_companion.language_models.judges.random_weights import (
    beside_birth,
    correlation_at_birth,
    layer_trend_at_birth,
)
from posym_companion.language_models.random_weights import TAUS
from posym_core.metrics.contrasts import LayerContrast, layer_contrast, layer_permutation
from posym_core.metrics.stats import Correlation, Estimate, head_correlation
from posym_core.metrics.trends import layer_trend, local_layers
from posym_core.runs.results import MissingResultError, Result, load_result, result_names

MODEL = "gemma-3-270m"
SHOWN_IN = "book/language_model/language_model.ipynb"
Setting = tuple[str, int]
# Families of U25-5, by what their models are called.
KNOWN_FAMILIES = {"Gemma-2": r"gemma-?2\b", "Qwen-2": r"qwen-?2(\.5)?\b", "Llama-3": r"llama-?3(\.\d)?\b"}
# Rounding of float32 sums over the matrix.
ROUNDING = 1e-5
# What is counted: settings are a wording with a number of facts.
HEADS, PROMPTS = "pairs of head and prompt", "kinds of prompt"
# How the pairs of blocks are weighed, in words.
WEIGHED = {"1e-4": "temperature 1e-4", "equal": "equal weights"}
DRAWS, SHUFFLES = 2000, 499  # of the bootstrap, and random orders of the layers


def binding_results(folder: Path | None, *, facts: tuple[int, ...] = FACTS) -> dict[Setting, Result]:
    """Stored profiles by template and number of facts."""
    return {
        (template, number): load_result(
            BindingProfile(model=MODEL, template=template, facts=number).name, folder=folder
        )
        for number in facts
        for template in TEMPLATES
    }


# U25-1


def exclusion_holds(folder: Path | None) -> Measured:
    """U25-1: the inequality on every head and prompt, the identity, and how much slack there is."""
    results = binding_results(folder, facts=FACTS[:1])
    variance, bound, slack = (
        np.concatenate([result[name].ravel() for result in results.values()]).astype(np.float64)
        for name in ("variance", "bound", "slack")
    )
    holds = variance <= bound * (1 + ROUNDING)
    ratio = variance / bound
    return Measured(
        ours={
            "heads and prompts on which the bound holds": cases(holds),
            "largest relative error of the identity": float((np.abs(variance + slack - bound) / bound).max()),
            "median variance / bound": float(np.median(ratio)),
            "largest variance / bound": float(ratio.max()),
        },
        model=MODEL,
        evidence=[*(result.name for result in results.values()), "book/where_and_what/exclusion.ipynb"],
        note="The inequality is a theorem; the identity for its slack is this project's own.",
    )


# U25-2


def layer_contrasts(
    results: Mapping[Setting, Result], *, local: bool = False
) -> dict[Setting, tuple[LayerContrast, LayerContrast]]:
    """Early against late half of the layers, positional and symbolic score, per setting.

    Args:
        results: by setting.
        local: leave out global layers, whose angles are slower; the halves stay where they are.
    """
    found = {}
    for setting, result in results.items():
        angles = result["plane_angle"]
        layers = local_layers(angles) if local else np.arange(len(angles))
        found[setting] = tuple(layer_trend(result[name], layers, draws=DRAWS) for name in ("positional", "symbolic"))
    return found


def early_minus_late(heads: np.ndarray) -> float:
    """Median over the first half of the layers minus that over the rest, of ``[layer, head]``."""
    half = len(heads) // 2
    return float(np.median(heads[:half]) - np.median(heads[half:]))


def early_positional_late_symbolic(folder: Path | None) -> Measured:
    """U25-2: both contrasts over all layers, and over local ones alone."""
    results = binding_results(folder)
    ours: dict[str, Number] = {}
    every: dict[str, dict[Setting, tuple[LayerContrast, LayerContrast]]] = {
        "all": layer_contrasts(results),
        "local": layer_contrasts(results, local=True),
    }
    fails = []
    for layers, contrasts in every.items():
        early = {where: positional.difference.low > 0 for where, (positional, _) in contrasts.items()}
        late = {where: symbolic.difference.high < 0 for where, (_, symbolic) in contrasts.items()}
        ours[f"settings with s_POS early above late, {layers} layers"] = cases(early.values())
        ours[f"settings with s_SYM late above early, {layers} layers"] = cases(late.values())
        if layers == "all":
            ours["settings with both contrasts off zero"] = cases([early[where] and late[where] for where in early])
        for (template, facts), contrast in contrasts.items():
            for score, value, held in zip(("s_POS", "s_SYM"), contrast, (early, late), strict=True):
                if not held[template, facts]:
                    fails.append(f"{template}, {facts} facts, {layers} layers: {score} {value.difference}")
    shuffled = [
        positional.difference.value > 0 > symbolic.difference.value
        and all(
            layer_permutation(early_minus_late, results[where][name], draws=SHUFFLES).p < 0.05
            for name in ("positional", "symbolic")
        )
        for where, (positional, symbolic) in every["all"].items()
    ]
    ours["settings with both contrasts beyond layers in random order"] = cases(shuffled)
    ours["draws and kinds of prompt with both contrasts, random weights"] = layer_trend_at_birth(folder)
    for layers, contrasts in every.items():
        for (template, facts), contrast in contrasts.items():
            for score, value in zip(("s_POS", "s_SYM"), contrast, strict=True):
                where = f"{template}, {facts} facts, {layers} layers"
                ours |= {
                    f"median {score} early ({where})": value.early,
                    f"median {score} late ({where})": value.late,
                    f"{score} early - late ({where})": value.difference,
                }
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        fails_in=fails,
        note="Intervals resample layers and prompts. One model of one family stands behind this row.",
    )


# U25-3


def score_correlation(scores: Result | Mapping[str, np.ndarray]) -> tuple[Correlation, float]:
    """Correlation over heads of a profile's two scores, and Pearson's r of its null model.

    Wherever the book quotes the correlation of a stored profile, it comes from here.

    Args:
        scores: ``positional`` and ``symbolic``, and both with ``null_`` before their names, ``[prompt, layer, head]``.
    """
    null = head_correlation(scores["null_positional"], scores["null_symbolic"], draws=2)
    return head_correlation(scores["positional"], scores["symbolic"], draws=DRAWS), null.pearson.value


def scores_exclude_each_other(folder: Path | None) -> Measured:
    """U25-3: the correlation over heads, beside that of a null model with the same attention."""
    results = binding_results(folder)
    ours: dict[str, Number] = {}
    below, beyond, same_sign = [], [], []
    for (template, facts), result in results.items():
        where = f"{template}, {facts} facts"
        found, null = score_correlation(result)
        below.append(found.pearson.high < 0)
        beyond.append(found.pearson.high < null)
        if null < 0:
            same_sign.append(f"{where}: the null model's r is negative too, {null:.2f}")
        ours |= {
            f"Pearson r ({where})": found.pearson,
            f"Pearson r of the null model ({where})": null,
            f"Spearman rho ({where})": found.spearman,
            f"p of Pearson r ({where})": found.pearson_p,
        }
    birth = {tau: correlation_at_birth("trained", tau, folder) for tau in TAUS}
    for tau, found_at in birth.items():
        ours |= beside_birth(found_at, f"Pearson r, {WEIGHED[tau]}")
    same_sign += [
        f"{wording}, {facts} facts: r {each}" for (wording, facts), each in birth["1e-4"].items() if not each.below
    ]
    return Measured(
        ours={
            "settings with r below zero": cases(below),
            "settings with r below the null model's": cases(beyond),
            "kinds of prompt with r below every draw of random weights": cases(
                each.below for each in birth["1e-4"].values()
            ),
            **ours,
        },
        model=MODEL,
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        fails_in=same_sign,
        note="In the null model each swap sends a head's own attention in a random direction: what geometry and the "
        "attention alone would give. The p-values take heads as independent. Random weights are three draws, on two "
        "wordings at two lengths. With all pairs of blocks weighed alike, in place of the papers' temperature of 1e-4, "
        f"r is {', '.join(f'{each.found.value:.2f}' for each in birth['equal'].values())} on the same prompts",
    )


# U25-5


def across_families(folder: Path | None) -> Measured:
    """U25-5: correlation and layer contrasts in one or more models of every family, whoever has profiled them."""
    found: dict[str, dict[str, Result]] = {}
    for name in result_names("binding_profile", folder=folder):
        result = load_result(name, folder=folder)
        model = str(result.settings.get("model", ""))
        for family, pattern in KNOWN_FAMILIES.items():
            if re.search(pattern, model, re.IGNORECASE):
                where = f"{model}, {result.settings['template']}, {result.settings['facts']}"
                found.setdefault(family, {})[where] = result
    if missing := [family for family in KNOWN_FAMILIES if family not in found]:
        raise MissingResultError(f"no profile of {', '.join(missing)}, whose weights are not part of this project")
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {"r": [], "s_POS": [], "s_SYM": []}
    for results in found.values():
        for where, result in results.items():
            r = head_correlation(result["positional"], result["symbolic"]).pearson
            early, late = (layer_contrast(result[name]).difference for name in ("positional", "symbolic"))
            found_here: dict[str, Estimate] = {"r": r, "s_POS": early, "s_SYM": late}
            for name, low in (("r", r.high < 0), ("s_POS", early.low > 0), ("s_SYM", late.high < 0)):
                held[name].append(low)
                ours[f"{name if name == 'r' else name + ' early - late'} ({where})"] = found_here[name]
    models = [where.split(",")[0] for results in found.values() for where in results]
    return Measured(
        ours={**{f"settings with {name} as claimed": cases(values) for name, values in held.items()}, **ours},
        model=", ".join(dict.fromkeys(models)),
        evidence=[result.name for results in found.values() for result in results.values()],
    )

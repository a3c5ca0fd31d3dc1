"""Judges of the claims about language models, from the stored profiles on the binding task."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from posym_companion.experiments.binding_profile import FACTS, TEMPLATES, BindingProfile
from posym_companion.findings.finding import Finding, Verdict
from posym_core.metrics.contrasts import LayerContrast, layer_contrast, layer_permutation
from posym_core.metrics.stats import Correlation, Estimate, head_correlation, statistic_interval
from posym_core.runs.results import Result, load_result, result_names

MODEL = "gemma-3-270m"
SHOWN_IN = "book/language_model/language_model.ipynb"
Setting = tuple[str, int]
# Families of U25-5, by what their models are called.
FAMILIES = {"Gemma-2": r"gemma-?2\b", "Qwen-2": r"qwen-?2(\.5)?\b", "Llama-3": r"llama-?3(\.\d)?\b"}
# Rounding of float32 sums over the matrix.
ROUNDING = 1e-5
SHUFFLES = 499  # random orders of the layers


def binding_results(folder: Path | None, *, facts: tuple[int, ...] = FACTS) -> dict[Setting, Result]:
    """Stored profiles by template and number of facts."""
    return {
        (template, number): load_result(
            BindingProfile(model=MODEL, template=template, facts=number).name, folder=folder
        )
        for number in facts
        for template in TEMPLATES
    }


def exclusion_holds(folder: Path | None) -> Finding:
    """U25-1: the inequality on every head and prompt, the identity, and how much slack there is."""
    results = binding_results(folder, facts=FACTS[:1])
    variance, bound, slack = (
        np.concatenate([result[name].ravel() for result in results.values()]).astype(np.float64)
        for name in ("variance", "bound", "slack")
    )
    holds = variance <= bound * (1 + ROUNDING)
    gap = np.abs(variance + slack - bound) / bound
    ratio = variance / bound
    return Finding(
        ours={
            "heads times prompts": int(holds.size),
            "fraction where the bound holds": float(holds.mean()),
            "largest relative error of the identity": float(gap.max()),
            "median variance / bound": float(np.median(ratio)),
            "largest variance / bound": float(ratio.max()),
        },
        model=MODEL,
        evidence=[*(result.name for result in results.values()), "book/where_and_what/exclusion.ipynb"],
        verdict="reproduced" if holds.all() and gap.max() < ROUNDING else "not reproduced",
        note="The inequality is a theorem; the identity for its slack is this project's own.",
    )


def layer_contrasts(
    results: dict[Setting, Result],
) -> dict[tuple[str, int], tuple[LayerContrast, LayerContrast]]:
    """Early against late half of the layers, positional and symbolic score, per setting."""
    return {
        setting: (layer_contrast(result["positional"]), layer_contrast(result["symbolic"]))
        for setting, result in results.items()
    }


def early_minus_late(heads: np.ndarray) -> float:
    """Median over the first half of the layers minus that over the rest, of ``[layer, head]``."""
    half = len(heads) // 2
    return float(np.median(heads[:half]) - np.median(heads[half:]))


def early_positional_late_symbolic(folder: Path | None) -> Finding:
    """U25-2: the contrast must have the paper's sign, with an interval off zero, in every template and length."""
    results = binding_results(folder)
    contrasts = layer_contrasts(results)
    ours: dict[str, float | int | str | Estimate] = {}
    for (template, facts), (positional, symbolic) in contrasts.items():
        where = f"{template}, {facts} facts"
        ours[f"median s_POS early ({where})"] = positional.early
        ours[f"median s_POS late ({where})"] = positional.late
        ours[f"median s_SYM early ({where})"] = symbolic.early
        ours[f"median s_SYM late ({where})"] = symbolic.late
    held = [
        positional.difference.low > 0 and symbolic.difference.high < 0 for positional, symbolic in contrasts.values()
    ]
    signs = [
        positional.difference.value > 0 and symbolic.difference.value < 0 for positional, symbolic in contrasts.values()
    ]
    shuffled = [
        sign
        and all(
            layer_permutation(early_minus_late, result[name], draws=SHUFFLES).p < 0.05
            for name in ("positional", "symbolic")
        )
        for sign, result in zip(signs, results.values(), strict=True)
    ]
    verdict: Verdict = "reproduced in kind" if all(held) else "not reproduced"
    return Finding(
        ours={
            "settings with both contrasts off zero": f"{sum(held)} of {len(held)}",
            "settings with both contrasts beyond layers in random order": f"{sum(shuffled)} of {len(held)}",
            **ours,
        },
        model=MODEL,
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        verdict=verdict,
        note=f"Both contrasts have the paper's sign in {sum(signs)} of {len(signs)} settings, and intervals that "
        f"exclude zero in {sum(held)}; intervals resample layers and prompts. Whole layers in random order give such "
        f"contrasts in fewer than one of twenty draws in {sum(shuffled)} settings.",
    )


def correlations(results: dict[Setting, Result]) -> dict[Setting, Correlation]:
    """Correlation of the two scores over heads, per setting."""
    return {setting: head_correlation(result["positional"], result["symbolic"]) for setting, result in results.items()}


def scores_exclude_each_other(folder: Path | None) -> Finding:
    """U25-3: a negative correlation with an interval off zero in every template and length."""
    results = binding_results(folder)
    found = correlations(results)
    ours: dict[str, float | int | str | Estimate] = {}
    for (template, facts), correlation in found.items():
        where = f"{template}, {facts} facts"
        null = results[template, facts]
        ours[f"Pearson r if swaps sent attention anywhere ({where})"] = head_correlation(
            null["null_positional"], null["null_symbolic"], draws=2
        ).pearson.value
        ours[f"Pearson r ({where})"] = correlation.pearson
        ours[f"Spearman rho ({where})"] = correlation.spearman
        ours[f"p of Pearson r ({where})"] = correlation.pearson_p
    held = [correlation.pearson.high < 0 for correlation in found.values()]
    return Finding(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        verdict="reproduced in kind" if all(held) else "not reproduced",
        note=f"The interval is below zero in {sum(held)} of {len(held)} settings; p-values take heads as independent. "
        "In the null model each swap sends a head's attention in a random direction.",
    )


def across_families(folder: Path | None) -> Finding:
    """U25-5: the layer contrasts and the correlation of the other claims, in one or more models of every family.

    Profiles of such models are not part of this project; whoever can load them keeps them in a folder of results with
    ``python -m posym_core run binding_profile --model NAME --results FOLDER``, and the row fills itself.
    """
    found: dict[str, dict[str, Result]] = {}
    for name in result_names("binding_profile", folder=folder):
        result = load_result(name, folder=folder)
        model = str(result.settings.get("model", ""))
        for family, pattern in FAMILIES.items():
            if re.search(pattern, model, re.IGNORECASE):
                found.setdefault(family, {})[f"{model}, {result.settings['template']}, {result.settings['facts']}"] = (
                    result
                )
    how = "python -m posym_core run binding_profile --model NAME measures one"
    if missing := [family for family in FAMILIES if family not in found]:
        return Finding(
            ours={},
            model=", ".join(sorted({key.split(",")[0] for results in found.values() for key in results})),
            evidence=[result.name for results in found.values() for result in results.values()],
            verdict="not run here",
            note=f"no profile of {', '.join(missing)}, whose weights are not part of this project; {how}.",
        )
    ours: dict[str, float | int | str | Estimate] = {}
    held = []
    for results in found.values():
        for where, result in results.items():
            r = head_correlation(result["positional"], result["symbolic"]).pearson
            positional, symbolic = layer_contrast(result["positional"]), layer_contrast(result["symbolic"])
            ours[f"Pearson r ({where})"] = r
            ours[f"s_POS early - late ({where})"] = positional.difference
            ours[f"s_SYM early - late ({where})"] = symbolic.difference
            held.append(r.high < 0 and positional.difference.low > 0 and symbolic.difference.high < 0)
    return Finding(
        ours=ours,
        model=", ".join(sorted({where.split(",")[0] for results in found.values() for where in results})),
        evidence=[result.name for results in found.values() for result in results.values()],
        verdict="reproduced" if all(held) else "not reproduced",
        note=f"Correlation and both contrasts have the paper's sign with intervals off zero in {sum(held)} of "
        f"{len(held)} settings.",
    )


def band_means(result: Result, name: str) -> np.ndarray:
    """A measurement per plane, mean over prompts, averaged over the heads' quarters of planes: ``[1, layer, quarter]``.

    The first quarter are the fastest planes. Planes that are dead in a head do not count.
    """
    mean = result[name][0]
    quarters = np.array_split(np.arange(mean.shape[-1]), 4)
    return np.stack([np.nanmean(mean[..., quarter], axis=(1, 2)) for quarter in quarters], axis=-1)[None]


def frequencies_divide_the_work(folder: Path | None) -> Finding:
    """U25-4: slow planes symbolic, medium to fast ones positional, the fastest both, by softmax score of each plane."""
    results = binding_results(folder, facts=FACTS[:1])
    ours: dict[str, float | int | str | Estimate] = {}
    slow, medium, fastest = [], [], []
    for (template, _), result in results.items():
        positional, symbolic = band_means(result, "plane_positional"), band_means(result, "plane_symbolic")
        difference = symbolic - positional
        for place, quarter in ((3, "slowest"), (2, "third"), (1, "second"), (0, "fastest")):
            ours[f"s_SYM - s_POS of the {quarter} quarter of planes ({template})"] = statistic_interval(
                lambda x, place=place: float(x[..., place].mean()), difference
            )
        shares = band_means(result, "plane_symbolic_share") - band_means(result, "plane_positional_share")
        for place, quarter in ((3, "slowest"), (0, "fastest")):
            ours[f"symbolic - positional share of the {quarter} quarter ({template})"] = statistic_interval(
                lambda x, place=place: float(x[..., place].mean()), shares
            )
        both = np.minimum(positional, symbolic)[..., 0]
        ours[f"lower of the two scores, fastest quarter ({template})"] = statistic_interval(
            lambda x: float(x.mean()), both
        )
        slow.append(ours[f"s_SYM - s_POS of the slowest quarter of planes ({template})"])
        medium.append(ours[f"s_SYM - s_POS of the second quarter of planes ({template})"])
        fastest.append(ours[f"lower of the two scores, fastest quarter ({template})"])
    parts = {
        "slow planes symbolic": all(estimate.low > 0 for estimate in slow),
        "medium to fast planes positional": all(estimate.high < 0 for estimate in medium),
        "fastest planes both": all(estimate.low > 0.9 for estimate in fastest),
    }
    return Finding(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in results.values()), "book/where_and_what/frequencies.ipynb", SHOWN_IN],
        verdict="reproduced in kind" if all(parts.values()) else "not reproduced",
        note="; ".join(f"{part}: {'yes' if held else 'no'}" for part, held in parts.items())
        + ". Quarters of the 128 planes by frequency ID, all heads, interval over layers.",
    )

"""Judges of what a language model that was taught to bind says: the papers' claims where the model solves the task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, shown
from posym_companion.language_models.judges.binding_planes import GAP, SHARE
from posym_companion.language_models.judges.binding_profile import WEIGHED, cases, score_correlation
from posym_companion.language_models.judges.plane_profile import STRONG, beyond_null
from posym_companion.language_models.judges.random_weights import beside_birth, correlation_at_birth
from posym_companion.language_models.random_weights import TAUS
from posym_companion.solvers.judges.gemma_runs import SOLVED, after, measured, runs
from posym_companion.solvers.survey import Surveyed
from posym_companion.solvers.taught_gemma import FACTS
from posym_core.metrics.stats import head_correlation, statistic_interval
from posym_core.metrics.trends import behaviour_and_use, layer_trend, local_layers
from posym_core.runs.results import load_result

# Planes stopped cost nothing if the mean loss of teaching is at most this many times that with all planes.
AS_FAST = 1.2
# How far planes that are stopped would turn; below an eighth of a turn a plane is slow, and stopping it does nothing.
TURNED = "radians that a stopped plane would turn over a prompt, {}, at most"
DRAWS = 2000
# What is counted, by the first word of the number's name. All of it is one model.
CASES = "One model, three seeds: wordings are asked of the same weights, so that nine pairs are no nine models."
COUNTED = {"settings": "pairs of seed and wording", "seeds": "seeds of one model", "heads": "heads of one model"} | {
    "kinds": "kinds of prompt"
}


def trend(folder: Path | None) -> Measured:
    """Early against late layers as in U25-2, of the taught model: over all layers, and over local ones alone."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {}
    for (seed, wording), x in after(results).items():
        for kind in ("all", "local"):
            layers = np.arange(len(x["angles"])) if kind == "all" else local_layers(x["angles"])
            for score, name, sign in (("s_POS", "positional", 1), ("s_SYM", "symbolic", -1)):
                found = layer_trend(x[name], layers, draws=DRAWS)
                side = "early above late" if sign > 0 else "late above early"
                low = found.difference.low if sign > 0 else -found.difference.high
                held.setdefault(f"settings with {score} {side}, {kind} layers", []).append(low > 0)
                where = f"seed {seed}, {wording}, {kind} layers"
                ours |= {f"median {score} early ({where})": found.early, f"median {score} late ({where})": found.late}
                ours[f"{score} early - late ({where})"] = found.difference
    return measured(results, {**{k: cases(v) for k, v in held.items()}, **ours}, CASES)


def correlation(folder: Path | None) -> Measured:
    """The correlation of the scores over heads, beside the null model's and random weights', as in U25-3."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    below, beyond = [], []
    for (seed, wording), x in after(results).items():
        found, null = score_correlation(x)
        below.append(found.pearson.high < 0)
        beyond.append(found.pearson.high < null)
        where = f"seed {seed}, {wording}"
        ours |= {f"Pearson r ({where})": found.pearson, f"Pearson r of the null model ({where})": null}
    birth = {tau: correlation_at_birth("taught", tau, folder) for tau in TAUS}
    for tau, found_at in birth.items():
        ours |= beside_birth(found_at, f"Pearson r, {WEIGHED[tau]}")
    counts: dict[str, Number] = {
        "settings with r below zero": cases(below),
        "settings with r below the null model's": cases(beyond),
        "kinds of prompt with r below every draw of random weights": cases(x.below for x in birth["1e-4"].values()),
    }
    note = (
        f"{CASES} The null model keeps each head's attention, see U25-3. Random weights are beside the packaged taught "
        "model, on two wordings at two lengths. With all pairs of blocks weighed alike its r is "
        f"{', '.join(f'{x.found.value:.2f}' for x in birth['equal'].values())}"
    )
    return measured(results, {**counts, **ours}, note)


def planes(folder: Path | None) -> Measured:
    """Shares of variance by quarter of planes in nine settings, softmax scores of single planes in three; as U25-4."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {}

    def judge(name: str, value: np.ndarray, sign: int, line: float, where: str) -> None:
        found = statistic_interval(lambda y: float(np.nanmean(y)), value[None], draws=DRAWS)
        held.setdefault(name, []).append((found.low if sign > 0 else -found.high) > line)
        ours[f"{name.partition(' with ')[2]} ({where})"] = found

    for (seed, wording), x in after(results).items():
        share = x["band_symbolic_share"] - x["band_positional_share"]
        for quarter, place, sign in (("slowest", 6, 1), ("second", 2, -1)):
            name = f"settings with symbolic - positional share, {quarter} quarter"
            judge(name, np.nanmean(share[..., place : place + 2], -1), sign, SHARE, f"seed {seed}, {wording}")
    for result in results:
        gap = (result["plane_symbolic"][-1] - result["plane_positional"][-1]).astype(float)
        quarters = np.array_split(gap, 4, axis=-1)
        for quarter, place, sign in (("slowest", 3, 1), ("second", 1, -1)):
            name = f"seeds with s_SYM - s_POS, {quarter} quarter"
            judge(name, np.nanmean(quarters[place], -1), sign, GAP, f"seed {result.settings['seed']}, likes")
    note = f"{CASES} Shares beyond {SHARE}, scores beyond {GAP}, with intervals over layers."
    return measured(results, {**{k: cases(v) for k, v in held.items()}, **ours}, note)


def all_heads(folder: Path | None) -> Measured:
    """Behaviour of all heads against the frequencies that they use, as in U25-9."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    beyond, strong = [], []
    for (seed, wording), x in after(results).items():
        bands = np.exp(np.stack([np.log(part).mean(-1) for part in np.array_split(x["angles"], 8, axis=-1)], -1))
        heads = behaviour_and_use(x["positional"], x["symbolic"], x["band_energy_share"], bands)
        found = head_correlation(*heads, draws=500).spearman
        beyond.append(beyond_null(heads[0][0], heads[1][0]))
        strong.append(found.low > STRONG)
        ours[f"rank correlation (seed {seed}, {wording})"] = found
    counts = {"settings beyond the null": cases(beyond), "settings with a strong correlation": cases(strong)}
    return measured(
        results, {**counts, **ours}, f"{CASES} Eight bands of planes, each at its mean log angle; see U25-9."
    )


def missing_bands(folder: Path | None) -> Measured:
    """Whether binding is learned with a quarter of every layer's planes stopped throughout, and how fast."""
    whole, slow, fast = runs(folder), runs(folder, "slowest"), runs(folder, "fastest")
    prompts = load_result(Surveyed().name, folder=folder)  # of the wording and the number of facts that is taught
    same_seed = {result.settings["seed"]: result for result in whole}
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {}
    confounded: list[float] = []
    for name, results in (("slowest", slow), ("fastest", fast)):
        turned = []
        for result in results:
            same = same_seed[result.settings["seed"]]
            right = result["correct"][-1, 0, FACTS.index(result.settings["facts"])]
            accuracy = float(np.nanmean(right))
            slower = float(result["losses"].mean() / same["losses"][: len(result["losses"])].mean())
            where = f"{name} quarter stopped, seed {result.settings['seed']}"
            ours |= {f"accuracy ({where})": accuracy, f"mean loss against all planes ({where})": slower}
            before = ours[f"loss before teaching against all planes ({where})"] = float(
                result["losses"][0] / same["losses"][0]
            )
            if name == "fastest":
                confounded.append(before)
            held.setdefault(f"seeds that bind with the {name} stopped", []).append(accuracy > SOLVED)
            held.setdefault(f"seeds slower with the {name} stopped", []).append(slower > AS_FAST)
            held.setdefault(f"seeds as fast with the {name} stopped", []).append(slower <= AS_FAST)
            turned.append(np.abs(same["angles"] - result["angles"]).max(1) * (int(prompts["tokens"]) - 1))
        most = np.max(turned, 0)
        ours[TURNED.format(name)] = float(most.max())
        ours[f"the same in global layers, {name}"] = float(np.delete(most, local_layers(whole[0]["angles"])).max())
    turn, globally = (
        shown(ours[number]) for number in (TURNED.format("slowest"), "the same in global layers, slowest")
    )
    note = (
        "The mean loss over the same steps of teaching says how fast the task is learned. Stopping the slowest quarter "
        f"takes at most {turn} radians from a plane over a prompt of {int(prompts['tokens'])} tokens, and at most "
        f"{globally} in global layers. The fast half is confounded: with the fastest quarter stopped the loss is "
        f"{min(confounded):.2f} to {max(confounded):.2f} times as high before any teaching. Accuracies are over "
        f"{int(np.isfinite(right).sum())} prompts a seed."
    )
    return measured([*whole, *slow, *fast], {**{k: cases(v) for k, v in held.items()}, **ours}, note)

"""Judges of what a language model that was taught to bind says: the papers' claims where the model solves the task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, Remedy, Tally, count_cases, format_number, lies_beyond
from posym_companion.language_models.judges.binding_planes import GAP, GAPS, SHARE, SHARES, planes_with_random_weights
from posym_companion.language_models.judges.binding_profile import (
    by_thirds,
    correlations,
    early_and_late,
    score_correlation,
)
from posym_companion.language_models.judges.plane_profile import frequency_use
from posym_companion.language_models.judges.random_weights import (
    frequency_law_with_random_weights,
    list_beside_random_weights,
)
from posym_companion.solvers.judges.gemma_runs import MODEL, SOLVED, load_runs, measure_runs, taught_models
from posym_companion.solvers.survey import SurveyedModel
from posym_companion.solvers.taught_gemma import FACTS, WORDINGS
from posym_core.metrics import find_local_layers, measure_behaviour_and_use, statistic_interval
from posym_core.store import load_result

# Planes stopped cost nothing if the mean loss of teaching is at most this many times that with all planes.
AS_FAST = 1.2
# How far planes that are stopped would turn; below an eighth of a turn a plane is slow, and stopping it does nothing.
TURNED = "radians that a stopped plane would turn over a prompt, {}, at most"
DRAWS = 2000
CASES = "One model, three seeds: wordings are asked of the same weights, so that nine pairs are no nine models."


def trend(folder: Path | None, remedy: Remedy | None = None, model: str = MODEL) -> Measured:
    """Early against late layers as in U25-2, of the taught model: over all layers, and over local ones alone."""
    results, settings = taught_models(folder, remedy or "none", model)
    tally = early_and_late(settings)
    thirds = by_thirds(settings) if remedy else {}
    return measure_runs(results, tally.counts() | tally.numbers | thirds, CASES, settings)


def correlation(folder: Path | None, remedy: Remedy | None = None, model: str = MODEL) -> Measured:
    """The correlation of the scores over heads, beside the null model's and random weights', as in U25-3."""
    results, settings = taught_models(folder, remedy or "none", model)
    found = {where: score_correlation(x) for where, x in settings.items()}
    ours, _, alike = correlations(found, "taught", folder, remedy, model)
    note = (
        f"{CASES} The null model keeps each head's attention, see U25-3. Random weights are beside the packaged taught "
        f"model, on two wordings at two lengths. With all pairs of blocks weighed alike its r is {alike}"
    )
    return measure_runs(results, ours, note, settings)


def planes(folder: Path | None, remedy: Remedy | None = None, model: str = MODEL) -> Measured:
    """Shares of variance by quarter of planes in nine settings, softmax scores of single planes in three; as U25-4."""
    results, settings = taught_models(folder, remedy or "none", model)
    tally = Tally()

    def judge(counted: str, number: str, quarters: np.ndarray, line: float, where: str) -> None:
        for quarter, place, sign in (("slowest", 3, 1), ("second", 1, -1)):
            found = statistic_interval(lambda y: float(np.nanmean(y)), quarters[None, ..., place], draws=DRAWS)
            name = f"{number}, {quarter} quarter"
            tally.add(name, where, found, {f"{counted} with {name}": lies_beyond(found, sign, line)})

    for where, x in settings.items():
        share = x["band_symbolic_share"] - x["band_positional_share"]
        judge("settings", SHARES, np.nanmean(share.reshape(*share.shape[:-1], 4, 2), -1), SHARE, where)
    for where, x in settings.items():
        if where.endswith(WORDINGS[0]):
            gap = np.array_split(x["plane_gap"], 4, axis=-1)
            judge("seeds", GAPS, np.stack([np.nanmean(quarter, -1) for quarter in gap], -1), GAP, where)
    note = f"{CASES} Shares beyond {SHARE}, scores beyond {GAP}, with intervals over layers."
    return measure_runs(
        results, tally.counts("{}") | planes_with_random_weights(folder, model) | tally.numbers, note, settings
    )


def all_heads(folder: Path | None, remedy: Remedy | None = None, model: str = MODEL) -> Measured:
    """Behaviour of all heads against the frequencies that they use, as in U25-9."""
    results, settings = taught_models(folder, remedy or "none", model)
    heads = {}
    for where, x in settings.items():
        bands = np.exp(np.stack([np.log(part).mean(-1) for part in np.array_split(x["plane_angle"], 8, axis=-1)], -1))
        heads[where] = measure_behaviour_and_use(x["positional"], x["symbolic"], x["band_energy_share"], bands)
    tally, birth = frequency_use(heads), frequency_law_with_random_weights("taught", folder, remedy or "none", model)
    ours = {
        **tally.counts("settings {}"),
        "kinds of prompt above every draw of random weights": count_cases(each.above for each in birth.values()),
        **tally.numbers,
        **list_beside_random_weights(birth, "rank correlation"),
    }
    note = f"{CASES} Eight bands of planes, each at its mean log angle; see U25-9, also for random weights."
    return measure_runs(results, ours, note, settings)


def missing_bands(folder: Path | None, model: str = MODEL) -> Measured:
    """Whether binding is learned with a quarter of every layer's planes stopped throughout, and how fast."""
    whole, slow, fast = (load_runs(folder, band, model=model) for band in ("none", "slowest", "fastest"))
    # Of the wording and the number of facts that is taught.
    prompts = load_result(SurveyedModel(model=model).name, folder=folder)
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
        # Where all layers turn alike, all of them see all of the prompt.
        wide = np.delete(most, find_local_layers(whole[0]["angles"]))
        ours[f"the same in global layers, {name}"] = float((wide if len(wide) else most).max())
    turn, globally = (
        format_number(ours[number]) for number in (TURNED.format("slowest"), "the same in global layers, slowest")
    )
    note = (
        "The mean loss over the same steps of teaching says how fast the task is learned. Stopping the slowest quarter "
        f"takes at most {turn} radians from a plane over a prompt of {int(prompts['tokens'])} tokens, and at most "
        f"{globally} in global layers. The fast half is confounded: with the fastest quarter stopped the loss is "
        f"{min(confounded):.2f} to {max(confounded):.2f} times as high before any teaching. Accuracies are over "
        f"{int(np.isfinite(right).sum())} prompts a seed."
    )
    _, settings = taught_models(folder, model=model)
    return measure_runs(
        [*whole, *slow, *fast], {**{k: count_cases(v) for k, v in held.items()}, **ours}, note, settings
    )

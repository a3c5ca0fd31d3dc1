"""Judges of what a language model that was taught to bind says: the papers' claims where the model solves the task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Remedy, Tally, count_cases, format_number, lies_beyond
from posym_companion.judging import Look, Yielded, judge
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
from posym_companion.solvers.judges.gemma_runs import (
    MODEL,
    SHOWN_IN,
    load_runs,
    look_at_taught,
    measure_runs,
    taught_models,
    yield_accuracy,
)
from posym_companion.solvers.survey import SurveyedModel
from posym_companion.solvers.taught_gemma import FACTS, WORDINGS
from posym_core.metrics import find_local_layers, measure_behaviour_and_use, statistic_interval
from posym_core.store import load_result

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


@judge(SHOWN_IN, model=MODEL, measured_on="{model}, taught to bind")
def missing_bands(look: Look) -> Iterator[Yielded]:
    """T-6G: whether binding is learned with a quarter of every layer's planes stopped throughout, and how fast."""
    runs = {band: load_runs(look.folder, band, model=look.model) for band in ("none", "slowest", "fastest")}
    look.record(*(result for results in runs.values() for result in results))
    yield from yield_accuracy(look_at_taught(look))
    # Of the wording and the number of facts that is taught.
    tokens = int(load_result(SurveyedModel(model=look.model).name, folder=look.folder)["tokens"])
    same_seed = {result.settings["seed"]: result for result in runs["none"]}
    most, before, asked = {}, [], 0
    for band in ("slowest", "fastest"):
        turned = []
        for result in runs[band]:
            whole, losses = same_seed[result.settings["seed"]], result["losses"]
            where = f"{band} quarter stopped, seed {result.settings['seed']}"
            right = result["correct"][-1, 0, FACTS.index(result.settings["facts"])]
            yield "accuracy", where, float(np.nanmean(right))
            yield "mean loss against all planes", where, float(losses.mean() / whole["losses"][: len(losses)].mean())
            turned.append(np.abs(whole["angles"] - result["angles"]).max(1) * (tokens - 1))
            asked = int(np.isfinite(right).sum())
            before += [float(losses[0] / whole["losses"][0])] if band == "fastest" else []
        most[band] = np.max(turned, 0)
        yield f"radians that a stopped plane would turn over a prompt, {band}, at most", "", float(most[band].max())
    # Where all layers turn alike, all of them see all of the prompt.
    wide = np.delete(most["slowest"], find_local_layers(runs["none"][0]["angles"]))
    turn, globally = (format_number(float(x.max())) for x in (most["slowest"], wide if len(wide) else most["slowest"]))
    look.note = (
        "The mean loss over the same steps of teaching says how fast the task is learned. Stopping the slowest quarter "
        f"takes at most {turn} radians from a plane over a prompt of {tokens} tokens, and at most "
        f"{globally} in global layers. The fast half is confounded: with the fastest quarter stopped the loss is "
        f"{min(before):.2f} to {max(before):.2f} times as high before any teaching. Accuracies are over "
        f"{asked} prompts a seed."
    )

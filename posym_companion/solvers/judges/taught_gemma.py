"""Judges of what a language model that was taught to bind says: the papers' claims where the model solves the task."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.binding_profile import random_weight_settings
from posym_companion.language_models.judges.binding_planes import GAPS, SHARES, planes_with_random_weights
from posym_companion.language_models.judges.binding_profile import (
    score_correlation,
    yield_correlations,
    yield_layer_trend,
)
from posym_companion.language_models.judges.plane_profile import yield_frequency_use
from posym_companion.language_models.judges.random_weights import (
    correlation_with_random_weights,
    frequency_law_with_random_weights,
    list_measured_weights,
)
from posym_companion.language_models.random_weights import TAUS
from posym_companion.solvers.judges.gemma_runs import MODEL, SHOWN_IN, load_runs, look_at_taught, yield_accuracy
from posym_companion.solvers.taught_gemma import FACTS, TOKENS, WORDINGS
from posym_companion.verdicts import format_number
from posym_core.metrics import find_local_layers, measure_behaviour_and_use, statistic_interval

DRAWS = 2000
CASES = "One model, three seeds: wordings are asked of the same weights, so that nine pairs are no nine models."
TAUGHT = "{model}, taught to bind"


@judge(SHOWN_IN, model=MODEL, measured_on=TAUGHT, note=CASES)
def trend(look: Look) -> Iterator[Yielded]:
    """T-1G: early against late layers as in U25-2, over all layers, and over local ones alone."""
    settings = look_at_taught(look)
    yield from yield_accuracy(settings)
    yield from yield_layer_trend(settings)


@judge(SHOWN_IN, model=MODEL, measured_on=TAUGHT)
def correlation(look: Look) -> Iterator[Yielded]:
    """T-2G: the correlation of the scores over heads, beside the null model's and random weights', as in U25-3."""
    settings = look_at_taught(look)
    yield from yield_accuracy(settings)
    look.record(*list_measured_weights("taught", look.remedy, look.model))
    birth, equal = (
        correlation_with_random_weights("taught", tau, look.folder, look.remedy, look.model) for tau in TAUS
    )
    yield from yield_correlations({where: score_correlation(x) for where, x in settings.items()}, birth)
    alike = ", ".join(f"{each.found.value:.2f}" for each in equal.values())
    look.note = (
        f"{CASES} The null model keeps each head's attention, see U25-3. Random weights are beside the packaged taught "
        f"model, on two wordings at two lengths. With all pairs of blocks weighed alike its r is {alike}"
    )


@judge(
    SHOWN_IN,
    model=MODEL,
    measured_on=TAUGHT,
    note=f"{CASES} Shares beyond 0.5, scores beyond 0.1, with intervals over layers.",
)
def planes(look: Look) -> Iterator[Yielded]:
    """T-3G: shares of variance by quarter of planes in nine settings, softmax scores of single planes in three."""
    settings = look_at_taught(look)
    yield from yield_accuracy(settings)
    for where, x in settings.items():
        share = x["band_symbolic_share"] - x["band_positional_share"]
        yield from yield_quarters(SHARES, where, np.nanmean(share.reshape(*share.shape[:-1], 4, 2), -1))
        if where.endswith(WORDINGS[0]):
            quarters = np.array_split(x["plane_gap"], 4, axis=-1)
            yield from yield_quarters(GAPS, where, np.stack([np.nanmean(each, -1) for each in quarters], -1))
    look.record(*(setting.name for setting in random_weight_settings(look.model)))
    yield from ((name, "", most) for name, most in planes_with_random_weights(look.folder, look.model).items())


def yield_quarters(measure: str, where: str, quarters: np.ndarray) -> Iterator[Yielded]:
    """Yield means over heads of two quarters of ``[layer, head, quarter]``, with intervals over layers."""
    for quarter, place in (("slowest", 3), ("second", 1)):
        heads = quarters[None, ..., place]
        mean = statistic_interval(lambda y: np.nanmean(y, axis=(1, 2, 3)), heads, draws=DRAWS, vectorized=True)
        yield f"{measure}, {quarter} quarter", where, mean


@judge(
    SHOWN_IN,
    model=MODEL,
    measured_on=TAUGHT,
    note=f"{CASES} Eight bands of planes, each at its mean log angle; see U25-9, also for random weights.",
)
def all_heads(look: Look) -> Iterator[Yielded]:
    """T-4G: behaviour of all heads against the frequencies that they use, as in U25-9."""
    settings, heads = look_at_taught(look), {}
    yield from yield_accuracy(settings)
    for where, x in settings.items():
        bands = np.exp(np.stack([np.log(part).mean(-1) for part in np.array_split(x["plane_angle"], 8, axis=-1)], -1))
        heads[where] = measure_behaviour_and_use(x["positional"], x["symbolic"], x["band_energy_share"], bands)
    look.record(*list_measured_weights("taught", look.remedy, look.model))
    birth = frequency_law_with_random_weights("taught", look.folder, look.remedy, look.model)
    yield from yield_frequency_use(heads, birth)


@judge(SHOWN_IN, model=MODEL, measured_on=TAUGHT)
def missing_bands(look: Look) -> Iterator[Yielded]:
    """T-6G: whether binding is learned with a quarter of every layer's planes stopped throughout, and how fast."""
    runs = {band: load_runs(look.folder, band, model=look.model) for band in ("none", "slowest", "fastest")}
    look.record(*(result for results in runs.values() for result in results))
    yield from yield_accuracy(look_at_taught(look))
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
            turned.append(np.abs(whole["angles"] - result["angles"]).max(1) * (TOKENS - 1))
            asked = int(np.isfinite(right).sum())
            before += [float(losses[0] / whole["losses"][0])] if band == "fastest" else []
        most[band] = np.max(turned, 0)
        yield f"radians that a stopped plane would turn over a prompt, {band}, at most", "", float(most[band].max())
    # Where all layers turn alike, all of them see all of the prompt.
    wide = np.delete(most["slowest"], find_local_layers(runs["none"][0]["angles"]))
    turn, globally = (format_number(float(x.max())) for x in (most["slowest"], wide if len(wide) else most["slowest"]))
    look.note = (
        "The mean loss over the same steps of teaching says how fast the task is learned. Stopping the slowest quarter "
        f"takes at most {turn} radians from a plane over a prompt of {TOKENS} tokens, and at most "
        f"{globally} in global layers. The fast half is confounded: with the fastest quarter stopped the loss is "
        f"{min(before):.2f} to {max(before):.2f} times as high before any teaching. Accuracies are over "
        f"{asked} prompts a seed."
    )

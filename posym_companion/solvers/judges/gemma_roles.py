"""Do scores tell which heads of the taught model carry the task, and was the first look right?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import Result, load_result
from posym_companion.solvers.answers_right_and_wrong import RightAndWrong
from posym_companion.solvers.areas import detection, detection_difference
from posym_companion.solvers.judges.gemma_runs import (
    MODEL,
    SEEDS,
    SHOWN_IN,
    load_runs,
    look_at_taught,
    predictors,
    restored_share,
    yield_accuracy,
)
from posym_companion.solvers.solver_answers import MEASURED
from posym_companion.solvers.taught_gemma import FACTS, WORDINGS
from posym_companion.solvers.taught_profile import list_variant_settings
from posym_companion.verdicts import Remedy, count_cases
from posym_core.metrics import Estimate, find_local_layers, statistic_interval

# A head carries the task if its output alone brings back this share of the difference between two prompts.
CARRIES = 0.1
# Purely symbolic, as the papers have it.
PURE = 0.1
DRAWS = 2000
NO_SIDES, NAN = "no heads on both sides", float("nan")
WITHOUT_MOST = "the same without the head that restores most"
# What is taught in the controls.
CONTROLS = {"the third fact": {"rule": "third"}, "wrong answers": {"right": False}}
# The first rule compared with the control's first seed after this step.
FIRST_STOP = 12
RISE, LESS = "rise of idle heads", "rise of idle heads less twice that where {} taught"
MORE = {"the third fact": LESS.format("the third fact is"), "wrong answers": LESS.format("wrong answers are")}


@judge(SHOWN_IN, model=MODEL, measured_on="{model}, taught to bind")
def scores_tell_taught_roles(look: Look) -> Iterator[Yielded]:
    """T-5G: whether scores tell which heads carry the task, on the taught wording: over all depths and within one."""
    results = load_runs(look.folder, model=look.model)
    carried = np.greater(np.stack([restored_share(result) for result in results]), CARRIES)
    layers = np.arange(carried.shape[1])
    depth = np.broadcast_to(layers[:, None], carried.shape[1:])
    thirds = [np.isin(depth, part) for part in np.array_split(layers, 3)]
    ever, always = np.asarray(carried.any(0)), np.asarray(carried.all(0))
    third = max(thirds, key=lambda part: ever[part].sum())  # that with most carriers
    alone = []
    for result, carries in zip(results, carried, strict=True):
        seed, scores = f"seed {result.settings['seed']}", predictors(result)
        pure = (scores["s_SYM"] > 1 - PURE) & (-scores["s_POS (low)"] < PURE)
        yield "purely symbolic heads that carry it", seed, count_cases(carries[pure])
        share = float(carries[pure].mean()) if pure.any() else None
        yield "share of purely symbolic heads that carry it", seed, share
        for when, snapshot in (("before", 0), ("after", -1)):
            for name, x in predictors(result, snapshot).items():
                yield f"area, {name} {when}", seed, _detect(x, carries)
        for name in ("s_SYM", "s_POS (low)"):
            yield f"area, {name} within a third of the depth", seed, _detect(scores[name][third], carries[third])
        for name, rival in (("spread", scores["spread of logits"]), ("depth", depth)):
            more = detection_difference(scores["s_SYM"], rival, carries) if carries.any() else NO_SIDES
            yield f"area, s_SYM - {name}", seed, more
        alone.append(_detect(depth, carries))
    yield "heads that carry it in any seed", "", int(ever.sum())
    smaller = min(int(ever[third].sum()), int((~ever)[third].sum()))
    yield "heads on the smaller side in a third of the depth", "", smaller
    look.note = (
        f"A head carries the task if patching its output restores more than {CARRIES} of the answer's difference. "
        f"{count_cases(always[ever])} heads that carry it in any seed do so "
        "in every one: all seeds speak of one set of heads. By depth alone, the later the more, the areas are "
        f"{', '.join(f'{x.value:.2f}' if isinstance(x, Estimate) else x for x in alone)}."
    )
    yield from yield_accuracy(look_at_taught(look))


def _detect(x: np.ndarray, chosen: np.ndarray) -> Estimate | str:
    return detection(x, chosen, draws=DRAWS) if 0 < chosen.sum() < chosen.size else NO_SIDES


@judge(
    SHOWN_IN,
    model=MODEL,
    measured_on="{model}, taught to bind",
    note="Controls have as many steps on the same prompts: one is taught the attribute of the third fact, another rule "
    "that can be learned, and one wrong answers, from which nothing can",
)
def first_look(look: Look) -> Iterator[Yielded]:
    """T-0G: what one seed and no patching had suggested, and what idle heads do in controls of as many steps.

    With a remedy the scores are those of its prompts, before teaching and after the last step; which heads carry the
    task, and whether a control was learned, stays what the runs say. Of another model than the first no control need
    be there, and whether layers are local is asked where some are and some are not.
    """
    results = load_runs(look.folder, model=look.model)
    look.record(*results)
    controls = {name: load_runs(look.folder, model=look.model, **kind) for name, kind in CONTROLS.items()}
    for name, runs in controls.items():
        look.record(*runs)
        yield f"right by its own rule, {name}", "no seed", None
        yield MORE[name], "no seed", None
    carriers: dict[str, list[bool]] = {}
    for result in results:
        seed = f"seed {result.settings['seed']}"
        share, scores = restored_share(result), scores_by_step(result, look.folder, look.remedy)
        positional, symbolic = scores[max(scores)]
        pure = (symbolic > 1 - PURE) & (positional < PURE)
        for layer, head in np.argwhere(share > CARRIES).tolist():
            yield "purely symbolic", f"{layer}:{head}, {seed}", bool(pure[layer, head])
            carriers.setdefault(f"{layer}:{head}", []).append(bool(pure[layer, head]))
        local = np.isin(np.arange(len(share)), find_local_layers(result["angles"]))
        positive = share.clip(min=0)
        rest = np.where(np.arange(positive.size).reshape(positive.shape) == positive.argmax(), 0, positive)
        for quantity, part in (("share restored by global layers", positive), (WITHOUT_MOST, rest)):
            yield quantity, seed, None if local.all() else float(part[~local].sum() / part.sum()) if part.any() else NAN
        positional, symbolic = scores[0]
        idle = (symbolic > 1 - PURE) & (positional < 0.5) & (share <= CARRIES)
        yield "idle heads, symbolic before", seed, int(idle.sum())
        taught = measure_rise(scores, idle)
        last = max(taught)
        yield RISE, seed, taught[last] if idle.any() else None
        for step, rise in taught.items():
            yield "their rise of s_POS - s_SYM, median", f"{seed}, step {step}", rise
        for name, runs in controls.items():
            for control in (one for one in runs if one.settings["seed"] == result.settings["seed"]):
                rises = measure_rise(scores_by_step(control, look.folder, look.remedy), idle)
                yield f"right by its own rule, {name}", seed, taught_rule_accuracy(control)
                for step, rise in rises.items():
                    yield f"the same heads, {name}", f"{seed}, step {step}", rise
                yield MORE[name], seed, taught[last] - 2 * rises[last] if idle.any() else None
        if look.remedy == "none" and look.model == MODEL:
            (first,) = (one for one in controls["wrong answers"] if one.settings["seed"] == SEEDS[0])
            stopped = measure_rise(scores_by_step(first), idle)[FIRST_STOP]
            yield f"{MORE['wrong answers']}, stopped at step {FIRST_STOP}", seed, taught[last] - 2 * stopped
    # The same heads in other runs of teaching are no other heads.
    for head, pure in carriers.items():
        yield "purely symbolic in every run", head, all(pure)
    yield from yield_accuracy(look_at_taught(look))


def scores_by_step(
    result: Result, folder: Path | None = None, remedy: Remedy = "none"
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return both scores of every head on the taught wording, means over prompts, after each step that has them."""
    if remedy == "none":
        steps = enumerate(result["steps"].tolist())
        each = {step: [result[name][place, 0] for name in ("positional", "symbolic")] for place, step in steps}
    else:
        profiles = load_profiles(result, folder, remedy)
        ends = dict(zip((0, int(result.settings["steps"])), profiles, strict=True))
        each = {step: [profile[name] for name in ("positional", "symbolic")] for step, profile in ends.items()}
    return {step: (x.astype(float).mean(0), y.astype(float).mean(0)) for step, (x, y) in each.items()}


def load_profiles(result: Result, folder: Path | None, remedy: Remedy) -> tuple[Result, Result]:
    """Return profiles on a remedy's prompts, of the taught wording: before any teaching, and after that of a run."""
    run = result.settings
    lesson = "wrong" if not run["right"] else "third" if run.get("rule") == "third" else "binding"
    settings = list_variant_settings(remedy, run.get("model", MODEL), lesson)
    (setting,) = (x for x in settings if (x.taught, x.profile.template) == (run["seed"], WORDINGS[0]))
    return load_result(setting.profile.name, folder=folder), load_result(setting.name, folder=folder)


def measure_rise(scores: dict[int, tuple[np.ndarray, np.ndarray]], heads: np.ndarray) -> dict[int, float]:
    """Return by step, by how much ``s_POS - s_SYM`` of some heads has risen since before teaching (median).

    NaN without a head.
    """
    leans = {step: (positional - symbolic)[heads] for step, (positional, symbolic) in scores.items()}
    before = leans.pop(0)
    return {step: float(np.median(x - before)) if heads.any() else float("nan") for step, x in leans.items()}


def taught_rule_accuracy(result: Result) -> float:
    """Return the share of right answers after the last step, by the rule that was taught, on the taught wording."""
    return float(np.nanmean(result["correct"][-1, 0, FACTS.index(result.settings["facts"])]))


def untaught_answers(folder: Path | None = None) -> dict[str, RightAndWrong]:
    """Return measurements of the heads that will carry the answer, where the untaught model is right and where wrong.

    Over the prompts of all seeds and wordings; differences are within a seed and wording, intervals over prompts.
    """
    rows: dict[str, list[np.ndarray]] = {name: [] for name in MEASURED}
    for number, result in enumerate(load_runs(folder)):
        carries = restored_share(result) > CARRIES
        for place in range(len(WORDINGS)):
            right = result["correct"][0, place, FACTS.index(result.settings["facts"])].astype(float)
            group = np.full_like(right, len(WORDINGS) * number + place)
            for name in MEASURED:
                heads = result[name][0, place].astype(float)[:, carries].mean(-1)
                rows[name].append(np.stack([heads, right, group], -1))
    compared = {}
    for name, parts in rows.items():
        measured = np.concatenate(parts)
        value, right = measured[:, 0], measured[:, 1] == 1
        compared[name] = RightAndWrong(
            right=float(value[right].mean()),
            wrong=float(value[~right].mean()),
            difference=statistic_interval(lambda drawn: _within_groups(drawn)[0], measured[:, None], draws=DRAWS),
            effect=statistic_interval(lambda drawn: _within_groups(drawn)[1], measured[:, None], draws=DRAWS),
        )
    return compared


def _within_groups(rows: np.ndarray) -> tuple[float, float]:
    """Return the difference of ``[prompt, 1, (value, right, group)]`` between right and wrong, alike in all groups, by
    least squares; and the same in standard deviations of what is left."""
    values, group = rows[:, 0, :2], rows[:, 0, 2].astype(int)
    counts = np.maximum(np.bincount(group), 1)
    means = np.stack([np.bincount(group, column) / counts for column in values.T], -1)
    value, right = (values - means[group]).T
    if not right.any():
        return np.nan, np.nan
    gap = float(value @ right / (right @ right))
    return gap, gap / float(np.std(value - gap * right))

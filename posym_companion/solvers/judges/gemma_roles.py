"""Do scores tell which heads of the taught model carry the task, and was the first look right?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, Remedy
from posym_companion.language_models.judges.binding_profile import count_cases
from posym_companion.results import Result, load_result
from posym_companion.solvers.areas import detection, detection_difference
from posym_companion.solvers.judges.gemma_runs import (
    MODEL,
    SEEDS,
    SOLVED,
    load_runs,
    measure_runs,
    predictors,
    restored_share,
    taught_models,
)
from posym_companion.solvers.judges.solver_answers import RightAndWrong
from posym_companion.solvers.solver_answers import MEASURED
from posym_companion.solvers.taught_gemma import FACTS, WORDINGS
from posym_companion.solvers.taught_profile import list_variant_settings
from posym_core.metrics import Estimate, find_local_layers, statistic_interval

# A head carries the task if its output alone brings back this share of the difference between two prompts.
CARRIES = 0.1
# Purely symbolic, as the papers have it.
PURE = 0.1
DRAWS = 2000
# What is taught in the controls, and the numbers that count in how many seeds idle heads rise less than half as much.
CONTROLS = {"the third fact": {"rule": "third"}, "wrong answers": {"right": False}}
GLOBAL = "seeds in which global layers restore most"
LESS = {
    "the third fact": "seeds in which they rise less than half as much where the third fact is taught",
    "wrong answers": "seeds in which they rise less than half as much where wrong answers are taught",
}
# The first rule compared them after the last step with the control's first seed after this one.
FIRST_STOP = 12
FIRST_LESS = f"seeds in which they do so less than half as much in the control, stopped at step {FIRST_STOP}"


def scores_tell_taught_roles(folder: Path | None, model: str = MODEL) -> Measured:
    """Whether scores tell which heads carry the task, on the taught wording: over all depths and within one."""
    results = load_runs(folder, model=model)
    ours: dict[str, Number] = {}
    most: list[bool] = []
    held: dict[str, list[bool]] = {"seeds in which most purely symbolic heads carry it": most}

    def judge(number: str, shown: str, area: Estimate | None, line: float = 0.5) -> None:
        ours[f"area, {shown}"] = area or "no heads on both sides"
        held.setdefault(f"seeds in which {number}", []).append(area is not None and area.low > line)

    carried = np.greater(np.stack([restored_share(result) for result in results]), CARRIES)
    layers = np.arange(carried.shape[1])
    depth = np.broadcast_to(layers[:, None], carried.shape[1:])
    thirds = [np.isin(depth, part) for part in np.array_split(layers, 3)]
    ever, always = np.asarray(carried.any(0)), np.asarray(carried.all(0))
    third = max(thirds, key=lambda part: ever[part].sum())  # that with most carriers
    for result, carries in zip(results, carried, strict=True):
        seed = result.settings["seed"]
        ours[f"heads that carry it (seed {seed})"] = count_cases(carries.ravel())
        scores = predictors(result)
        pure = np.asarray((scores["s_SYM"] > 1 - PURE) & (-scores["s_POS (low)"] < PURE))
        useful = ours[f"purely symbolic heads that carry it (seed {seed})"] = count_cases(carries[pure])
        if useful.of:
            most.append(2 * useful.held > useful.of)
        for name, x in scores.items():
            judge(f"{name} tells", f"{name} after (seed {seed})", _detected(x, carries))
            within = f"{name} tells within a third of the depth"
            judge(within, f"{name} within a third of the depth (seed {seed})", _detected(x[third], carries[third]))
        for name, x in predictors(result, 0).items():
            judge(f"{name} foretold", f"{name} before (seed {seed})", _detected(x, carries))
        judge("depth alone tells", f"depth alone (seed {seed})", _detected(depth, carries))
        for name, rival in (("spread", scores["spread of logits"]), ("depth", depth)):
            better = detection_difference(scores["s_SYM"], rival, carries) if carries.any() else None
            judge(f"s_SYM tells more than the {name}", f"s_SYM - {name} (seed {seed})", better, 0)
    ours |= {
        "heads that carry it in every seed, of those that do in any": count_cases(always[ever]),
        "heads that carry it in any seed": int(ever.sum()),
        "heads on the smaller side in a third of the depth": min(int(ever[third].sum()), int((~ever)[third].sum())),
    }
    alone = [ours[f"area, depth alone (seed {result.settings['seed']})"] for result in results]
    note = (
        f"A head carries the task if patching its output restores more than {CARRIES} of the answer's difference. "
        f"{ours['heads that carry it in every seed, of those that do in any']} heads that carry it in any seed do so "
        "in every one: all seeds speak of one set of heads. By depth alone, the later the more, the areas are "
        f"{', '.join(f'{x.value:.2f}' if isinstance(x, Estimate) else str(x) for x in alone)}."
    )
    every, settings = taught_models(folder, model=model)
    return measure_runs(every, {**{k: count_cases(v) for k, v in held.items()}, **ours}, note, settings)


def _detected(x: np.ndarray, chosen: np.ndarray) -> Estimate | None:
    return detection(x, chosen, draws=DRAWS) if 0 < chosen.sum() < chosen.size else None


def first_look(folder: Path | None, remedy: Remedy | None = None, model: str = MODEL) -> Measured:
    """What one seed and no patching had suggested, and what idle heads do in controls of as many steps.

    With a remedy the scores are those of its prompts, before teaching and after the last step; which heads carry the
    task, and whether a control was learned, stays what the runs say. Of another model than the first no control need
    be there, and whether layers are local is asked where some are and some are not.
    """
    results = load_runs(folder, model=model)
    controls = {name: load_runs(folder, model=model, **kind) for name, kind in CONTROLS.items()}
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {name: [] for name in (GLOBAL, *LESS.values(), FIRST_LESS)}
    carriers: dict[tuple[int, int], list[bool]] = {}
    for result in results:
        seed = result.settings["seed"]
        share, carries = restored_share(result), restored_share(result) > CARRIES
        scores = scores_by_step(result, folder, remedy)
        positional, symbolic = scores[max(scores)]
        pure = (symbolic > 1 - PURE) & (positional < PURE)
        for layer, head in np.argwhere(carries).tolist():
            carriers.setdefault((layer, head), []).append(bool(pure[layer, head]))
        local = np.isin(np.arange(len(share)), find_local_layers(result["angles"]))
        if not local.all():
            positive = share.clip(min=0)
            part = ours[f"share restored by global layers (seed {seed})"] = float(
                positive[~local].sum() / positive.sum()
            )
            held[GLOBAL].append(part > 0.5)
            rest = positive.copy()
            rest.flat[positive.argmax()] = 0
            others = float(rest[~local].sum() / rest.sum()) if rest.any() else float("nan")
            ours[f"the same without the head that restores most (seed {seed})"] = others
        positional, symbolic = scores[0]
        idle = (symbolic > 1 - PURE) & (positional < 0.5) & ~carries
        taught = measure_rise(scores, idle)
        last, turned = max(taught), held.setdefault("seeds in which idle symbolic heads turn positional", [])
        if idle.any():
            turned.append(taught[last] > 0)
        ours |= {
            f"idle heads, symbolic before (seed {seed})": int(idle.sum()),
            **{f"their rise of s_POS - s_SYM, median (seed {seed}, step {step})": x for step, x in taught.items()},
        }
        for name, found in controls.items():
            control = next((one for one in found if one.settings["seed"] == seed), None)
            if control is None:
                continue
            there = measure_rise(scores_by_step(control, folder, remedy), idle)
            ours[f"right by its own rule, {name} (seed {seed})"] = right = taught_rule_accuracy(control)
            ours |= {f"the same heads, {name} (seed {seed}, step {step})": x for step, x in there.items()}
            # A rule that was not learned is no control for what was learned.
            if idle.any() and (right > SOLVED or not control.settings["right"]):
                held[LESS[name]].append(there[last] < taught[last] / 2)
        if remedy is None and model == MODEL:
            first = next(one for one in controls["wrong answers"] if one.settings["seed"] == SEEDS[0])
            held[FIRST_LESS].append(measure_rise(scores_by_step(first), idle)[FIRST_STOP] < taught[last] / 2)
    counts: dict[str, Number] = {
        # The same heads in other runs of teaching are no other heads.
        "heads that carry it in some run and are purely symbolic": count_cases(map(all, carriers.values())),
        "heads that carry it and are purely symbolic": count_cases(x for each in carriers.values() for x in each),
        **{name: count_cases(x) for name, x in held.items()},
    }
    every = [*results, *(one for found in controls.values() for one in found)]
    note = (
        "Controls have as many steps on the same prompts: one is taught the attribute of the third fact, another rule "
        "that can be learned, and one wrong answers, from which nothing can"
    )
    found, settings = taught_models(folder, remedy, model)
    named = {one.name for one in every}
    return measure_runs([*every, *(one for one in found if one.name not in named)], {**counts, **ours}, note, settings)


def scores_by_step(
    result: Result, folder: Path | None = None, remedy: Remedy | None = None
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Mean ``s_POS`` and ``s_SYM`` of every head on the taught wording after each step at which they were measured."""
    if remedy is None:
        steps = enumerate(result["steps"].tolist())
        each = {step: [result[name][place, 0] for name in ("positional", "symbolic")] for place, step in steps}
    else:
        profiles = load_profiles(result, folder, remedy)
        ends = dict(zip((0, int(result.settings["steps"])), profiles, strict=True))
        each = {step: [profile[name] for name in ("positional", "symbolic")] for step, profile in ends.items()}
    return {step: (x.astype(float).mean(0), y.astype(float).mean(0)) for step, (x, y) in each.items()}


def load_profiles(result: Result, folder: Path | None, remedy: Remedy) -> tuple[Result, Result]:
    """Profiles on a remedy's prompts, of the taught wording: before any teaching, and after that of a run."""
    said = result.settings
    lesson = "wrong" if not said["right"] else "third" if said.get("rule") == "third" else "binding"
    settings = list_variant_settings(remedy, said.get("model", MODEL), lesson)
    (setting,) = (x for x in settings if (x.taught, x.profile.template) == (said["seed"], WORDINGS[0]))
    return load_result(setting.profile.name, folder=folder), load_result(setting.name, folder=folder)


def measure_rise(scores: dict[int, tuple[np.ndarray, np.ndarray]], heads: np.ndarray) -> dict[int, float]:
    """By step, by how much ``s_POS - s_SYM`` of some heads has risen since before teaching (median).

    NaN without a head.
    """
    leans = {step: (positional - symbolic)[heads] for step, (positional, symbolic) in scores.items()}
    before = leans.pop(0)
    return {step: float(np.median(x - before)) if heads.any() else float("nan") for step, x in leans.items()}


def taught_rule_accuracy(result: Result) -> float:
    """Share of right answers after the last step, by the rule that was taught, on the taught wording."""
    return float(np.nanmean(result["correct"][-1, 0, FACTS.index(result.settings["facts"])]))


def untaught_answers(folder: Path | None = None) -> dict[str, RightAndWrong]:
    """Measurements of the heads that will carry the answer, where the untaught model is right and where it is wrong.

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
    found = {}
    for name, parts in rows.items():
        measured = np.concatenate(parts)
        value, right = measured[:, 0], measured[:, 1] == 1
        found[name] = RightAndWrong(
            right=float(value[right].mean()),
            wrong=float(value[~right].mean()),
            difference=statistic_interval(lambda drawn: _within_groups(drawn)[0], measured[:, None], draws=DRAWS),
            effect=statistic_interval(lambda drawn: _within_groups(drawn)[1], measured[:, None], draws=DRAWS),
        )
    return found


def _within_groups(rows: np.ndarray) -> tuple[float, float]:
    """Difference of ``[prompt, 1, (value, right, group)]`` between right and wrong, the same in every group by least
    squares; and the same in standard deviations of what is left."""
    values, group = rows[:, 0, :2], rows[:, 0, 2].astype(int)
    counts = np.maximum(np.bincount(group), 1)
    means = np.stack([np.bincount(group, column) / counts for column in values.T], -1)
    value, right = (values - means[group]).T
    if not right.any():
        return np.nan, np.nan
    gap = float(value @ right / (right @ right))
    return gap, gap / float(np.std(value - gap * right))

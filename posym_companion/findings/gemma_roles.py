"""Do scores tell which heads of the taught model carry the task, and was the first look right?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.experiments.solver_answers import MEASURED
from posym_companion.experiments.taught_gemma import FACTS, WORDINGS
from posym_companion.findings.binding_profile import cases
from posym_companion.findings.finding import Cases, Measured, Number
from posym_companion.findings.gemma_runs import lean, measured, predictors, restored, runs
from posym_companion.findings.solver_answers import RightAndWrong
from posym_core.metrics.areas import detection, detection_difference
from posym_core.metrics.stats import statistic_interval
from posym_core.metrics.trends import local_layers

# A head carries the task if its output alone brings back this share of the difference between two prompts.
CARRIES = 0.1
# Purely symbolic, as the papers have it.
PURE = 0.1
DRAWS = 2000


def roles(folder: Path | None) -> Measured:
    """Whether scores tell which heads carry the task, on the taught wording."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {}
    for result in results:
        seed, carries = result.settings["seed"], restored(result) > CARRIES
        ours[f"heads that carry it (seed {seed})"] = Cases(int(carries.sum()), carries.size)
        scores = predictors(result)
        pure = (scores["s_SYM"] > 1 - PURE) & (-scores["s_POS (low)"] < PURE)
        useful = Cases(int((pure & carries).sum()), max(1, int(pure.sum())))
        ours[f"purely symbolic heads that carry it (seed {seed})"] = useful
        held.setdefault("seeds in which most purely symbolic heads carry it", []).append(2 * useful.held > useful.of)
        for when, told in (("after", scores), ("before", predictors(result, 0))):
            for name, x in told.items():
                area = detection(x, carries, draws=DRAWS) if carries.any() else None
                ours[f"area, {name} {when} (seed {seed})"] = area or "no head carries it"
                counted = f"seeds in which {name} tells" if when == "after" else f"seeds in which {name} foretold"
                held.setdefault(counted, []).append(area is not None and area.low > 0.5)
        better = detection_difference(scores["s_SYM"], scores["spread of logits"], carries) if carries.any() else None
        ours[f"area, s_SYM - spread (seed {seed})"] = better or "no head carries it"
        held.setdefault("seeds in which s_SYM tells more than the spread", []).append(bool(better and better.low > 0))
    note = f"A head carries the task if patching its output restores more than {CARRIES} of the answer's difference."
    return measured(results, {**{k: cases(v) for k, v in held.items()}, **ours}, note)


def first_look(folder: Path | None) -> Measured:
    """What one seed and no patching had suggested."""
    results, control = runs(folder), runs(folder, right=False)[0]
    ours: dict[str, Number] = {}
    carriers, in_global, turned, control_turned = [], [], [], []
    for result in results:
        share, carries = restored(result), restored(result) > CARRIES
        scores, before = predictors(result), predictors(result, 0)
        pure = (scores["s_SYM"] > 1 - PURE) & (-scores["s_POS (low)"] < PURE)
        carriers += pure[carries].tolist()
        local = np.isin(np.arange(len(share)), local_layers(result["angles"]))
        positive = share.clip(min=0)
        part = float(positive[~local].sum() / positive.sum())
        in_global.append(part > 0.5)
        idle = (before["s_SYM"] > 1 - PURE) & (-before["s_POS (low)"] < 0.5) & ~carries
        moved = [lean(one, -1)[idle] - lean(one, 0)[idle] for one in (result, control)]
        turned.append(bool(np.median(moved[0]) > 0))
        control_turned.append(bool(np.median(moved[1]) < np.median(moved[0]) / 2))
        seed = result.settings["seed"]
        ours |= {
            f"share restored by global layers (seed {seed})": part,
            f"idle heads, symbolic before (seed {seed})": int(idle.sum()),
            f"their rise of s_POS - s_SYM, median (seed {seed})": float(np.median(moved[0])),
            f"the same heads in the control (seed {seed})": float(np.median(moved[1])),
        }
    counts: dict[str, Number] = {
        "heads that carry it and are purely symbolic": cases(carriers) if carriers else Cases(0, 1),
        "seeds in which global layers restore most": cases(in_global),
        "seeds in which idle symbolic heads turn positional": cases(turned),
        "seeds in which they do so less than half as much in the control": cases(control_turned),
    }
    return measured([*results, control], {**counts, **ours}, "The control learned wrong answers of the same prompts.")


def untaught_answers(folder: Path | None = None) -> dict[str, RightAndWrong]:
    """Measurements of the heads that will carry the answer, where the untaught model is right and where it is wrong.

    Over the prompts of all seeds and wordings; differences are within a seed and wording, intervals over prompts.
    """
    rows: dict[str, list[np.ndarray]] = {name: [] for name in MEASURED}
    for number, result in enumerate(runs(folder)):
        carries = restored(result) > CARRIES
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

"""Judges of the claims about encodings on the tasks Distance and Count, from models trained at a reduced size.

The rules were written after exploratory runs of one seed with rotary, learned and no positions, and before the stored
runs. A statement about two set-ups holds if it holds in every seed that both have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from posym_companion.encodings.encoding_study import (
    LONG,
    RELEASED,
    EncodingStudy,
    StudyTask,
    has_no_meaning,
    long_size,
    same_without_padding,
)
from posym_companion.encodings.pointers import SCORED, pointed_ranks
from posym_companion.finding import Measured, Number, count_cases
from posym_companion.results import Result, load_result, load_stored_results
from posym_core.metrics import mean_interval

FAILS = 0.25  # an accuracy below this is a failure
COSTS, NEXT, HALF, SUFFICES = 0.30, 1 / 3, 0.5, 0.9
# The paper's accuracy of rotary models on Count, and by how much ours may fall short of it.
COUNTED, SHORT_OF = 0.6943, 0.1
STEPS = EncodingStudy(task="distance", setup="rope").steps
MODEL = "transformers of 2 layers with 8 heads, tasks of half the paper's lengths"
SHOWN_IN = "book/encodings/one_head.ipynb"


def load_study(task: StudyTask, setup: str, folder: Path | None = None) -> Result:
    """The stored result of a set-up; on Count, of the one that is the same without padding.

    Raises:
        ResultError: if it is missing or altered.
    """
    if has_no_meaning(task, setup):
        setup = same_without_padding(setup)
    return load_result(EncodingStudy(task=task, setup=setup).name, folder=folder)


def always_better(one: Result, other: Result) -> bool:
    """Whether one set-up is more accurate than another in every seed that both have."""
    shared = min(len(one["accuracy"]), len(other["accuracy"]))
    return bool((one["accuracy"][:shared] > other["accuracy"][:shared]).all())


def check_orders(distance: Mapping[str, Result], count: Mapping[str, Result]) -> dict[str, bool]:
    """The paper's order as statements, each with whether it holds.

    Args:
        distance: results by encoding: ``"nope"``, ``"sinusoidal"``, ``"alibi"``, ``"rope"``, ``"mla"``.
        count: likewise.
    """
    fails = [float(distance[name]["accuracy"].max()) < FAILS for name in ("nope", "alibi")]
    others = [name for name in count if name != "alibi"]
    return {
        "Distance: rotary is best of four": all(
            always_better(distance["rope"], distance[name]) for name in ("sinusoidal", "nope", "alibi")
        ),
        "Distance: absolute is second of four": all(
            always_better(distance["sinusoidal"], distance[name]) for name in ("nope", "alibi")
        ),
        "Distance: NoPE and ALiBi fail": all(fails),
        "Count: latent attention beats rotary": always_better(count["mla"], count["rope"]),
        "Count: NoPE beats rotary": always_better(count["nope"], count["rope"]),
        "Count: ALiBi is worst": all(always_better(count[name], count["alibi"]) for name in others),
    }


def task_correlations(distance: Mapping[str, Result], count: Mapping[str, Result]) -> np.ndarray:
    """Correlation of the accuracies on the two tasks over the encodings that both have, ``[seed]``."""
    names = [name for name in distance if name in count]
    shared = min(len(results[name]["accuracy"]) for results in (distance, count) for name in names)
    both = np.array([[results[name]["accuracy"][:shared] for name in names] for results in (distance, count)])
    return np.array([np.corrcoef(both[:, :, seed])[0, 1] for seed in range(shared)])


def encodings_differ(folder: Path | None) -> Measured:
    """G26-2: accuracy by encoding, as released and with everything else equal."""
    ways = {"released": RELEASED, "equal": {name: name for name in RELEASED}}
    ours: dict[str, Number] = {}
    evidence: list[str] = []
    missed = []
    for way, setups in ways.items():
        distance = {name: load_study("distance", setup, folder) for name, setup in setups.items()}
        count = {name: load_study("count", setup, folder) for name, setup in setups.items()}
        for statement, holds in check_orders(distance, count).items():
            ours[f"{way}: {statement}"] = int(holds)
            missed += [] if holds else [f"{way}: not that {statement}"]
        for name in setups:
            for task, results in (("Distance", distance), ("Count", count)):
                ours[f"{task}, {name}, {way}"] = mean_interval(results[name]["accuracy"])
                evidence.append(results[name].name)
        ours[f"correlation of the two tasks over encodings, {way}"] = mean_interval(task_correlations(distance, count))
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*dict.fromkeys(evidence), SHOWN_IN],
        fails_in=missed,
        note=f"Two layers, width 64, half the paper's lengths, {STEPS} steps.",
    )


STATEMENTS = (
    "Distance: rotary is best of four",
    "Distance: absolute is second of four",
    "Distance: NoPE and ALiBi fail",
    "Count: latent attention beats rotary",
    "Count: NoPE beats rotary",
    "Count: ALiBi is worst",
)


# The paper's accuracy on Count less ten points.
COUNTS = 0.5943


def rotary_models_count(folder: Path | None) -> Measured:
    """G26-2b: accuracy on Count of rotary models trained to the end, with dropout and, as a control, without."""
    result = load_result(long_size("count", "rope").name, folder=folder)
    control = load_stored_results([long_size("count", "rope", size="undropped").name], folder)
    without = [mean_interval(one["accuracy"]) for one in control]
    return Measured(
        ours={
            "accuracy": mean_interval(result["accuracy"]),
            "accuracy, trained without dropout": without[0] if without else "not run",
            "trainings without dropout that count": count_cases(found.low > COUNTS for found in without),
            "by how much answers are off, mean": mean_interval(result["error"]),
            "loss of the last 500 steps, with dropout": mean_interval(result["losses"][:, -20:].mean(1)),
            "chance": guess_accuracy("count", "rope"),
        },
        model=TO_THE_END,
        evidence=[result.name, *(one.name for one in control), SHOWN_IN],
        note=f"Answers are off by {result['error'].mean():.1f} on average: tested without dropout the models count "
        "nearly, and not exactly",
    )


def guess_accuracy(task: StudyTask, setup: str) -> float:
    """Accuracy of a guess: all classes come equally often."""
    return 1 / long_size(task, setup).make_task().classes


def removal_costs(result: Result) -> np.ndarray:
    """Points of accuracy, from 0 to 1, that removing a head costs, ``[seed, layer, head]``."""
    return result["whole"][:, None, None] - result["ablated"]


def largest_costs(result: Result, *, by: str = "ablated") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The head that costs most: its cost, the cost of the next one, and its layer from 0, ``[seed]`` each.

    Args:
        result: of a set-up.
        by: ``"ablated"``, what heads say replaced by zero, or ``"averaged"``, by its mean.
    """
    cost = result["whole"][:, None, None] - result[by]
    flat = cost.reshape(len(cost), -1)
    order = np.sort(flat, axis=1)
    return order[:, -1], order[:, -2], flat.argmax(1) // cost.shape[2]


def check_deposit(folder: Path | None = None) -> dict[str, bool]:
    """What the paper says about the deposited head as statements, each with whether it holds."""
    rotary, single = load_study("distance", "rope", folder), load_study("distance", "rope-one-head", folder)
    most, following, layer = largest_costs(rotary)
    elsewhere = [
        largest_costs(load_study("distance", "nope", folder)),
        largest_costs(load_study("count", "rope", folder)),
    ]
    latent = largest_costs(load_study("distance", "mla", folder))[0].mean()
    return {
        "one head of the first layer costs 30 points or more, the next a third of it or less": bool(
            most.mean() >= COSTS and (layer == 0).mean() > 0.5 and following.mean() <= NEXT * most.mean()
        ),
        "neither NoPE nor Count has a head that costs half as much": all(
            bool(costliest.mean() < HALF * most.mean()) for costliest, _, _ in elsewhere
        ),
        "one rotary head a layer reaches nine tenths of the accuracy": bool(
            single["accuracy"].mean() >= SUFFICES * rotary["accuracy"].mean()
        ),
        "with latent attention no head costs half as much": bool(latent < HALF * most.mean()),
    }


def deposited_ranks(result: Result, layers: int | None = None) -> dict[str, np.ndarray]:
    """Rank of the head that costs most under every pointer that knows no task, ``[seed]`` each.

    Args:
        result: of a set-up.
        layers: how many layers, from the first, to look at; all by default.
    """
    cost = removal_costs(result)[:, :layers]
    pointers = {name: result[name][:, :layers] for name in SCORED}
    return {name: pointed_ranks(cost, pointer) for name, pointer in pointers.items() if not np.isnan(pointer).any()}


def position_is_deposited(folder: Path | None) -> Measured:
    """G26-3: what removing single heads costs, and which scores point to the head that costs most."""
    held = check_deposit(folder)
    ours: dict[str, Number] = {statement: int(holds) for statement, holds in held.items()}
    evidence = []
    named: dict[str, tuple[StudyTask, str]] = {
        "rotary": ("distance", "rope"),
        "rotary, as released": ("distance", "rope-released"),
        "one rotary head a layer": ("distance", "rope-one-head"),
        "the same, three times as long": ("distance", "rope-one-head-longer"),
        "latent attention": ("distance", "mla"),
        "no positions": ("distance", "nope"),
        "rotary on Count": ("count", "rope"),
    }
    for label, which in named.items():
        result = load_study(*which, folder)
        most, following, layer = largest_costs(result)
        ours[f"{label}: accuracy"] = mean_interval(result["accuracy"])
        ours[f"{label}: cost of the costliest head"] = mean_interval(most)
        ours[f"{label}: cost of the next"] = mean_interval(following)
        ours[f"{label}: seeds with the costliest head in the first layer"] = f"{(layer == 0).sum()} of {len(layer)}"
        evidence.append(result.name)
    rotary = load_study("distance", "rope", folder)
    _, layers, heads = removal_costs(rotary).shape
    for looked_at, among in ((layers, f"{layers * heads}"), (1, f"{heads} in the first layer")):
        for name, ranks in deposited_ranks(rotary, looked_at).items():
            ours[f"rotary: rank of the costliest head of {among} by {name.replace('_', ' ')}"] = mean_interval(ranks)
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*evidence, SHOWN_IN],
        fails_in=_without_deposit(held, ours),
        note="Heads are removed by zeroing what they say, which also takes away its mean; G26-3b replaces them by it. "
        f"Two layers of {heads} heads, {STEPS} steps, no dropout.",
    )


def _without_deposit(held: Mapping[str, bool], ours: Mapping[str, Number]) -> list[str]:
    """The statements of :func:`check_deposit` that do not hold, with the numbers that they are about."""
    costs = "{}: cost of the costliest head".format
    about = (
        (costs("rotary"), "rotary: cost of the next", "rotary: seeds with the costliest head in the first layer"),
        (costs("rotary"), costs("no positions"), costs("rotary on Count")),
        tuple(f"{label}: accuracy" for label in ("rotary", "one rotary head a layer", "the same, three times as long")),
        (costs("rotary"), costs("latent attention")),
    )
    return [
        "; ".join(f"{name} {ours[name]}" for name in names)
        for names, holds in zip(about, held.values(), strict=True)
        if not holds
    ]


TO_THE_END = (
    "transformers of 2 layers with 8 heads, the paper's lengths and dropout, "
    f"{long_size('distance', 'rope').steps:,} steps"
)
# What should not need positions, or has none: what they are called in a part of the claim.
ELSEWHERE: Mapping[tuple[StudyTask, str], str] = {
    ("distance", "nope"): "without positions",
    ("count", "rope"): "on Count",
}


def position_is_deposited_by_mean(folder: Path | None) -> Measured:
    """G26-3b: as G26-3, with heads replaced by their mean in models trained to the end at the paper's lengths."""
    results = {name: load_result(long_size(*name).name, folder=folder) for name in LONG}
    rotary, latent, single = (results["distance", setup] for setup in ("rope", "mla", "rope-one-head"))
    most, following, layer = largest_costs(rotary, by="averaged")
    elsewhere = {name: float(largest_costs(results[name], by="averaged")[0].mean() / most.mean()) for name in ELSEWHERE}
    last, before = rotary["losses"][:, -20:].mean(1), rotary["losses"][:, -40:-20].mean(1)
    ours: dict[str, Number] = {
        "rotary: cost of the costliest head, by its mean": mean_interval(most),
        "rotary: the next head's cost over the costliest's": mean_interval(following / most),
        "rotary: seeds with the costliest head in the first layer": count_cases(layer == 0),
        "largest cost without positions or on Count over rotary's": max(elsewhere.values()),
        "accuracy of one rotary head a layer over that of all": mean_interval(single["accuracy"] / rotary["accuracy"]),
        "largest cost with latent attention over rotary's": float(
            largest_costs(latent, by="averaged")[0].mean() / most.mean()
        ),
        "rotary: loss of the last 500 steps over that of the 500 before": mean_interval(last / before),
    }
    untold = []
    for name, words in ELSEWHERE.items():
        lost = float(results[name]["accuracy"].mean()) - guess_accuracy(*name)
        ours[f"largest cost {words} over rotary's"] = elsewhere[name]
        ours[TO_LOSE.format(words)] = lost / float(most.mean())
        if lost <= HALF * most.mean():
            untold.append(
                f"{words} accuracy is {results[name]['accuracy'].mean():.3f} and chance {guess_accuracy(*name):.3f}"
            )
    for (task, setup), result in results.items():
        ours[f"{task}, {setup}: accuracy"] = mean_interval(result["accuracy"])
        for by, words in (("averaged", "its mean"), ("ablated", "zero")):
            costliest, _, _ = largest_costs(result, by=by)
            ours[f"{task}, {setup}: cost of the costliest head by {words}"] = mean_interval(costliest)
    note = "Six layers of sixteen heads are not run at these lengths: an hour a seed and encoding on a core."
    if untold:
        note += f" A model near chance has nothing to lose: {', '.join(untold)}."
    return Measured(
        ours=ours, model=TO_THE_END, evidence=[*(result.name for result in results.values()), SHOWN_IN], note=note
    )


TO_LOSE = "accuracy above chance {} over rotary's cost"

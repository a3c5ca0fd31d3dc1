"""Judges of the claims about encodings on the tasks Distance and Count, from models trained at a reduced size.

The rules were written after exploratory runs of one seed with rotary, learned and no positions, and before the stored
runs. A statement about two set-ups holds if it holds in every seed that both have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from posym_companion.encodings.encoding_study import (
    RELEASED,
    EncodingStudy,
    StudyTask,
    has_no_meaning,
    long_size,
    same_without_padding,
)
from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import Result, load_result, load_stored_results
from posym_core.metrics import mean_interval

FAILS = 0.25  # an accuracy below this is a failure
COSTS, NEXT, HALF, SUFFICES = 0.30, 1 / 3, 0.5, 0.9
STEPS = EncodingStudy(task="distance", setup="rope").steps
MODEL = "transformers of 2 layers with 8 heads, tasks of half the paper's lengths"
TO_THE_END = (
    "transformers of 2 layers with 8 heads, the paper's lengths and dropout, "
    f"{long_size('distance', 'rope').steps:,} steps"
)
SHOWN_IN = "book/encodings/one_head.ipynb"


def find_study(task: StudyTask, setup: str) -> EncodingStudy:
    """Return the setting of a set-up; on Count, of the one that is the same without padding."""
    return EncodingStudy(task=task, setup=same_without_padding(setup) if has_no_meaning(task, setup) else setup)


def load_study(task: StudyTask, setup: str, folder: Path | None = None) -> Result:
    """Return the stored result of a set-up, see :func:`find_study`.

    Raises:
        ResultError: if it is missing or altered.
    """
    return load_result(find_study(task, setup).name, folder=folder)


def study_result(encoding: str, task: StudyTask) -> Result | None:
    """Return what is stored of an encoding, all else equal, if anything."""
    return next(iter(load_stored_results([EncodingStudy(task=task, setup=encoding).name])), None)


def always_better(one: Result, other: Result) -> bool:
    """Whether one set-up is more accurate than another in every seed that both have."""
    shared = min(len(one["accuracy"]), len(other["accuracy"]))
    return bool((one["accuracy"][:shared] > other["accuracy"][:shared]).all())


def check_orders(distance: Mapping[str, Result], count: Mapping[str, Result]) -> dict[str, bool]:
    """Return the paper's order as statements, each with whether it holds.

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
    """Return the correlation of the accuracies on the two tasks over the encodings that both have, ``[seed]``."""
    names = [name for name in distance if name in count]
    shared = min(len(results[name]["accuracy"]) for results in (distance, count) for name in names)
    both = np.array([[results[name]["accuracy"][:shared] for name in names] for results in (distance, count)])
    return np.array([np.corrcoef(both[:, :, seed])[0, 1] for seed in range(shared)])


@judge(SHOWN_IN, measured_on=MODEL, note=f"Two layers, width 64, half the paper's lengths, {STEPS} steps.")
def encodings_differ(look: Look) -> Iterator[Yielded]:
    """G26-2: the paper's order of encodings, of models as released."""
    distance, count = (
        {name: look.load(find_study(task, setup)) for name, setup in RELEASED.items()} for task in ("distance", "count")
    )
    for statement, holds in check_orders(distance, count).items():
        yield f"released: {statement}", "", int(holds)


@judge(SHOWN_IN, measured_on=TO_THE_END)
def rotary_models_count(look: Look) -> Iterator[Yielded]:
    """G26-2b: accuracy on Count of rotary models trained to the end, with dropout and, as a control, without."""
    result, control = (look.load(long_size("count", "rope", size=size)) for size in ("long", "undropped"))
    yield "accuracy", "", mean_interval(result["accuracy"])
    yield "accuracy, trained without dropout", "", mean_interval(control["accuracy"])
    yield "accuracy of a training", "without dropout", mean_interval(control["accuracy"])
    look.note = (
        f"Answers are off by {result['error'].mean():.1f} on average: tested without dropout the models count nearly, "
        "and not exactly"
    )


# Models whose heads should cost little, and what they are called in a part of the claim.
ROTARY: tuple[StudyTask, str] = ("distance", "rope")
ONE_HEAD: tuple[StudyTask, str] = ("distance", "rope-one-head")
LATENT = "with latent attention"
OTHERS: Mapping[str, tuple[StudyTask, str]] = {
    LATENT: ("distance", "mla"),
    "without positions": ("distance", "nope"),
    "on Count": ("count", "rope"),
}


def guess_accuracy(task: StudyTask, setup: str) -> float:
    """Accuracy of a guess: all classes come equally often."""
    return 1 / long_size(task, setup).make_task().classes


def removal_costs(result: Result) -> np.ndarray:
    """Return points of accuracy, from 0 to 1, that removing a head costs, ``[seed, layer, head]``."""
    return result["whole"][:, None, None] - result["ablated"]


def largest_costs(result: Result, *, by: str = "ablated") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the head that costs most: its cost, the cost of the next one, and its layer from 0, ``[seed]`` each.

    Args:
        result: of a set-up.
        by: ``"ablated"``, what heads say replaced by zero, or ``"averaged"``, by its mean.
    """
    cost = result["whole"][:, None, None] - result[by]
    flat = cost.reshape(len(cost), -1)
    order = np.sort(flat, axis=1)
    return order[:, -1], order[:, -2], flat.argmax(1) // cost.shape[2]


def check_deposit(folder: Path | None = None) -> dict[str, bool]:
    """Return what the paper says about the deposited head as statements, each with whether it holds."""
    rotary, single = load_study("distance", "rope", folder), load_study("distance", "rope-one-head", folder)
    most, following, layer = largest_costs(rotary)
    latent, *elsewhere = (largest_costs(load_study(*which, folder))[0].mean() for which in OTHERS.values())
    return {
        "one head of the first layer costs 30 points or more, the next a third of it or less": bool(
            most.mean() >= COSTS and (layer == 0).mean() > 0.5 and following.mean() <= NEXT * most.mean()
        ),
        "neither NoPE nor Count has a head that costs half as much": bool(max(elsewhere) < HALF * most.mean()),
        "one rotary head a layer reaches nine tenths of the accuracy": bool(
            single["accuracy"].mean() >= SUFFICES * rotary["accuracy"].mean()
        ),
        "with latent attention no head costs half as much": bool(latent < HALF * most.mean()),
    }


@judge(SHOWN_IN, measured_on=MODEL)
def position_is_deposited(look: Look) -> Iterator[Yielded]:
    """G26-3: whether one head of rotary models is costly, and which other models have such a head."""
    results = {which: look.load(find_study(*which)) for which in (ROTARY, ONE_HEAD, *OTHERS.values())}
    for statement, holds in check_deposit(look.folder).items():
        yield statement, "", int(holds)
    most, following, _ = largest_costs(results[ROTARY])
    others = ", ".join(f"{largest_costs(results[which])[0].mean():.2f} {words}" for words, which in OTHERS.items())
    look.note = (
        f"The costliest head costs {most.mean():.2f} and the next {following.mean():.2f}; the costliest {others}. "
        "Heads are removed by zeroing what they say, which also takes away its mean; G26-3b replaces them by it. "
        f"Two layers of {results[ROTARY]['ablated'].shape[2]} heads, {STEPS} steps, no dropout."
    )


@judge(SHOWN_IN, measured_on=TO_THE_END)
def position_is_deposited_by_mean(look: Look) -> Iterator[Yielded]:
    """G26-3b: as G26-3, with heads replaced by their mean in models trained to the end at the paper's lengths."""
    rotary, single = (look.load(long_size(*which)) for which in (ROTARY, ONE_HEAD))
    most, following, layers = largest_costs(rotary, by="averaged")
    yield "distance, rope: accuracy", "", mean_interval(rotary["accuracy"])
    yield "rotary: cost of the costliest head, by its mean", "", mean_interval(most)
    yield "rotary: the next head's cost over the costliest's", "", mean_interval(following / most)
    for seed, layer in enumerate(layers):
        yield "layer of the costliest head, from 0", f"seed {seed}", int(layer)
    yield (
        "accuracy of one rotary head a layer over that of all",
        "",
        mean_interval(single["accuracy"] / rotary["accuracy"]),
    )
    untold = []
    for words, which in OTHERS.items():
        result = look.load(long_size(*which))
        cost = float(largest_costs(result, by="averaged")[0].mean() / most.mean())
        yield f"largest cost {words} over rotary's", "", cost
        if words == LATENT:
            continue
        right, guess = float(result["accuracy"].mean()), guess_accuracy(*which)
        yield f"accuracy above chance {words} over rotary's cost", "", (right - guess) / float(most.mean())
        if right - guess <= HALF * most.mean():
            untold.append(f"{words} accuracy is {right:.3f} and chance {guess:.3f}")
    look.note = "Six layers of sixteen heads are not run at these lengths: an hour a seed and encoding on a core."
    if untold:
        look.note += f" A model near chance has nothing to lose: {', '.join(untold)}."


@judge(SHOWN_IN, measured_on=MODEL, note="All but the encoding equal.")
def speed(look: Look) -> Iterator[Yielded]:
    """G26-4: loss averaged over the training of rotary heads against each encoding that adds, and against none."""
    slowest = look.load(find_study("distance", "rope"))["losses"].mean(1).max()
    for name in ("nope", "sinusoidal", "learned", "alibi", "t5"):
        losses = look.load(find_study("distance", name))["losses"].mean(1)
        yield "least loss of a seed over the largest of rotary heads", name, float(losses.min() / slowest)

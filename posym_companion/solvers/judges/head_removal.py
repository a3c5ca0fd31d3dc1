"""Does a score tell what a head is needed for, beyond how deep it sits and what it copies? Judges of B-1 to B-4.

Accuracy falls as heads are removed; the area under it, over the logarithm of how many, is small for an order that
takes the needed heads first. A score is compared with three orders: the last layers first, the first layers first, and
by copying. Lower by a twentieth of all accuracy with an interval off zero is better, over lists or over models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from scipy.integrate import trapezoid

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import MissingResultError, Result, load_result, load_stored_results
from posym_companion.solvers.head_removal import AGAINST, JUDGED, HeadRemoval, Kind
from posym_companion.solvers.judges.task_solvers import SOLVED
from posym_companion.solvers.ranked_models import BANDS, LANGUAGE_MODELS, SOLVERS
from posym_companion.verdicts import count_cases
from posym_core.metrics import Estimate, mean_interval, student_margin
from posym_core.tasks import Question

SHOWN_IN = "book/language_model/what_scores_predict.ipynb"
# A language model answers more than this; of small decoders so many answer.
CHANCE, ENOUGH = 0.5, 5
ANSWERS = "sets of models that answer"
# What no line of the rule asks for.
BESIDE: tuple[Kind, ...] = ("beside", "random", "keep")
Advantages = dict[tuple[str, str], Estimate]
Areas = dict[str, dict[str, float]]


def area(result: Result, order: str) -> Float[np.ndarray, "member question prompt"]:
    """Return the area under right answers against heads removed (or kept), over ``log2(1 + heads)``, from 0 to 1.

    It is a mean of right answers in which every doubling of the heads counts alike; straight lines between counts.
    """
    counts, right = _along(result, order)
    x = np.log2(1 + np.array(counts))
    return trapezoid(right, x, axis=2) / (x[-1] - x[0])


def curve(result: Result, order: str) -> tuple[list[int], Float[np.ndarray, "question count"]]:
    """Return heads removed, or kept, from none to all, and the accuracy then: a mean over members and prompts."""
    counts, right = _along(result, order)
    return counts, right.mean((0, -1))


def _along(result: Result, order: str) -> tuple[list[int], Float[np.ndarray, "member question count prompt"]]:
    place = result["order_names"].tolist().index(order)
    first, last = (1, 0) if result.settings["what"] == "keep" else (0, 1)
    ends = result["ends"].astype(float)
    right = np.concatenate([ends[:, :, [first]], result["correct"][:, :, place].astype(float), ends[:, :, [last]]], 2)
    return [0, *result["counts"].tolist(), int(result["heads"])], right


def least_area(result: Result) -> float:
    """Return the area if the first head removed were all that is needed: nothing can lie below it but by chance."""
    counts = result["counts"].astype(float)
    whole, nothing = result["ends"].astype(float).mean((0, 1, 3))
    x = np.log2(1 + np.array([0, counts[0], int(result["heads"])]))
    return float(nothing + (whole - nothing) * (x[1] - x[0]) / 2 / (x[-1] - x[0]))


def removal_results(name: str, folder: Path | None = None) -> dict[str, Result]:
    """Return the stored removals of a language model: ``remove``, and what is shown beside."""
    results = {"remove": load_result(HeadRemoval(model=name).name, folder=folder)}
    names = [HeadRemoval(model=name, what=what).name for what in BESIDE]
    return results | {result.settings["what"]: result for result in load_stored_results(names, folder)}


def language_advantages(result: Result) -> Advantages:
    """Return by how much the area of a tested order lies below another's, by both names, with intervals over lists."""
    advantages = {}
    for score, other in product(JUDGED, AGAINST):
        less = (area(result, other) - area(result, score))[0, 0].reshape(result.settings["lists"], -1).mean(1)
        value, half = float(less.mean()), float(student_margin(less))
        method = f"{len(less)} lists, Student's t"
        advantages[score, other] = Estimate(value=value, low=value - half, high=value + half, method=method)
    return advantages


def find_solving_members(result: Result, question: Question) -> Bool[np.ndarray, " member"]:
    """Return which members of an ensemble answer a kind of question."""
    kinds = list(SOLVERS[result.settings["model"]].questions)
    return result["ends"][:, kinds.index(question), 0].mean(-1) > SOLVED


def solver_areas(results: Sequence[Result], question: Question, order: str) -> Float[np.ndarray, " model"]:
    """Return the same area of every small decoder that answers a kind of question."""
    rows = []
    for result in results:
        kinds = list(SOLVERS[result.settings["model"]].questions)
        rows.append(area(result, order)[find_solving_members(result, question), kinds.index(question)].mean(-1))
    return np.concatenate(rows)


def language_removal(look: Look) -> Iterator[Yielded]:
    """B-1 and B-2: a taught language model."""
    results = removal_results(look.model, look.folder)
    look.record(*results.values())
    removed = results["remove"]
    whole = removed["ends"][0, 0, 0].astype(float)
    accuracy = mean_interval(whole, over="prompts")
    yield ANSWERS, "", count_cases([accuracy.low > CHANCE])
    areas = {
        what: {order: float(area(result, order).mean()) for order in result["order_names"].tolist()}
        for what, result in results.items()
    }
    yield from yield_advantages(language_advantages(removed))
    yield from yield_areas(areas, least_area(removed))
    look.note = f"{len(whole)} questions in an untaught wording; intervals over lists of facts."


def solver_removal(question: Question, look: Look) -> Iterator[Yielded]:
    """B-3 and B-4: small decoders that answer a kind of question, each with orders of its own."""
    names = list(SOLVERS)[: len(BANDS)]
    removed, *beside = (
        look.load_stored([HeadRemoval(model=name, what=what) for name in names], least=int(what == "remove"))
        for what in ("remove", *BESIDE)
    )
    able = sum(int(find_solving_members(result, question).sum()) for result in removed)
    yield "models that answer", "", able
    yield ANSWERS, "", count_cases([able >= ENOUGH])
    if able < 2:
        raise MissingResultError(f"{able} small decoders answer {question}, and an interval over models needs 2")
    orders = removed[0]["order_names"].tolist()
    each = {order: solver_areas(removed, question, order) for order in orders}
    advantages = {
        (score, other): mean_interval(each[other] - each[score], over="models")
        for score, other in product(JUDGED, AGAINST)
    }
    areas = {
        what: {order: float(solver_areas(many, question, order).mean()) for order in many[0]["order_names"].tolist()}
        for what, many in zip(("remove", *BESIDE), (removed, *beside), strict=True)
        if many
    }
    yield from yield_advantages(advantages)
    yield from yield_areas(areas, float(np.mean([least_area(result) for result in removed])))
    look.note = (
        f"{able} models of two layers of four heads; intervals over models, each with its own heads and prompts."
    )


def yield_advantages(advantages: Advantages) -> Iterator[Yielded]:
    """Yield by how much a score's area lies below that of each other order."""
    yield from ((f"area less that of {score}", other, less) for (score, other), less in advantages.items())


def yield_areas(areas: Areas, least: float) -> Iterator[Yielded]:
    """Yield areas of all orders that were run; of random ones their mean, and the least and the largest."""
    for order, each in {**areas["remove"], **areas.get("beside", {})}.items():
        yield "area", order, each
    if drawn := list(areas.get("random", {}).values()):
        spread = f"{np.mean(drawn):.2f} ({min(drawn):.2f} to {max(drawn):.2f})"
        yield "area", f"{len(drawn)} random orders", spread
    for order, each in areas.get("keep", {}).items():
        yield "area with the first heads alone", order, each
    yield "least room below another order", "", min(areas["remove"][other] for other in AGAINST) - least


gemma, smollm = (judge(SHOWN_IN, model=name, measured_on="{model}")(language_removal) for name in LANGUAGE_MODELS)
binding, index = (
    judge(SHOWN_IN, measured_on=f"small decoders, {question}")(partial(solver_removal, question))
    for question in ("binding", "index")
)

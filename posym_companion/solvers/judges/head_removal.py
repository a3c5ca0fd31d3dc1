"""Does a score tell what a head is needed for, beyond how deep it sits and what it copies? Judges of B-1 to B-4.

Accuracy falls as heads are removed; the area under it, over the logarithm of how many, is small for an order that
takes the needed heads first. A score is compared with three orders: the last layers first, the first layers first, and
by copying. Lower by a twentieth of all accuracy with an interval off zero is better, over lists or over models. The
first rule took intervals over draws of whole layers, which often lack the one layer that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from scipy.integrate import trapezoid

from posym_companion.finding import Cases, Measured, Number, count_cases
from posym_companion.results import MissingResultError, Result, load_result, load_stored_results
from posym_companion.solvers.head_removal import AGAINST, JUDGED, RESAMPLES, HeadRemoval, Kind
from posym_companion.solvers.judges.task_solvers import SOLVED
from posym_companion.solvers.ranked_models import BANDS, LANGUAGE_MODELS, SOLVERS
from posym_core.metrics import Estimate, mean_interval, student_margin
from posym_core.tasks import Question

SHOWN_IN = "book/language_model/what_scores_predict.ipynb"
# A score's area must lie below another's by more than this, in accuracy.
MARGIN = 0.05
# A language model answers more than this; of small decoders so many answer.
CHANCE, ENOUGH = 0.5, 5
BETTER, FIRST = "orders that {} beats", "orders that {} beats, first rule"
ANSWERS = "sets of models that answer"
# What no line of the rule asks for.
BESIDE: tuple[Kind, ...] = ("beside", "random", "keep")


def area(result: Result, order: str) -> Float[np.ndarray, "member question prompt"]:
    """Area under right answers against heads removed (or kept), over ``log2(1 + heads)``, from 0 to 1.

    It is a mean of right answers in which every doubling of the heads counts alike; straight lines between counts.
    """
    counts, right = _along(result, order)
    x = np.log2(1 + np.array(counts))
    return trapezoid(right, x, axis=2) / (x[-1] - x[0])


def curve(result: Result, order: str) -> tuple[list[int], Float[np.ndarray, "question count"]]:
    """Heads removed, or kept, from none to all, and the accuracy then: a mean over members and prompts."""
    counts, right = _along(result, order)
    return counts, right.mean((0, -1))


def _along(result: Result, order: str) -> tuple[list[int], Float[np.ndarray, "member question count prompt"]]:
    place = result["order_names"].tolist().index(order)
    first, last = (1, 0) if result.settings["what"] == "keep" else (0, 1)
    ends = result["ends"].astype(float)
    right = np.concatenate([ends[:, :, [first]], result["correct"][:, :, place].astype(float), ends[:, :, [last]]], 2)
    return [0, *result["counts"].tolist(), int(result["available"].sum())], right


def least_area(result: Result) -> float:
    """The area if the first head removed were all that is needed: nothing can lie below it but by chance."""
    counts = result["counts"].astype(float)
    whole, nothing = result["ends"].astype(float).mean((0, 1, 3))
    x = np.log2(1 + np.array([0, counts[0], result["available"].sum()]))
    return float(nothing + (whole - nothing) * (x[1] - x[0]) / 2 / (x[-1] - x[0]))


def removal_results(name: str, folder: Path | None = None) -> dict[str, Result]:
    """The stored removals of a language model: ``remove``, each draw of layers, and what is shown beside.

    Raises:
        MissingResultError: if one is missing that the rule asks for.
    """
    found = {"remove": load_result(HeadRemoval(model=name).name, folder=folder)}
    for draw in range(RESAMPLES):
        setting = HeadRemoval(model=name, what="layers", draw=draw)
        found[f"layers {draw}"] = load_result(setting.name, folder=folder)
    names = [HeadRemoval(model=name, what=what).name for what in BESIDE]
    return found | {result.settings["what"]: result for result in load_stored_results(names, folder)}


def by_draws(value: float, draws: Sequence[float]) -> Estimate:
    """A number with the interval that its value on draws of layers and lists gives: Student's, of their spread."""
    x = np.asarray(draws, dtype=float)
    half = float(student_margin(x) * np.sqrt(len(x)))
    method = f"{len(x)} draws of whole layers and lists, Student's t"
    return Estimate(value=value, low=value - half, high=value + half, method=method)


Advantages = dict[tuple[str, str], Estimate]


def language_advantages(result: Result) -> Advantages:
    """By how much the area of a tested order lies below that of another, by both names, with intervals over lists."""
    found = {}
    for score, other in product(JUDGED, AGAINST):
        less = (area(result, other) - area(result, score))[0, 0].reshape(len(result["lists"]), -1).mean(1)
        value, half = float(less.mean()), float(student_margin(less))
        method = f"{len(less)} lists, Student's t"
        found[score, other] = Estimate(value=value, low=value - half, high=value + half, method=method)
    return found


def drawn_advantages(results: dict[str, Result]) -> Advantages:
    """The same with intervals over draws of whole layers and lists."""
    draws = [result for name, result in results.items() if name.startswith("layers")]
    found = {}
    for score, other in product(JUDGED, AGAINST):
        value, *spread = (
            float((area(result, other) - area(result, score)).mean()) for result in (results["remove"], *draws)
        )
        found[score, other] = by_draws(value, spread)
    return found


def find_solving_members(result: Result, question: Question) -> Bool[np.ndarray, " member"]:
    """Which members of an ensemble answer a kind of question."""
    kinds = list(SOLVERS[result.settings["model"]].questions)
    return result["ends"][:, kinds.index(question), 0].mean(-1) > SOLVED


def solver_areas(results: Sequence[Result], question: Question, order: str) -> Float[np.ndarray, " model"]:
    """The same area of every small decoder that answers a kind of question."""
    rows = []
    for result in results:
        kinds = list(SOLVERS[result.settings["model"]].questions)
        rows.append(area(result, order)[find_solving_members(result, question), kinds.index(question)].mean(-1))
    return np.concatenate(rows)


def find_beaten_orders(score: str, advantages: Advantages, areas: dict[str, float], least: float) -> Cases:
    """Which of the three orders a score beats; none can be asked where one of them leaves no room below it."""
    if any(not areas[other] - least > MARGIN for other in AGAINST):
        return count_cases([])
    against = [advantages[score, other] for other in AGAINST]
    return count_cases(x.value > MARGIN and x.low > 0 for x in against)


def language_removal(name: str, folder: Path | None) -> Measured:
    """B-1 and B-2: a taught language model."""
    results = removal_results(name, folder)
    removed = results["remove"]
    advantages, first = language_advantages(removed), drawn_advantages(results)
    areas = {
        what: {order: float(area(result, order).mean()) for order in result["order_names"].tolist()}
        for what, result in results.items()
    }
    whole = removed["ends"][0, 0, 0].astype(float)
    accuracy = mean_interval(whole, over="prompts")
    ours: dict[str, Number] = {"accuracy with all heads": accuracy, ANSWERS: count_cases([accuracy.low > CHANCE])}
    ours |= _compared(advantages, first, areas["remove"], least_area(removed))
    ours |= _shown(areas)
    note = f"{len(whole)} questions in an untaught wording; intervals over lists of facts."
    return _measured(ours, name, list(results.values()), note)


def solver_removal(question: Question, folder: Path | None) -> Measured:
    """B-3 and B-4: small decoders that answer a kind of question, each with orders of its own."""
    found: dict[str, list[Result]] = {}
    for what in ("remove", *BESIDE):
        names = [HeadRemoval(model=name, what=what).name for name in list(SOLVERS)[: len(BANDS)]]
        found[what] = load_stored_results(names, folder, least=1 if what == "remove" else 0)
    removed = found["remove"]
    able = sum(int(find_solving_members(result, question).sum()) for result in removed)
    ours: dict[str, Number] = {"models that answer": able, ANSWERS: count_cases([able >= ENOUGH])}
    if able < 2:
        raise MissingResultError(f"{able} small decoders answer {question}, and an interval over models needs 2")
    of = partial(solver_areas, removed, question)
    each = {order: of(order) for order in removed[0]["order_names"].tolist()}
    advantages = {
        (score, other): mean_interval(each[other] - each[score], over="models") for score in JUDGED for other in AGAINST
    }
    areas = {
        what: {order: float(solver_areas(many, question, order).mean()) for order in many[0]["order_names"].tolist()}
        for what, many in found.items()
        if many
    }
    least = float(np.mean([least_area(result) for result in removed]))
    ours |= _compared(advantages, advantages, areas["remove"], least)
    ours |= _shown(areas)
    note = f"{able} models of two layers of four heads; intervals over models, each with its own heads and prompts."
    return _measured(ours, f"small decoders, {question}", [x for many in found.values() for x in many], note)


def _compared(advantages: Advantages, first: Advantages, areas: dict[str, float], least: float) -> dict[str, Number]:
    ours: dict[str, Number] = {
        name.format(score): find_beaten_orders(score, found, areas, least)
        for name, found in ((BETTER, advantages), (FIRST, first))
        for score in JUDGED
    }
    ours |= {f"area of {other} less that of {score}": x for (score, other), x in advantages.items()}
    return ours | {"least area": least}


def _shown(areas: Mapping[str, Mapping[str, float]]) -> dict[str, Number]:
    """Areas of all orders that were run; of random ones their mean, and the least and the largest."""
    removed = {**areas["remove"], **areas.get("beside", {})}
    ours: dict[str, Number] = {f"area, {order}": x for order, x in removed.items()}
    if drawn := list(areas.get("random", {}).values()):
        spread = f"{np.mean(drawn):.2f} ({min(drawn):.2f} to {max(drawn):.2f})"
        ours[f"area, {len(drawn)} random orders"] = spread
    return ours | {f"area with the first heads alone, {order}": x for order, x in areas.get("keep", {}).items()}


def _measured(ours: dict[str, Number], model: str, results: Sequence[Result], note: str) -> Measured:
    missed = [
        f"{score} against {other}: {ours[f'area of {other} less that of {score}']}"
        for score in JUDGED
        for other in AGAINST
        if not _better(ours[f"area of {other} less that of {score}"])
    ]
    evidence = [*(result.name for result in results), SHOWN_IN]
    return Measured(ours=ours, model=model, evidence=evidence, fails_in=missed, note=note)


def _better(found: Number) -> bool:
    return isinstance(found, Estimate) and found.value > MARGIN and found.low > 0


gemma, smollm = (partial(language_removal, name) for name in LANGUAGE_MODELS)
binding, index = partial(solver_removal, "binding"), partial(solver_removal, "index")

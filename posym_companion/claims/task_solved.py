"""Claims on decoders that solve binding and index: the papers' about heads once more, and what the scores predict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.integrate import trapezoid
from scipy.stats import rankdata

from posym_companion.claims import OWN, Look, Outcome, above, below, claim, part, untold
from posym_companion.claims.language_model import shift
from posym_companion.results import Result, list_results, load_result
from posym_companion.solvers.areas import detection
from posym_companion.solvers.head_removal import AGAINST, JUDGED, HeadRemoval
from posym_companion.solvers.head_roles import CARRIES
from posym_companion.solvers.random_solvers import RandomSolvers, behaviour_and_use
from posym_companion.solvers.ranked_models import BANDS, LANGUAGE_MODELS, SOLVERS
from posym_companion.solvers.solver_settings import full_size
from posym_companion.solvers.task_solvers import SCORES
from posym_core.metrics import Estimate, correlate_rows, mean_interval, statistic_interval, student_margin
from posym_core.tasks import Question

CHAPTER = "language_model/task_solvers"
MODELS = ("decoders of one to four layers, trained on binding and index",)
SOLVED = 0.9
DRAWS = 500  # of bootstraps


def load_solvers(look: Look) -> dict[str, Result]:
    """Return the stored settings by name, in the order of the grid."""
    stored = set(list_results("task_solvers", folder=look.folder))
    names = [setting.name for setting in full_size() if setting.name in stored]
    return {name.partition("/")[2]: load_result(name, folder=look.folder) for name in names}


def measure_accuracy(result: Result, question: str) -> Estimate:
    """Return the accuracy on one kind of question, mean over seeds."""
    kind = result.settings["questions"].index(question)
    return mean_interval(result["hits"][:, kind].sum(-1) / result["asked"][:, kind].sum(-1), over="seeds")


def load_deep(look: Look, *, without: str = "") -> dict[str, Result]:
    """Return the settings of two and more layers that solve all kinds of question, as evidence.

    Args:
        look: at the results.
        without: a kind of question; settings that ask it are left out.
    """
    found = {}
    for name, result in load_solvers(look).items():
        asked = result.settings["questions"]
        solved = all(measure_accuracy(result, question).low > SOLVED for question in asked)
        if result.settings["layers"] > 1 and solved and without not in asked:
            found[name] = look.load(result.name)
    look.require("some setting of two or more layers solves its task", bool(found))
    return found


def list_questions(results: Mapping[str, Result], *asked: str) -> Iterator[tuple[str, str, Result, int]]:
    """Yield every kind of question, or those asked, with every setting that asks it, and its place there."""
    for name, result in results.items():
        for kind, question in enumerate(result.settings["questions"]):
            if not asked or question in asked:
                yield question, name, result, kind


def over_seeds(statistic: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> Estimate:
    """Return a statistic of ``rows[seed, ...]`` with an interval over seeds; it takes draws ``[draw, ..., field]``."""
    return statistic_interval(statistic, rows[None], draws=DRAWS, vectorized=True)


# Layers

TRENDS = (("early layers are positional", 0, above, max), ("late layers are symbolic", 1, below, min))


def compare_halves(heads: np.ndarray) -> np.ndarray:
    """Return the median of ``[..., layer, head]`` over the first half of the layers minus that over the others."""
    half = heads.shape[-2] // 2
    return np.median(heads[..., :half, :], axis=(-2, -1)) - np.median(heads[..., half:, :], axis=(-2, -1))


@claim(
    "T-1",
    "Early layers are positional, late ones symbolic: where the task is solved",
    paper=OWN,
    at=CHAPTER,
    quote="The sentence of U25-2, asked of decoders that solve what they are measured on",
    models=MODELS,
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (not auditable) asked both kinds of question together and gave *partly*; the papers' claim"
    " is about one of them, they differ, and untrained models were not asked.",
)
def layer_trend(look: Look):
    """Is the first half of the layers more positional than the other and less symbolic, and more so than untrained?"""
    untrained, held = look.load(RandomSolvers()), {}
    for question, name, result, kind in list_questions(load_deep(look), "binding", "index"):
        drawn = untrained[name][:, :, kind].astype(float)  # [draw, seed, layer, head, score] before training
        for trend, place, compare, farthest in TRENDS:
            scores = result["scores"][:, kind, ..., place].astype(float)
            found = mean_interval(compare_halves(scores), over="seeds")
            most = farthest(compare_halves(drawn[..., place]).mean(-1).tolist())
            met = compare(found, 0)
            held.setdefault(f"{question}: {trend}", []).append(met.held)
            yield part(f"{question}: {trend}", name), met
            if met.held:
                more = part(f"{question}: {trend}, more than with random weights", name, asks="control")
                yield more, compare(shift(found, most), 0)
    late = {name.split(":")[0]: each for name, each in held.items() if "late" in name}
    words = ", ".join(f"{question} {sum(each)} of {len(each)}" for question, each in late.items())
    look.headline("late layers are symbolic for", f"{words} kinds of model")


# Scores over heads


def correlate(rows: np.ndarray) -> np.ndarray:
    """Return the correlation over all heads of ``[draw, ..., (s_POS, s_SYM)]``."""
    return correlate_rows(*rows.reshape(len(rows), -1, 2).transpose(2, 0, 1))


@claim(
    "T-2",
    "Scores correlate negatively over heads: where the task is solved",
    paper=OWN,
    at=CHAPTER,
    quote="The sentence of U25-3, asked of decoders that solve what they are measured on",
    models=MODELS,
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (not auditable) asked both kinds of question together and gave *partly*; the papers' claim"
    " is about one of them, they differ, and no random weights stood beside them.",
)
def anticorrelation(look: Look):
    """Is Pearson's r over the heads of all seeds below zero, below the null model's, and below random weights'?"""
    untrained, found = look.load(RandomSolvers()), {}
    for question, name, result, kind in list_questions(load_deep(look), "binding", "index"):
        r = over_seeds(correlate, result["scores"][:, kind, ..., :2].astype(float))
        null = float(correlate(result["null_scores"][None, :, kind].astype(float))[0])
        least = float(correlate(untrained[name][:, :, kind].astype(float)).min())
        found.setdefault(question, []).append((r.value, least))
        yield part(f"{question}: r is negative", name), below(r, 0)
        yield part(f"{question}: r is below the null model's", name, asks="control"), below(shift(r, null), 0)
        yield part(f"{question}: r is below that of random weights", name, asks="control"), below(shift(r, least), 0)
    ours, random = ({name: np.median([x[place] for x in each]) for name, each in found.items()} for place in (0, 1))
    words = ", ".join(f"{name} {r:.2f}" for name, r in ours.items())
    beside = ", ".join(f"{r:.2f}" for r in random.values())
    look.headline("median r", words, paper="-0.91", control=f"random weights {beside}")


def correlate_ranks(rows: np.ndarray) -> np.ndarray:
    """Return the rank correlation over all heads of ``[draw, ..., (behaviour, use)]``."""
    return correlate_rows(*(rankdata(x, axis=1) for x in rows.reshape(len(rows), -1, 2).transpose(2, 0, 1)))


@claim(
    "T-4",
    "Behaviour corresponds to the frequencies used: where the task is solved",
    paper=OWN,
    at=CHAPTER,
    quote="The sentence of U25-9, asked of decoders that solve what they are measured on",
    models=MODELS,
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (not auditable) was without untrained models and gave *partly*; these use frequencies like"
    " that, too.",
)
def all_heads(look: Look):
    """Is the rank correlation of s_POS - s_SYM with the mean log angle used above zero, .5, and random weights'?"""
    untrained, found = look.load(RandomSolvers(kept="planes")), []
    for question, name, result, kind in list_questions(load_deep(look)):
        if (result["angles"] <= 0).any() or "+" in result.settings["band"]:
            continue  # not all planes rotate
        rho = over_seeds(correlate_ranks, behaviour_and_use(result.arrays, result["angles"][:, None], kind))
        most = float(correlate_ranks(untrained[f"{name}_use"][:, :, kind].astype(float)).max())
        found.append((rho.value, most))
        case = f"{question}, {name}"
        yield part("the correlation is positive", case), above(rho, 0)
        yield part("the correlation is strong", case, asks="size"), above(rho, 0.5)
        yield part("above that of random weights", case, asks="control"), above(shift(rho, most), 0)
    look.require("some solved setting rotates all of its planes", bool(found))
    ours, random = np.median(found, axis=0)
    look.headline("median rank correlation", f"{ours:.2f}", control=f"random weights {random:.2f}")


# Roles

# Heads on the smaller side from which on an area is asked.
ENOUGH = 10
LAYERS = {"in the last layer": True, "in earlier layers": False}


def pool_heads(results: Mapping[str, Result]) -> dict[str, np.ndarray]:
    """Return of all models' heads scores and carriers on both questions, model, and which are last, ``[head]``."""
    parts = defaultdict(list)
    for number, result in enumerate(results.values()):
        for kind, question in enumerate(result.settings["questions"]):
            parts[f"{question} carried"].append(result["patched"][:, kind] >= CARRIES)
            for place, name in enumerate(SCORES):
                parts[f"{question} {name}"].append(result["scores"][:, kind, ..., place].astype(float))
        shape = result["patched"][:, 0].shape
        parts["model"].append(np.broadcast_to(np.arange(shape[0])[:, None, None] + 1000 * number, shape))
        parts["last"].append(np.broadcast_to(np.arange(shape[1])[:, None] == shape[1] - 1, shape))
    return {name: np.concatenate([each.ravel() for each in values]) for name, values in parts.items()}


def find_area(heads: Mapping[str, np.ndarray], values: np.ndarray, chosen: str, among: np.ndarray) -> Estimate | int:
    """Return the area under the curve of how values rank chosen heads; how many heads are on a side, where too few."""
    counted = among & np.isfinite(values)
    picked = heads[chosen][counted]
    few = int(min(picked.sum(), (~picked).sum()))
    if few < ENOUGH:
        return few
    return detection(values[counted], picked, groups=heads["model"][counted], draws=DRAWS)


def ask_area(area: Estimate | int) -> Outcome:
    """Return whether an area is above .8; untold where its interval has both sides of it."""
    if isinstance(area, int):
        return untold(f"{area} heads on the smaller side")
    return untold(f"the interval of {area} has .80 in it") if area.low <= 0.8 <= area.high else above(area, 0.8)


@claim(
    "T-5",
    "Scores tell what a head does",
    paper=OWN,
    at=CHAPTER,
    quote="Symbolic heads are those that answer by content and positional heads those that answer by place, so that "
    "the scores tell what a head does",
    models=MODELS,
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (not auditable) asked for the same areas over the heads of all layers together and gave "
    "*not reproduced*; depth alone tells carriers nearly as well. An area whose interval has .8 in it was a miss "
    "before.",
)
def scores_tell_roles(look: Look):
    """Do the scores rank heads that carry an answer with an area above .8, in the last layer and in earlier ones?

    A head carries a kind of question if patching it alone moves a fifth of the model's preference.
    """
    results = load_deep(look, without="last")
    heads = pool_heads(results)
    gap = sum(heads[f"{question} symbolic"] - heads[f"{question} positional"] for question in ("binding", "index"))
    one_kind = heads["binding carried"] ^ heads["index carried"]
    asked: dict[str, tuple[Any, str, np.ndarray]] = {
        "symbolic ranks carriers of binding": (heads["binding symbolic"], "binding", heads["last"] >= 0),
        "positional ranks carriers of index": (heads["index positional"], "index", heads["last"] >= 0),
        "the difference tells carriers of binding from those of index": (gap, "binding", one_kind),
    }
    words = []
    for (name, (values, question, among)), (where, last) in product(asked.items(), LAYERS.items()):
        area = find_area(heads, values, f"{question} carried", among & (heads["last"] == last))
        yield part(f"{name}, {where}"), ask_area(area)
        words += [f"{area} {where}"] if question == "binding" and name.startswith("symbolic") else []
    look.headline("area of s_SYM for carriers of binding", ", ".join(words))


# Frequencies

# What the sentence says of a kind of question and a band of planes; "none" has all of them stopped.
BANDS_DECIDE = (
    ("index is solved with fast planes alone", "index", "fast", True),
    ("index fails with slow planes alone", "index", "slow", False),
    ("index fails with all planes stopped", "index", "none", False),
    ("binding is solved with slow planes alone", "binding", "slow", True),
    ("binding fails with fast planes alone", "binding", "fast", False),
)


@claim(
    "T-6",
    "Index needs fast planes, binding slow ones: in two to four layers",
    paper=OWN,
    at=CHAPTER,
    quote="The sentence of U25-6, asked of models of several layers",
    models=("decoders of two to four layers",),
    chapter=CHAPTER,
    fixed="after a look",
    history="When the rule was fixed is not auditable.",
)
def frequency_beyond_one_layer(look: Look):
    """At every size that was run with all bands, is a task solved (above .9) or failed (below .5) as in one layer?"""
    results, held = load_solvers(look), {}
    shapes = sorted({name.partition("_")[2] for name in results if not name.endswith("_last")})
    shapes = [x for x in shapes if not x.startswith("1x")]
    whole = [x for x in shapes if all(f"{band}_{x}" in results for band in ("fast", "slow", "none"))]
    look.require("some size above one layer has results of fast, slow and stopped planes", bool(whole))
    for shape, (name, question, band, solved) in product(whole, BANDS_DECIDE):
        accuracy = measure_accuracy(look.load(f"task_solvers/{band}_{shape}"), question)
        met = above(accuracy, SOLVED) if solved else below(accuracy, 0.5)
        held.setdefault(name, []).append(bool(met.held))
        yield part(name, shape), met
    words = ", ".join(f"{name} at {sum(met)} of {len(met)}" for name, met in held.items() if "alone" in name)
    look.headline("sizes:", words)


# What scores predict

SCORE_NAMES = {"score": "the papers' score", "cube share": "the share of the cube", "planes": "the energy of planes"}
DECODERS: Mapping[str, Question] = {"small decoders, binding": "binding", "small decoders, index": "index"}
Advantages = dict[tuple[str, str], Estimate]


def find_area_below(result: Result, order: str) -> np.ndarray:
    """Return the area under right answers against ``log2(1 + heads removed)``, ``[member, question, prompt]``.

    It is a mean of right answers in which every doubling of the heads counts alike; straight lines between counts.
    """
    place, ends = result["order_names"].tolist().index(order), result["ends"].astype(float)
    right = np.concatenate([ends[:, :, :1], result["correct"][:, :, place].astype(float), ends[:, :, 1:2]], 2)
    x = np.log2(1 + np.array([0, *result["counts"].tolist(), int(result["heads"])]))
    return trapezoid(right, x, axis=2) / (x[-1] - x[0])


def find_least_area(result: Result) -> float:
    """Return the area if the first head removed were all that is needed: nothing can lie below it but by chance."""
    counts, (whole, nothing) = result["counts"].astype(float), result["ends"].astype(float).mean((0, 1, 3))
    x = np.log2(1 + np.array([0, counts[0], int(result["heads"])]))
    return float(nothing + (whole - nothing) * (x[1] - x[0]) / 2 / (x[-1] - x[0]))


def measure_language(look: Look) -> tuple[Advantages, dict[str, float], float]:
    """Return of a taught language model advantages with intervals over lists, areas, and the least area possible."""
    result = look.load(HeadRemoval(model=look.model))
    accuracy = mean_interval(result["ends"][0, 0, 0].astype(float), over="prompts")
    look.require("the model answers more than half of the questions", accuracy.low > 0.5)
    areas = {order: find_area_below(result, order)[0, 0] for order in (*JUDGED, *AGAINST)}
    advantages = {}
    for score, other in product(JUDGED, AGAINST):
        less = (areas[other] - areas[score]).reshape(result.settings["lists"], -1).mean(1)
        value, half = float(less.mean()), float(student_margin(less))
        advantages[score, other] = Estimate(value=value, low=value - half, high=value + half, method="Student's t")
    return advantages, {order: float(x.mean()) for order, x in areas.items()}, find_least_area(result)


def measure_decoders(look: Look, question: Question) -> tuple[Advantages, dict[str, float], float]:
    """Return the same of all small decoders that answer a kind of question, with intervals over models."""
    results = [look.load(HeadRemoval(model=name)) for name in list(SOLVERS)[: len(BANDS)]]
    areas: dict[str, list[np.ndarray]] = {}
    for result in results:
        kind = list(SOLVERS[result.settings["model"]].questions).index(question)
        able = result["ends"][:, kind, 0].mean(-1) > SOLVED
        for order in (*JUDGED, *AGAINST):
            areas.setdefault(order, []).append(find_area_below(result, order)[able, kind].mean(-1))
    each = {order: np.concatenate(x) for order, x in areas.items()}
    look.require("five small decoders answer", len(each[AGAINST[0]]) >= 5)
    advantages = {(x, y): mean_interval(each[y] - each[x], over="models") for x, y in product(JUDGED, AGAINST)}
    least = float(np.mean([find_least_area(x) for x in results]))
    return advantages, {x: float(y.mean()) for x, y in each.items()}, least


def ask_all_three(advantages: Advantages, score: str) -> Outcome:
    """Return whether an order takes what is needed sooner than all others do, by a twentieth and beyond noise."""
    least = min((advantages[score, other] for other in AGAINST), key=lambda each: each.value)
    held = all(advantages[score, other].low > 0 and advantages[score, other].value > 0.05 for other in AGAINST)
    return replace(above(least, 0), held=held, text=f"{least} below the best other order, more than .05 asked")


@claim(
    "B-1",
    "Scores tell what heads are needed for",
    paper=OWN,
    at=CHAPTER,
    quote="Positional and symbolic scores tell what a head is needed for, beyond how deep it sits and what it copies",
    # One head of Gemma is nearly all that the answer needs, so that no order can be better than another.
    models=(*LANGUAGE_MODELS[::-1], *DECODERS),
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (before the run) let each of the three orders count for itself, with intervals over draws "
    "of layers, and gave *not testable* for Gemma and *partly* for the others; the claim is beyond all three.",
)
def scores_predict(look: Look):
    """Does accuracy fall sooner if heads go by a score than by depth, from either end, and by what they copy?

    Heads are ranked before any is removed, over all layers and within thirds of them. What is compared is the area
    under accuracy against log2(1 + heads removed), which must be smaller by a twentieth and with an interval off zero.
    """
    measured = measure_decoders(look, DECODERS[look.model]) if look.model in DECODERS else measure_language(look)
    advantages, areas, least = measured
    words = ", ".join(f"{name} {areas[name]:.2f}" for name in ("score", *AGAINST))
    look.headline("accuracy left, as an area over log2(1 + heads)", words)
    room = min(areas[other] for other in AGAINST) - least
    look.require(f"there is room below the other orders ({room:.2f})", room > 0.05)
    for score in JUDGED:
        name, _, within = score.partition(", ")
        where = ", within thirds of the layers" if within else ""
        yield part(SCORE_NAMES[name] + where), ask_all_three(advantages, score)

"""Judges of claims that later papers make: each as a statement about the cross-logit matrix or about what follows it.

The first rules were all written, and committed, before the measurement that they judge. A row's verdict is that of the
model that the claim was first asked of, but for L-1c, which no paper claims of a model; the same rule is put to every
other model, and the row says what it gives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from posym_companion.experiments import SECOND
from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.judges.binding_profile import MODEL
from posym_companion.later.binding import OUTCOMES
from posym_companion.later.later_claims import full_size
from posym_companion.later.later_subjects import FIRST, MODELS, SECOND_TAUGHT, TAUGHT, LaterClaims, Part
from posym_companion.later.order import BASES, LENGTHS
from posym_companion.later.retrieval import CARRIES, SHARES
from posym_companion.results import Result, load_result
from posym_companion.solvers.families import FAMILIES
from posym_companion.verdicts import Number, count_cases
from posym_core.metrics import Estimate, mean_difference, mean_interval

SHOWN_IN = "book/later/what_came_after.ipynb"
# How the models are called where a row speaks of several.
TITLES = {each: each for each in MODELS}
TITLES |= {TAUGHT: f"{MODEL}, taught to bind", SECOND_TAUGHT: f"{SECOND}, taught to bind"}
TITLES |= {family: f"small {family.capitalize()}" for family in FAMILIES}
# Two profiles are the same if they differ by less than this part of the height of the U.
SAME = 0.1
QUARTER = SHARES[1]
# If heads can be chosen in more ways, so many are drawn. Equal sums of heads differ by less than the rounding.
CHOICES, ROUNDING = 9_999, 1e-12


def load_part(name: Part, folder: Path | None = None, *, model: str | None = None, trained: bool = True) -> Result:
    """The stored result of one part, by default of the model that it was first asked of.

    What needs a model that binds is asked of SmolLM2 as it was taught to.

    Raises:
        ValueError: if there is no such part.
    """
    model = SECOND_TAUGHT if model == SECOND and name in FIRST else model or FIRST.get(name, MODEL)
    setting = LaterClaims(part=name, model=model, trained=trained)
    known = {each.name for each in full_size()}
    if setting.name not in known:
        raise ValueError(f"part must be one of {', '.join(sorted(known))}; got {setting.name!r}")
    return load_result(setting.name, folder=folder)


def sees_all(result: Result) -> np.ndarray:
    """``[layer]``: whether a layer sees the whole context."""
    return result["sees"] == result["sees"].max()


def _load(look: Look, name: Part, *, model: str | None = None, trained: bool = True) -> Result:
    """Return what :func:`load_part` does of what a judge is asked; the first says what was measured."""
    result = load_part(name, look.folder, model=model or look.model, trained=trained)
    look.record(result)
    look.measured_on = look.measured_on or TITLES[str(result.settings["model"])]
    return result


@judge(SHOWN_IN)
def order_is_lost(look: Look) -> Iterator[Yielded]:
    """Near and far places, and pairs of contents, at the farthest distances that a layer sees: head by head."""
    result = _load(look, "order")
    whole, base = sees_all(result), BASES.index(1.0)
    # [length, prompt, layer, head]
    by = {name: result[name][base][:, :, whole].astype(float) for name in ("far", "contents")}
    names = {
        "far": ("far preferred to near", "rise of far preferred"),
        "contents": ("inversions of contents", "rise of inversions"),
    }
    for name, (at_the_end, rise) in names.items():
        heads, prompts = by[name].mean(1), by[name].mean((-1, -2))
        yield f"{at_the_end}, over heads", "", _over_heads(heads[-1])
        yield f"{rise}, over heads", "", _over_heads(heads[-1] - heads[0])
        yield at_the_end, "", mean_interval(prompts[-1], over="prompts")
        yield rise, "", mean_interval(prompts[-1] - prompts[0], over="prompts")
    look.note = (
        f"{by['far'][0, 0].size} heads of the global layers; contents are those of a text of 64 tokens. Far is "
        f"preferred to near in {', '.join(f'{row.mean():.2f}' for row in by['far'])} of the cases at "
        f"{', '.join(map(str, LENGTHS))} tokens."
    )


@judge(SHOWN_IN, note="The same queries and keys under the angles of another base; nothing is trained with it.")
def base_trades(look: Look) -> Iterator[Yielded]:
    """What a base a hundred times larger, and one a hundred times smaller, do to both orders."""
    result = _load(look, "order")
    whole = sees_all(result)
    for number, length in enumerate(LENGTHS):
        for name, quantity in (("contents", "inversions of contents"), ("by_position", "variance by position")):
            by_base = result[name][:, number][:, :, whole].astype(float).mean((-1, -2))
            drop = mean_interval(by_base[0] - by_base[-1], over="prompts")
            yield f"{quantity}, small base minus large", f"{length} tokens", drop


@judge(SHOWN_IN, note=f"Heads of the global layers at {LENGTHS[-1]:,}, by their scores on the text itself.")
def symbols_travel(look: Look) -> Iterator[Yielded]:
    """Whether heads that lean to symbols keep the order of contents where the others lose it."""
    result = _load(look, "order")
    whole, base = sees_all(result), BASES.index(1.0)
    lean = (result["symbolic"].astype(float) - result["positional"].astype(float)).mean(0)[whole].ravel()
    farthest = result["contents"][base, -1][:, whole].astype(float)
    by_head = farthest.reshape(len(farthest), -1)
    yield "heads that lean to symbols", "", count_cases(lean > 0)
    yield LEAST, "", least_chance(lean > 0)
    if (lean > 0).all() or (lean <= 0).all():
        for name in ("inversions, symbolic heads", "fewer than in the others", CHANCE):
            yield name, "", "all heads lean one way"
        return
    symbolic, others = by_head[:, lean > 0].mean(1), by_head[:, lean <= 0].mean(1)
    yield "inversions, symbolic heads", "", mean_interval(symbolic, over="prompts")
    yield "inversions, other heads", "", mean_interval(others, over="prompts")
    yield "fewer than in the others", "", mean_interval(others - symbolic, over="prompts")
    yield CHANCE, "", chance_of_fewer(by_head.mean(0), lean > 0)


CHANCE = "p that as many heads drawn at random have so few inversions"
LEAST = "least p that as many heads drawn at random can have"


def least_chance(chosen: np.ndarray) -> float:
    """What :func:`chance_of_fewer` gives if the chosen heads are the lowest of all, and differ; 1 for none or all.

    >>> least_chance(np.array([True, True, False, False]))
    0.16666666666666666
    """
    choices = math.comb(len(chosen), int(chosen.sum()))
    return 1 / (choices if choices <= CHOICES else 1 + CHOICES)


def chance_of_fewer(values: np.ndarray, chosen: np.ndarray) -> float:
    """Part of all choices of as many heads whose mean is as low as that of the chosen ones, or lower.

    Where there are more than :data:`CHOICES` of them, that many are drawn, and the chosen ones count as one more.

    Raises:
        ValueError: if a value is undefined, or none or all of the heads are chosen.

    >>> chance_of_fewer(np.array([0.1, 0.2, 0.5, 0.6]), np.array([True, True, False, False]))
    0.16666666666666666
    """
    if not np.isfinite(values).all():
        raise ValueError(f"values must be finite; {int((~np.isfinite(values)).sum())} of {values.size} are not")
    count = int(chosen.sum())
    if not 0 < count < len(values):
        raise ValueError(f"some heads must be chosen and some not; got {count} of {len(values)}")
    least = values[chosen].sum() + ROUNDING
    if math.comb(len(values), count) > CHOICES:
        drawn = np.random.default_rng(0).permuted(np.tile(values, (CHOICES, 1)), axis=1)[:, :count].sum(1)
        return float((1 + (drawn <= least).sum()) / (1 + CHOICES))
    sums = np.array([values[list(each)].sum() for each in itertools.combinations(range(len(values)), count)])
    return float((sums <= least).mean())


@judge(
    SHOWN_IN, note="The paper correlates the logits that occur; C also holds those of contents that stand elsewhere."
)
def logits_are_nearly_sums(look: Look) -> Iterator[Yielded]:
    """Correlation of ``C`` with the best sum of a function of position and one of content."""
    trained = sum_correlation(_load(look, "sums")["interaction_share"])
    base = MODEL if look.model == TAUGHT else look.model
    drawn = sum_correlation(_load(look, "sums", model=base, trained=False)["interaction_share"])
    yield "mean correlation", "", _over_heads(trained)
    yield "trained minus random weights", "", _over_heads(trained - drawn)
    yield "with random weights", "", _over_heads(drawn)
    yield "least correlation of a head", "", float(np.nanmin(trained))


def sum_correlation(interaction_share: np.ndarray) -> np.ndarray:
    """Return the mean over prompts of ``sqrt(1 - interaction share)``, ``[layer, head]`` of ``[prompt, layer, head]``.

    The best sum of a function of position and one of content, by least squares, explains the other two shares of the
    variance, and the correlation with a least-squares fit is the root of what it explains.
    """
    return np.sqrt(np.clip(1 - interaction_share.astype(float), 0, 1)).mean(0)


@judge(SHOWN_IN)
def slow_planes_of_carriers(look: Look) -> Iterator[Yielded]:
    """Recall with planes of the heads that carry the answer zeroed, the slowest quarter and others."""
    result = _load(look, "retrieval")
    right = dict(zip(map(str, result["conditions"]), result["correct"].astype(float), strict=True))

    def without(start: str) -> list[np.ndarray]:
        return [x for name, x in right.items() if name.startswith(start)]

    def lost(more: np.ndarray, less: np.ndarray) -> Estimate:
        return mean_interval(more - less, over="prompts")

    whole, slow, others = right["none"], right[f"slowest {QUARTER:g}"], without("other heads")
    yield "recall", "", float(whole.mean())
    yield "recall lost with all planes zeroed", "", lost(whole, right["all planes"])
    yield "recall lost with the slowest quarter zeroed", "", lost(whole, slow)
    yield "more than with random planes zeroed", "", lost(np.mean(without("random"), 0), slow)
    more = lost(np.mean(others, 0), slow) if others else "all heads carry the answer"
    yield "more than in other heads", "", more
    yield "heads that carry the answer", "", count_cases((result["restored"] > CARRIES).ravel())
    # Slow planes and faster ones that together make the logits vary as much.
    slowly, fast = (np.mean(without(f"{speed} planes of equal"), axis=0) for speed in ("slow", "faster"))
    costs = (float((whole - x).mean()) for x in (slowly, fast))
    yield "recall lost without planes of equal energy, the larger", "", max(costs)
    yield "more than without faster planes of equal energy", "", lost(fast, slowly)
    facts = int(result.settings["length"])
    look.note = f"{facts} facts; chance is 1 in {facts}."


@judge(SHOWN_IN)
def u_shape_with_random_weights(look: Look) -> Iterator[Yielded]:
    """Influence by place before training, with and without angles, and after."""
    result, fresh, counted = influences(look)
    rotated, unrotated = (fresh[name].astype(float) for name in ("rotated", "unrotated"))
    drawn = np.isfinite(rotated).all(-1)
    born, trained = influence_ends(rotated[drawn]), influence_ends(result["trained"].astype(float))
    gap = np.abs(np.log(rotated[drawn]) - np.log(unrotated[drawn])).mean(-1)
    # A draw, and a text, has no name of its own: they are counted here.
    untrained = {
        "beginning above the middle": born.start > 0,
        "last token above the middle": born.last > 0,
        "the same without angles": gap < SAME * np.abs(born.start),
        "last eighth but the last token above the middle": born.end > 0,
    }
    for name, holds in untrained.items():
        yield f"untrained models, {name}", "", count_cases(holds if counted else ())
    yield "trained model, beginning above the middle", "", count_cases(trained.start > 0)
    yield "trained model, last token above the middle", "", count_cases(trained.last > 0)
    yield "trained model, last eighth but the last token above the middle", "", count_cases(trained.end > 0)
    kinds = dict(zip(fresh["kinds"].tolist(), rotated, strict=True))
    each = {kind: influence_ends(x[np.isfinite(x).all(-1)]) for kind, x in kinds.items()}
    for kind, ends in (each | {"trained": trained}).items():
        yield f"log influence above the middle, {kind}, beginning", "", float(ends.start.mean())
        yield f"log influence above the middle, {kind}, last eighth but the last", "", float(ends.end.mean())
        yield f"log influence above the middle, {kind}, last token", "", float(ends.last.mean())
    look.note = "Influence: Frobenius norm of the Jacobian of the last token's final state, by random directions."
    if counted:
        called = {"qwen2": "draws of a Qwen-2 of eight layers", "own": "draws of the model's own architecture"}
        many = {called[kind]: int(number) for kind, number in zip(kinds, drawn.sum(1), strict=True)}
        for kind, number in many.items():
            yield f"untrained models, {kind}", "", number
        draws = " and ".join(f"{number} {kind}" for kind, number in many.items())
        look.note += f" Untrained models are {draws}; those of a taught model are the base's, and count there."


def influences(look: Look) -> tuple[Result, Result, bool]:
    """Return the influence in a model and in models with random weights, and whether those are not its base's."""
    result = _load(look, "influence")
    return result, _load(look, "influence", model=MODEL) if look.model == TAUGHT else result, look.model != TAUGHT


@judge(
    SHOWN_IN,
    note="Heights are in logarithms, over the central quarter. Without angles every target has the same weight, and at "
    "an end it is never more than twice that of another place, log 2.",
)
def two_sources(look: Look) -> Iterator[Yielded]:
    """Influence with all angles stopped before training, beside the largest weights that Theorem 7 speaks of."""
    result, fresh, counted = influences(look)
    still = fresh["unrotated"][fresh["kinds"].tolist().index("own")].astype(float)
    born = influence_ends(still[np.isfinite(still).all(-1)])
    # [case, layer, head, target] -> ends [layer, head] of layers that see all of the context.
    ends = {
        name: EndInfluence(x["trained_peak" if name == "trained" else "fresh_peak"].astype(float).mean(0))
        for name, x in (("trained", result), ("random", fresh))
    }
    seen = np.isfinite(ends["trained"].start)
    trained, random = ((0.5 * (x.start + x.end))[seen] for x in ends.values())
    bent = (ends["trained"].start > 0) & (ends["trained"].end > 0)
    yield "models without angles, beginning above the middle", "", count_cases(born.start > 0 if counted else ())
    after = count_cases(born.end > 0 if counted else ())
    yield "models without angles, last eighth but the last token above the middle", "", after
    yield "models without angles, last token above the middle", "", count_cases(born.last > 0 if counted else ())
    yield "heads whose largest weight is U-shaped", "", _over_heads(bent[seen].astype(float))
    yield "height of that U, trained minus random weights", "", _over_heads(trained - random)
    yield "height of that U", "", _over_heads(trained)
    yield "height of that U, random weights", "", _over_heads(random)


class EndInfluence:
    """Log influence at the ends minus that of the central quarter, ``[case]``.

    Attributes:
        start: mean over the first eighth.
        end: mean over the last eighth without the last token.
        last: of the last token.
    """

    def __init__(self, logs: np.ndarray) -> None:
        length = logs.shape[-1]
        eighth = length // 8
        middle = logs[..., length // 2 - eighth : length // 2 + eighth].mean(-1)
        self.start = logs[..., :eighth].mean(-1) - middle
        self.end = logs[..., -eighth:-1].mean(-1) - middle
        self.last = logs[..., -1] - middle


def influence_ends(influence: np.ndarray) -> EndInfluence:
    """Return ends of profiles ``[case, position]``, at least 16 positions.

    Raises:
        ValueError: if a profile is shorter.
    """
    if influence.shape[-1] < 16:
        raise ValueError(f"an eighth of a profile needs two positions, so 16 in all; got {influence.shape[-1]}")
    return EndInfluence(np.log(influence))


@judge(SHOWN_IN)
def massive_planes(look: Look) -> Iterator[Yielded]:
    """Where the largest plane of every head's queries and keys lies."""
    result = _load(look, "sums")
    sees = result["sees"]
    unfinished = result["angles"] * sees[:, None] < 2 * np.pi
    for kind in ("query", "key"):
        norm = result[f"{kind}_norm"].astype(float)
        # Where all query heads of a layer share their keys they count once.
        norm = norm[:, :1] if np.array_equal(norm, norm[:, :1].repeat(norm.shape[1], 1)) else norm
        top = norm.argmax(-1)
        inside = np.take_along_axis(unfinished, top, 1) - unfinished.mean(1, keepdims=True)
        slow = (top >= norm.shape[-1] / 2).astype(float)
        yield f"heads whose largest {kind} plane is in the slow half", "", _over_heads(slow)
        yield f"largest {kind} plane turns less than once, more often than a random plane", "", _over_heads(inside)
    product = result["query_norm"].astype(float) * result["key_norm"].astype(float)
    largest = product.argmax(-1)[..., None]
    for name, x in (("sizes", product / product.sum(-1, keepdims=True)), ("variance", result["energy_part"])):
        part = float(np.median(np.take_along_axis(x.astype(float), largest, -1)))
        yield f"part of the {name} in the plane with the largest product", "", part
    tokens = " or ".join(f"{n:,}" for n in sorted(set(sees.tolist())))
    look.note = f"Turns are counted over what a layer can see: {tokens} tokens."


@judge(SHOWN_IN)
def three_pointers(look: Look) -> Iterator[Yielded]:
    """Which of place, name and answer decides, behind the layer at which each decides most.

    The layer is chosen on the even pairs and judged on the odd ones.
    """
    result = _load(look, "binding")
    answers, place = result["said"].astype(float), result["place"]
    named, absent = ({name: x[..., at] for at, name in enumerate(OUTCOMES)} for x in answers)
    parts = {name: named[name] - named["other fact"] for name in ("place", "name")}
    parts["answer"] = named["answer"] - absent["absent"]
    best = {name: int(x[:, ::2].mean(1).argmax()) for name, x in parts.items()}
    for name, x in parts.items():
        yield f"answers decided by the {name}", "", mean_interval(x[best[name], 1::2], over="pairs")
        yield f"layer, {name}", "", best[name]
    end = np.isin(place, (0, int(result.settings["length"]) - 1))
    by_place = parts["place"][best["place"]]
    more = _difference(by_place[end], by_place[~end])
    yield "place decides at the ends, minus in the middle", "", more
    more = _difference(by_place[1::2][end[1::2]], by_place[1::2][~end[1::2]])
    yield "the same on the pairs that did not choose the layer", "", more
    decided = np.flatnonzero(named["place"][best["place"]])
    places = sorted(set(place[decided].tolist()))
    at = f" at place {' and '.join(map(str, places))}" if places else ""
    look.note = (
        "Behind late layers the state holds the answer itself: there both controls say it, and it counts for nothing. "
        f"At the layer chosen the place decides {len(decided)} of {len(place)} pairs{at}, "
        f"{int((decided % 2 == 0).sum())} of them among those that chose the layer."
    )


def _difference(first: np.ndarray, second: np.ndarray) -> Number:
    return mean_difference(first, second, over="pairs") if len(first) and len(second) else "no pair"


def _over_heads(values: np.ndarray) -> Estimate:
    return mean_interval(values.ravel(), over="heads")

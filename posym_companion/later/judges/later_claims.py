"""Judges of claims that later papers make: each as a statement about the cross-logit matrix or about what follows it.

The first rules were all written, and committed, before the measurement that they judge. A row's verdict is that of the
model that the claim was first asked of, but for L-1c, which no paper claims of a model; the same rule is put to every
other model, and the row says what it gives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.language_models.judges.binding_profile import MODEL
from posym_companion.later.binding import OUTCOMES
from posym_companion.later.later_claims import full_size
from posym_companion.later.later_subjects import FIRST, MODELS, SECOND_TAUGHT, TAUGHT, LaterClaims, Part
from posym_companion.later.order import BASES, LENGTHS
from posym_companion.later.retrieval import CARRIES, SHARES
from posym_companion.loop import SECOND
from posym_companion.results import Result, load_result
from posym_companion.solvers.families import FAMILIES
from posym_core.metrics import Estimate, mean_difference, mean_interval

SHOWN_IN = "book/later/what_came_after.ipynb"
# How the models are called where a row speaks of several.
TITLES = {each: each for each in MODELS}
TITLES |= {TAUGHT: f"{MODEL}, taught to bind", SECOND_TAUGHT: f"{SECOND}, taught to bind"}
TITLES |= {family: f"small {family.capitalize()}" for family in FAMILIES}
# Correlation of logits with their best sum from which they count as nearly a sum.
NEARLY = 0.9
# Part of the answers that a mechanism must decide.
DECIDES = 0.1
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


def order_is_lost(folder: Path | None, model: str) -> Measured:
    """Near and far places, and pairs of contents, at the farthest distances that a layer sees: head by head."""
    result = load_part("order", folder, model=model)
    whole, own = sees_all(result), BASES.index(1.0)
    # [length, prompt, layer, head]
    by = {name: result[name][own][:, :, whole].astype(float) for name in ("far", "contents")}
    said = {
        "far": ("far preferred to near", "rise of far preferred"),
        "contents": ("inversions of contents", "rise of inversions"),
    }
    ours: dict[str, Number] = {}
    for name, (at_the_end, rise) in said.items():
        heads = by[name].mean(1)
        ours[f"{at_the_end}, over heads"] = _over_heads(heads[-1])
        ours[f"{rise}, over heads"] = _over_heads(heads[-1] - heads[0])
        prompts = by[name].mean((-1, -2))
        ours[at_the_end] = mean_interval(prompts[-1], over="prompts")
        ours[rise] = mean_interval(prompts[-1] - prompts[0], over="prompts")
    for name, rows in by.items():
        ours |= {f"{name} at {length}": float(row.mean()) for length, row in zip(LENGTHS, rows, strict=True)}
    if not whole.all():
        local = result["contents"][own][LENGTHS.index(512)][:, ~whole].astype(float).mean((-1, -2))
        ours["inversions of contents in local layers at 512"] = mean_interval(local, over="prompts")
    far = ", ".join(f"{ours[f'far at {length}']:.2f}" for length in LENGTHS)
    return _measured(
        ours,
        result,
        note=f"{by['far'][0, 0].size} heads of the global layers; contents are those of a text of 64 tokens. Far is "
        f"preferred to near in {far} of the cases at {', '.join(map(str, LENGTHS))} tokens.",
    )


def base_trades(folder: Path | None, model: str) -> Measured:
    """What a base a hundred times larger, and one a hundred times smaller, do to both orders."""
    result = load_part("order", folder, model=model)
    whole = sees_all(result)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {"contents": [], "by_position": []}
    said = {"contents": "fewer inversions of contents", "by_position": "less variance by position"}
    for number, length in enumerate(LENGTHS):
        for name, rows in held.items():
            by_base = result[name][:, number][:, :, whole].astype(float).mean((-1, -2))
            drop = mean_interval(by_base[0] - by_base[-1], over="prompts")
            rows.append(drop.low > 0)
            ours[f"{said[name]} at {length}, small base minus large"] = drop
    counts: dict[str, Number] = {f"lengths with {said[name]}": count_cases(rows) for name, rows in held.items()}
    fails = [f"{said[name]} at {LENGTHS[i]}" for name, rows in held.items() for i, ok in enumerate(rows) if not ok]
    note = "The same queries and keys under the angles of another base; nothing is trained with it."
    return _measured({**counts, **ours}, result, fails=fails, note=note)


def symbols_travel(folder: Path | None, model: str) -> Measured:
    """Whether heads that lean to symbols keep the order of contents where the others lose it."""
    result = load_part("order", folder, model=model)
    whole, own = sees_all(result), BASES.index(1.0)
    lean = (result["symbolic"].astype(float) - result["positional"].astype(float)).mean(0)[whole].ravel()
    farthest = result["contents"][own, -1][:, whole].astype(float)
    by_head = farthest.reshape(len(farthest), -1)
    ours: dict[str, Number] = {"heads that lean to symbols": count_cases(lean > 0), LEAST: least_chance(lean > 0)}
    if (lean > 0).all() or (lean <= 0).all():
        ours |= dict.fromkeys(("inversions, symbolic heads", "fewer than in the others"), "all heads lean one way")
        ours |= {CHANCE: "all heads lean one way"}
    else:
        symbolic, others = by_head[:, lean > 0].mean(1), by_head[:, lean <= 0].mean(1)
        ours |= {
            "inversions, symbolic heads": mean_interval(symbolic, over="prompts"),
            "inversions, other heads": mean_interval(others, over="prompts"),
            "fewer than in the others": mean_interval(others - symbolic, over="prompts"),
            CHANCE: chance_of_fewer(by_head.mean(0), lean > 0),
        }
    return _measured(
        ours, result, note=f"Heads of the global layers at {LENGTHS[-1]:,}, by their scores on the text itself."
    )


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


def logits_are_nearly_sums(folder: Path | None, model: str) -> Measured:
    """Correlation of ``C`` with the best sum of a function of position and one of content."""
    own = {True: model, False: MODEL if model == TAUGHT else model}
    found = {trained: load_part("sums", folder, model=one, trained=trained) for trained, one in own.items()}
    r = {trained: sum_correlation(x["interaction_share"]) for trained, x in found.items()}
    ours: dict[str, Number] = {
        "mean correlation": _over_heads(r[True]),
        "trained minus random weights": _over_heads(r[True] - r[False]),
        "with random weights": _over_heads(r[False]),
        f"heads above {NEARLY}": count_cases((r[True] > NEARLY).ravel()),
        "least correlation of a head": float(np.nanmin(r[True])),
        "mean interaction share": float(np.nanmean(found[True]["interaction_share"].astype(float))),
    }
    note = "The paper correlates the logits that occur; C also holds those of contents that stand elsewhere."
    return _measured(ours, *found.values(), note=note)


def sum_correlation(interaction_share: np.ndarray) -> np.ndarray:
    """From ``[prompt, layer, head]`` the mean over prompts of ``sqrt(1 - interaction share)``, ``[layer, head]``.

    The best sum of a function of position and one of content, by least squares, explains the other two shares of the
    variance, and the correlation with a least-squares fit is the root of what it explains.
    """
    return np.sqrt(np.clip(1 - interaction_share.astype(float), 0, 1)).mean(0)


def slow_planes_of_carriers(folder: Path | None, model: str) -> Measured:
    """Recall with planes of the heads that carry the answer zeroed, the slowest quarter and others."""
    result = load_part("retrieval", folder, model=model)
    names = [str(name) for name in result["conditions"]]
    correct = result["correct"].astype(float)
    right = dict(zip(names, correct, strict=True))
    random = correct[[i for i, name in enumerate(names) if name.startswith("random")]].mean(0)
    others = correct[[i for i, name in enumerate(names) if name.startswith("other heads")]]
    slow = right[f"slowest {QUARTER:g}"]
    ours: dict[str, Number] = {
        "recall": float(right["none"].mean()),
        "recall lost with all planes zeroed": mean_interval(right["none"] - right["all planes"], over="prompts"),
        "recall lost with the slowest quarter zeroed": mean_interval(right["none"] - slow, over="prompts"),
        "more than with random planes zeroed": mean_interval(random - slow, over="prompts"),
        "more than in other heads": (
            mean_interval(others.mean(0) - slow, over="prompts") if len(others) else "all heads carry the answer"
        ),
        "heads that carry the answer": count_cases((result["restored"] > CARRIES).ravel()),
    }
    ours |= _of_equal_energy(right)
    energy = result["energy"].astype(float)[result["restored"] > CARRIES]
    slowest = energy[:, -round(QUARTER * energy.shape[-1]) :].sum(-1)
    ours["energy in the slowest quarter of a carrier, median"] = float(np.median(slowest))
    log_probability = dict(zip(names, result["log_probability"].astype(float), strict=True))
    ours |= {f"recall, {name}": float(row.mean()) for name, row in right.items()}
    ours |= {
        f"log-probability lost, {name}": float((log_probability["none"] - row).mean())
        for name, row in log_probability.items()
        if name != "none"
    }
    facts = int(result.settings["length"])
    return _measured(ours, result, note=f"{facts} facts; chance is 1 in {facts}.")


def _of_equal_energy(right: dict[str, np.ndarray]) -> dict[str, Number]:
    """Recall lost without slow planes and without faster ones that together make the logits vary as much."""
    by = {
        speed: np.mean([x for name, x in right.items() if name.startswith(f"{speed} planes of equal")], axis=0)
        for speed in ("slow", "faster")
    }
    lost = {speed: float((right["none"] - x).mean()) for speed, x in by.items()}
    return {
        **{f"recall lost without {speed} planes of equal energy": x for speed, x in lost.items()},
        "recall lost without planes of equal energy, the larger": max(lost.values()),
        "more than without faster planes of equal energy": mean_interval(by["faster"] - by["slow"], over="prompts"),
    }


def u_shape_with_random_weights(folder: Path | None, model: str) -> Measured:
    """Influence by place before training, with and without angles, and after."""
    result, fresh, own = influences(folder, model)
    rotated, unrotated = (fresh[name].astype(float) for name in ("rotated", "unrotated"))
    there = np.isfinite(rotated).all(-1)
    born = influence_ends(rotated[there])
    gap = np.abs(np.log(rotated[there]) - np.log(unrotated[there])).mean(-1)
    trained = influence_ends(result["trained"].astype(float))
    kinds = {"qwen2": "draws of a Qwen-2 of eight layers", "own": "draws of the model's own architecture"}
    drawn = {kinds[kind]: int(many) for kind, many in zip(fresh["kinds"].tolist(), there.sum(1), strict=True) if own}
    ours: dict[str, Number] = {
        "untrained models, beginning above the middle": count_cases(born.start > 0 if own else ()),
        "untrained models, last token above the middle": count_cases(born.last > 0 if own else ()),
        "untrained models, the same without angles": count_cases(gap < SAME * np.abs(born.start) if own else ()),
        "trained model, beginning above the middle": count_cases(trained.start > 0),
        "trained model, last token above the middle": count_cases(trained.last > 0),
        "untrained models, last eighth but the last token above the middle": count_cases(born.end > 0 if own else ()),
        "trained model, last eighth but the last token above the middle": count_cases(trained.end > 0),
    }
    for number, kind in enumerate(fresh["kinds"]):
        ends = influence_ends(rotated[number][np.isfinite(rotated[number]).all(-1)])
        ours |= {
            f"log influence above the middle, {kind}, beginning": float(ends.start.mean()),
            f"log influence above the middle, {kind}, last eighth but the last": float(ends.end.mean()),
            f"log influence above the middle, {kind}, last token": float(ends.last.mean()),
        }
    ours |= {
        "log influence above the middle, trained, beginning": float(trained.start.mean()),
        "log influence above the middle, trained, last eighth but the last": float(trained.end.mean()),
        "log influence above the middle, trained, last token": float(trained.last.mean()),
        "mean difference of log influence without angles": float(gap.mean()),
        **{f"untrained models, {kind}": many for kind, many in drawn.items()},
    }
    note = "Influence: Frobenius norm of the Jacobian of the last token's final state, by random directions."
    if drawn:
        told = " and ".join(f"{many} {kind}" for kind, many in drawn.items())
        note += f" Untrained models are {told}; those of a taught model are the base's, and count there."
    return _measured(ours, result, fresh, note=note)


def influences(folder: Path | None, model: str) -> tuple[Result, Result, bool]:
    """The influence in a model and in models with random weights, and whether those are its own and not its base's."""
    result = load_part("influence", folder, model=model)
    return result, load_part("influence", folder) if model == TAUGHT else result, model != TAUGHT


def two_sources(folder: Path | None, model: str) -> Measured:
    """Influence with all angles stopped before training, beside the largest weights that Theorem 7 speaks of."""
    result, fresh, own = influences(folder, model)
    still = fresh["unrotated"][fresh["kinds"].tolist().index("own")].astype(float)
    born = influence_ends(still[np.isfinite(still).all(-1)])
    # [case, layer, head, target] -> ends [layer, head] of layers that see all of the context.
    ends = {
        name: EndInfluence(x["trained_peak" if name == "trained" else "fresh_peak"].astype(float).mean(0))
        for name, x in (("trained", result), ("random", fresh))
    }
    there = np.isfinite(ends["trained"].start)
    height = {name: (0.5 * (x.start + x.end))[there] for name, x in ends.items()}
    bent = (ends["trained"].start > 0) & (ends["trained"].end > 0)
    ours: dict[str, Number] = {
        "models without angles, beginning above the middle": count_cases(born.start > 0 if own else ()),
        "models without angles, last eighth but the last token above the middle": count_cases(
            born.end > 0 if own else ()
        ),
        "models without angles, last token above the middle": count_cases(born.last > 0 if own else ()),
        "heads whose largest weight is U-shaped": _over_heads(bent[there].astype(float)),
        "height of that U, trained minus random weights": _over_heads(height["trained"] - height["random"]),
        "height of that U": _over_heads(height["trained"]),
        "height of that U, random weights": _over_heads(height["random"]),
        "largest height of a head": float(height["trained"].max()),
        "height of the influence without angles, beginning": float(born.start.mean()),
        "height of the influence without angles, last token": float(born.last.mean()),
    }
    note = (
        "Heights are in logarithms, over the central quarter. Without angles every target has the same weight, and at "
        "an end it is never more than twice that of another place, log 2."
    )
    return _measured(ours, result, fresh, note=note)


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
    """Ends of profiles ``[case, position]``, at least 16 positions.

    Raises:
        ValueError: if a profile is shorter.
    """
    if influence.shape[-1] < 16:
        raise ValueError(f"an eighth of a profile needs two positions, so 16 in all; got {influence.shape[-1]}")
    return EndInfluence(np.log(influence))


def massive_planes(folder: Path | None, model: str) -> Measured:
    """Where the largest plane of every head's queries and keys lies."""
    result = load_part("sums", folder, model=model)
    angles, sees = result["angles"], result["sees"]
    unfinished = angles * sees[:, None] < 2 * np.pi
    ours: dict[str, Number] = {}
    for kind in ("query", "key"):
        norm = result[f"{kind}_norm"].astype(float)
        # Where all query heads of a layer share their keys they count once.
        norm = norm[:, :1] if np.array_equal(norm, norm[:, :1].repeat(norm.shape[1], 1)) else norm
        top = norm.argmax(-1)
        inside = np.take_along_axis(unfinished, top, 1) - unfinished.mean(1, keepdims=True)
        ours |= {
            f"heads whose largest {kind} plane is in the slow half": mean_interval(
                (top >= norm.shape[-1] / 2).ravel().astype(float), over="heads"
            ),
            f"largest {kind} plane turns less than once, more often than a random plane": mean_interval(
                inside.ravel(), over="heads"
            ),
            f"median size of the largest {kind} plane over the mean plane": float(
                np.median(norm.max(-1) / norm.mean(-1))
            ),
            f"median theta n of the largest {kind} plane": float(
                np.median(np.take_along_axis(angles * sees[:, None], top, 1))
            ),
        }
    product = result["query_norm"].astype(float) * result["key_norm"].astype(float)
    largest = product.argmax(-1)[..., None]
    for name, x in (("sizes", product / product.sum(-1, keepdims=True)), ("variance", result["energy_part"])):
        ours[f"part of the {name} in the plane with the largest product"] = float(
            np.median(np.take_along_axis(x.astype(float), largest, -1))
        )
    said = " or ".join(f"{n:,}" for n in sorted(set(sees.tolist())))
    return _measured(ours, result, note=f"Turns are counted over what a layer can see: {said} tokens.")


def three_pointers(folder: Path | None, model: str) -> Measured:
    """Which of place, name and answer decides, behind the layer at which each decides most.

    The layer is chosen on the even pairs and judged on the odd ones.
    """
    result = load_part("binding", folder, model=model)
    said, place = result["said"].astype(float), result["place"]
    parts = {
        "place": said[0, ..., OUTCOMES.index("place")] - said[0, ..., OUTCOMES.index("other fact")],
        "name": said[0, ..., OUTCOMES.index("name")] - said[0, ..., OUTCOMES.index("other fact")],
        "answer": said[0, ..., OUTCOMES.index("answer")] - said[1, ..., OUTCOMES.index("absent")],
    }
    ours: dict[str, Number] = {}
    best = {}
    for name, x in parts.items():
        best[name] = int(x[:, ::2].mean(1).argmax())
        ours[f"answers decided by the {name}"] = mean_interval(x[best[name], 1::2], over="pairs")
        ours[f"layer, {name}"] = best[name]
    end = np.isin(place, (0, int(result.settings["length"]) - 1))
    by_place = parts["place"][best["place"]]
    ours["place decides at the ends, minus in the middle"] = _difference(by_place[end], by_place[~end])
    ours["the same on the pairs that did not choose the layer"] = _difference(
        by_place[1::2][end[1::2]], by_place[1::2][~end[1::2]]
    )
    decided = np.flatnonzero(said[0, best["place"], :, OUTCOMES.index("place")])
    where = sorted(set(place[decided].tolist()))
    for name in ("asked", "place", "name", "answer"):
        ours[f"answers of the {name} behind the last layer"] = float(said[0, -1, :, OUTCOMES.index(name)].mean())
    at = f" at place {' and '.join(map(str, where))}" if where else ""
    note = (
        "Behind late layers the state holds the answer itself: there both controls say it, and it counts for nothing. "
        f"At the layer chosen the place decides {len(decided)} of {len(place)} pairs{at}, "
        f"{int((decided % 2 == 0).sum())} of them among those that chose the layer."
    )
    return _measured(ours, result, note=note)


def _difference(first: np.ndarray, second: np.ndarray) -> Number:
    return mean_difference(first, second, over="pairs") if len(first) and len(second) else "no pair"


def _over_heads(values: np.ndarray) -> Estimate:
    return mean_interval(values.ravel(), over="heads")


def _measured(ours: dict[str, Number], *results: Result, fails: list[str] | None = None, note: str = "") -> Measured:
    evidence = [*dict.fromkeys(result.name for result in results), SHOWN_IN]
    model = TITLES[str(results[0].settings["model"])]
    return Measured(ours=ours, model=model, evidence=evidence, fails_in=fails or [], note=note)


Judge = Callable[[Path | None, str], Measured]

"""Judges of claims that later papers make: each as a statement about the cross-logit matrix or about what follows it.

The first rules were all written, and committed, before the measurement that they judge. A row's verdict is that of the
model that the claim was first asked of, but for L-1c, which no paper claims of a model; the same rule is put to every
other model, and the row says what it gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from posym_companion.finding import Claim, Line, Measured, Number, Rule, cases
from posym_companion.language_models.judges.binding_profile import MODEL
from posym_companion.later.later_claims import (
    BASES,
    FIRST,
    LENGTHS,
    MODELS,
    OUTCOMES,
    SHARES,
    TAUGHT,
    LaterClaims,
    Part,
    full_size,
)
from posym_core.metrics.stats import Estimate, mean_difference, mean_interval
from posym_core.runs.results import MissingResultError, Result, load_result

SHOWN_IN = "book/later/what_came_after.ipynb"
# How the models are called where a row speaks of several.
TITLES = {MODEL: MODEL, TAUGHT: f"{MODEL}, taught to bind"} | {
    family: f"small {family.capitalize()}" for family in MODELS if family not in (MODEL, TAUGHT)
}
# Part of the cases from which an order counts as lost; one half is a coin toss.
LOST = 0.4
# Correlation of logits with their best sum from which they count as nearly a sum.
NEARLY = 0.9
# Part of the answers that a mechanism must decide.
DECIDES = 0.1
# Two profiles are the same if they differ by less than this part of the height of the U.
SAME = 0.1
QUARTER = SHARES[1]
# A p below this is not chance. Equal sums of the same heads differ by less than the rounding.
SURELY, ROUNDING = 0.05, 1e-12


def part(name: Part, folder: Path | None = None, *, model: str | None = None, trained: bool = True) -> Result:
    """The stored result of one part, by default of the model that it was first asked of.

    Raises:
        ValueError: if there is no such part.
    """
    setting = LaterClaims(part=name, model=model or FIRST.get(name, MODEL), trained=trained)
    known = {each.name for each in full_size()}
    if setting.name not in known:
        raise ValueError(f"part must be one of {', '.join(sorted(known))}; got {setting.name!r}")
    return load_result(setting.name, folder=folder)


def sees_all(result: Result) -> np.ndarray:
    """``[layer]``: whether a layer sees the whole context."""
    return result["sees"] == result["sees"].max()


def order_lost(folder: Path | None, model: str) -> Measured:
    """Near and far places, and pairs of contents, at the farthest distances that a layer sees: head by head."""
    result = part("order", folder, model=model)
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
    result = part("order", folder, model=model)
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
    counts: dict[str, Number] = {f"lengths with {said[name]}": cases(rows) for name, rows in held.items()}
    fails = [f"{said[name]} at {LENGTHS[i]}" for name, rows in held.items() for i, ok in enumerate(rows) if not ok]
    note = "The same queries and keys under the angles of another base; nothing is trained with it."
    return _measured({**counts, **ours}, result, fails=fails, note=note)


def symbols_travel(folder: Path | None, model: str) -> Measured:
    """Whether heads that lean to symbols keep the order of contents where the others lose it."""
    result = part("order", folder, model=model)
    whole, own = sees_all(result), BASES.index(1.0)
    lean = (result["symbolic"].astype(float) - result["positional"].astype(float)).mean(0)[whole].ravel()
    farthest = result["contents"][own, -1][:, whole].astype(float)
    by_head = farthest.reshape(len(farthest), -1)
    ours: dict[str, Number] = {"heads that lean to symbols": cases(lean > 0)}
    if (lean > 0).all() or (lean <= 0).all():
        ours |= dict.fromkeys(("inversions, symbolic heads", "fewer than in the others"), "all heads lean one way")
        ours |= {CHANCE: "all heads lean one way", "heads on the smaller side": 0}
    else:
        symbolic, others = by_head[:, lean > 0].mean(1), by_head[:, lean <= 0].mean(1)
        ours |= {
            "inversions, symbolic heads": mean_interval(symbolic, over="prompts"),
            "inversions, other heads": mean_interval(others, over="prompts"),
            "fewer than in the others": mean_interval(others - symbolic, over="prompts"),
            CHANCE: chance_of_fewer(by_head.mean(0), lean > 0),
            "heads on the smaller side": int(min((lean > 0).sum(), (lean <= 0).sum())),
        }
    return _measured(ours, result, note="Heads of the global layers at 32,768, by their scores on the text itself.")


CHANCE = "exact p that as many heads drawn at random have so few inversions"


def chance_of_fewer(values: np.ndarray, chosen: np.ndarray) -> float:
    """Part of all choices of as many heads whose mean is as low as that of the chosen ones, or lower.

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
    sums = np.array([values[list(each)].sum() for each in itertools.combinations(range(len(values)), count)])
    return float((sums <= values[chosen].sum() + ROUNDING).mean())


def nearly_sums(folder: Path | None, model: str) -> Measured:
    """Correlation of ``C`` with the best sum of a function of position and one of content."""
    own = {True: model, False: MODEL if model == TAUGHT else model}
    found = {trained: part("sums", folder, model=one, trained=trained) for trained, one in own.items()}
    r = {trained: sum_correlation(x["interaction_share"]) for trained, x in found.items()}
    ours: dict[str, Number] = {
        "mean correlation": _over_heads(r[True]),
        "trained minus random weights": _over_heads(r[True] - r[False]),
        "with random weights": _over_heads(r[False]),
        f"heads above {NEARLY}": cases((r[True] > NEARLY).ravel()),
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
    result = part("retrieval", folder, model=model)
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
        "heads that carry the answer": cases((result["restored"] > 0.1).ravel()),
    }
    log_probability = dict(zip(names, result["log_probability"].astype(float), strict=True))
    ours |= {f"recall, {name}": float(row.mean()) for name, row in right.items()}
    ours |= {
        f"log-probability lost, {name}": float((log_probability["none"] - row).mean())
        for name, row in log_probability.items()
        if name != "none"
    }
    facts = int(result.settings["length"])
    return _measured(ours, result, note=f"{facts} facts; chance is 1 in {facts}.")


def u_at_birth(folder: Path | None, model: str) -> Measured:
    """Influence by place before training, with and without angles, and after."""
    result, fresh = influences(folder, model)
    rotated, unrotated = (fresh[name].astype(float) for name in ("rotated", "unrotated"))
    there = np.isfinite(rotated).all(-1)
    born = influence_ends(rotated[there])
    gap = np.abs(np.log(rotated[there]) - np.log(unrotated[there])).mean(-1)
    trained = influence_ends(result["trained"].astype(float))
    ours: dict[str, Number] = {
        "untrained models, beginning above the middle": cases(born.start > 0),
        "untrained models, last token above the middle": cases(born.last > 0),
        "untrained models, the same without angles": cases(gap < SAME * np.abs(born.start)),
        "trained model, beginning above the middle": cases(trained.start > 0),
        "trained model, last token above the middle": cases(trained.last > 0),
        "untrained models, last eighth but the last token above the middle": cases(born.end > 0),
        "trained model, last eighth but the last token above the middle": cases(trained.end > 0),
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
    }
    note = "Influence: Frobenius norm of the Jacobian of the last token's final state, by random directions."
    return _measured(ours, result, fresh, note=note)


def influences(folder: Path | None, model: str) -> tuple[Result, Result]:
    """The influence in a model, and in models with its architecture and random weights."""
    result = part("influence", folder, model=model)
    return result, part("influence", folder) if model == TAUGHT else result


def two_sources(folder: Path | None, model: str) -> Measured:
    """Influence with all angles stopped before training, beside the largest weights that Theorem 7 speaks of."""
    result, fresh = influences(folder, model)
    own = [str(kind) for kind in fresh["kinds"]].index("own")
    still = fresh["unrotated"][own].astype(float)
    born = influence_ends(still[np.isfinite(still).all(-1)])
    # [case, layer, head, target] -> ends [layer, head] of layers that see all of the context.
    ends = {
        name: Ends(x["trained_peak" if name == "trained" else "fresh_peak"].astype(float).mean(0))
        for name, x in (("trained", result), ("random", fresh))
    }
    there = np.isfinite(ends["trained"].start)
    height = {name: (0.5 * (x.start + x.end))[there] for name, x in ends.items()}
    bent = (ends["trained"].start > 0) & (ends["trained"].end > 0)
    ours: dict[str, Number] = {
        "models without angles, beginning above the middle": cases(born.start > 0),
        "models without angles, last token above the middle": cases(born.last > 0),
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
        "an end it is never more than twice that of another place, log 2 = 0.69."
    )
    return _measured(ours, result, fresh, note=note)


class Ends:
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


def influence_ends(influence: np.ndarray) -> Ends:
    """Ends of profiles ``[case, position]``, at least 16 positions.

    Raises:
        ValueError: if a profile is shorter.
    """
    if influence.shape[-1] < 16:
        raise ValueError(f"an eighth of a profile needs two positions, so 16 in all; got {influence.shape[-1]}")
    return Ends(np.log(influence))


def massive_planes(folder: Path | None, model: str) -> Measured:
    """Where the largest plane of every head's queries and keys lies."""
    result = part("sums", folder, model=model)
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
    result = part("binding", folder, model=model)
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


ELSEWHERE = "other models in which the rule holds whole"


def _asked_of_all(first: str, rule: Rule, judge: Judge, folder: Path | None) -> Measured:
    """What the first model says, and the rule's verdict and numbers on every other that was run."""
    found = judge(folder, first)
    ours, evidence, said = dict(found.ours), list(found.evidence), []
    fails, whole = list(found.fails_in), []
    for title, other in _others(first, judge, folder):
        verdict = rule.verdict(other.ours)
        said.append(f"{title}: *{verdict}*")
        if verdict != "not testable":
            whole.append(verdict == rule.whole)
            missed = [part for part, held in rule.parts(other.ours).items() if held == "no"]
            fails += [] if whole[-1] else [f"{title}: not {'; not '.join(missed)}" if missed else f"{title}: in part"]
        parts = "; ".join(f"{part}: {held}" for part, held in rule.parts(other.ours).items())
        ours |= {f"{title}: verdict": verdict, f"{title}: parts": parts}
        ours |= {f"{title}: {name}": other.ours[name] for name in rule.names}
        evidence = [*dict.fromkeys([*other.evidence[:-1], *evidence])]
    note = f"{found.note} The same rule elsewhere: {'; '.join(said)}." if said else found.note
    ours[ELSEWHERE] = cases(whole)
    return replace(found, ours=ours, evidence=evidence, fails_in=fails, note=note)


def _others(first: str, judge: Judge, folder: Path | None) -> Iterator[tuple[str, Measured]]:
    for model in MODELS:
        if model != first:
            try:
                yield TITLES[model], judge(folder, model)
            except MissingResultError:
                continue


def _changed(judged: Claim, says: str, lines: tuple[Line, ...], because: str) -> Claim:
    """A claim with the rule that it had first, which was written before any run."""
    first = replace(judged.rule, says=says, lines=lines)
    return replace(judged, rule_fixed="after a first look", first_rule=first, changed_because=because)


def _claim(
    name: str,
    short: str,
    claim: str,
    paper: str,
    says: str,
    lines: tuple[Line, ...],
    judge: Judge,
    changes: str,
    able: tuple[Line, ...] = (),
    first: str = MODEL,
) -> Claim:
    """A claim whose rule is put to one model first, and to all others."""
    rule = Rule(says=says, lines=lines, able=able, whole="reproduced in kind")
    return Claim(
        id=name,
        short=short,
        claim=claim,
        paper=paper,
        rule=rule,
        measure=partial(_asked_of_all, first, rule, judge),
        changes=changes,
        command="python -m posym_core run later_claims",
    )


_LARGER = "Larger models, and texts as long as the distances."
_ORDER_SAYS = (
    "a content has the higher logit at the far of two places (at least twice as far) in more than "
    f"{LOST} of the cases, two contents change their order between two places in more than {LOST} of them, and both "
    "rise from the length 64."
)


def _order_lines(unit: str) -> tuple[Line, ...]:
    return (
        Line(part="near is not preferred", of=f"far preferred to near{unit}", above=LOST),
        Line(part="contents change their order", of=f"inversions of contents{unit}", above=LOST),
        Line(part="the preference for far grows with length", of=f"rise of far preferred{unit}", above=0),
        Line(part="inversions grow with length", of=f"rise of inversions{unit}", above=0),
    )


ORDER = _changed(
    _claim(
        "L-1a",
        "Far from the query RoPE keeps no order",
        "As the context grows, a head no longer prefers near places to substantially farther ones, and a key that "
        "beats another at one position may lose to it at the next: both failures approach one half",
        "Du et al. (2026), a theorem; tested on large models",
        "At distances up to 32,768, over a text's tokens, with intervals over the heads of the global layers: "
        f"{_ORDER_SAYS}",
        _order_lines(", over heads"),
        order_lost,
        _LARGER,
    ),
    f"The same with intervals over prompts, means over heads: {_ORDER_SAYS}",
    _order_lines(""),
    "the claim is about a head, and prompts resampled within the same heads say nothing about another head",
)
BASE = _claim(
    "L-1b",
    "A larger base keeps contents apart and blurs positions",
    "Raising the base of RoPE helps to distinguish tokens and inevitably sacrifices the ability to distinguish "
    "positions",
    "Du et al. (2026), a theorem",
    "At each of four lengths, with every layer's base a hundred times larger instead of a hundred times smaller, the "
    "contents of the global layers' heads have fewer inversions, and less of the variance of C is left to the "
    "position.",
    (
        Line(part="fewer inversions of contents", of="lengths with fewer inversions of contents", unit="lengths"),
        Line(part="less is left to the position", of="lengths with less variance by position", unit="lengths"),
    ),
    base_trades,
    "A model that was trained with either base.",
)
_KEPT = Line(part="the order is not lost", of="inversions, symbolic heads", below=LOST)
_BOTH_WAYS = Line(part="some heads lean to symbols and some do not", of="heads on the smaller side", above=0)
SYMBOLS = _changed(
    _claim(
        "L-1c",
        "Symbolic heads keep the order of contents",
        "What one takes from the first two papers: heads that act by symbol work at any length. Against L-1a: they "
        "keep the order of contents where other heads lose it",
        "a consequence that L-1a challenges",
        "Over the global layers at 32,768: heads with s_SYM above s_POS on the text have fewer inversions of contents "
        f"than as many heads drawn at random (exact p below {SURELY}), and fewer than {LOST}.",
        (Line(part="fewer inversions than in other heads", of=CHANCE, below=SURELY, testable=_BOTH_WAYS), _KEPT),
        symbols_travel,
        _LARGER,
    ),
    "Over the global layers at 32,768: heads with s_SYM above s_POS on the text have fewer inversions of contents than "
    f"the others, with an interval over prompts, and fewer than {LOST}.",
    (Line(part="fewer inversions than in other heads", of="fewer than in the others", above=0), _KEPT),
    "the claim is about heads, and prompts resampled within the same heads say nothing about others",
)
SYMBOLS = replace(
    SYMBOLS,
    rule=replace(
        SYMBOLS.rule,
        says=f"{SYMBOLS.rule.says} The same on every other model that was run.",
        lines=(*SYMBOLS.rule.lines, Line(part="on the other models too", of=ELSEWHERE, unit="models")),
    ),
)
SUMS = _claim(
    "L-2",
    "Logits are nearly position plus content",
    "Attention logits correlate (.959) with the sum of a term for the position and one for the content; randomly "
    "initialised models behave otherwise",
    "Han and Ji (2025): a correlation of .959",
    f"On windows of 256 tokens of text, the mean over heads of the correlation of C with its best sum is above "
    f"{NEARLY}, and above that of the same model with random weights.",
    (
        Line(part="logits are nearly a sum", of="mean correlation", above=NEARLY),
        Line(part="more so than with random weights", of="trained minus random weights", above=0),
    ),
    nearly_sums,
    "Longer texts, or the mark of beginning among the contents.",
)
RETRIEVAL = _claim(
    "L-3",
    "Retrieval heads need their slowest planes",
    "Heads that retrieve are needed; zeroing the slowest quarter of their rotary dimensions takes recall from 1.00 to "
    ".18, as many random dimensions to .98, and the effect is these heads' own",
    "Bayram (2026): 32 of 128 dimensions, five models of 7 to 14 billion parameters",
    f"On the model taught to bind, 16 facts: without any plane of the heads that carry the answer, and without their "
    f"slowest quarter, recall falls by more than {DECIDES}; the slowest quarter costs more than as many random planes "
    "and more than the slowest quarter of as many other heads.",
    (
        Line(part="the heads are needed", of="recall lost with all planes zeroed", above=DECIDES),
        Line(part="the slowest planes are needed", of="recall lost with the slowest quarter zeroed", above=DECIDES),
        Line(part="they are needed more than random planes", of="more than with random planes zeroed", above=0),
        Line(part="they are needed more than those of other heads", of="more than in other heads", above=0),
    ),
    slow_planes_of_carriers,
    "Longer prompts, in which more planes turn; a model with more heads to spare.",
    able=(Line(part="the model binds", of="recall", above=0.9),),
    first=TAUGHT,
)
BIRTH = _claim(
    "L-4",
    "The middle is lost before any training",
    "Tokens at the beginning and the last token influence the last token's state more than those in the middle: at "
    "initialisation, with rotation or without, and still after training",
    "Chowdhury (2026); Herasimchyk et al. (2026) derive the same from mask and residual stream",
    "In every model with random weights, log influence over the first eighth and at the last token is above "
    f"that of the central quarter, and stopping all angles changes it by less than {SAME} of the beginning's "
    "height; in the trained model both ends are above the middle on every text.",
    (
        Line(
            part="the beginning is above the middle, untrained",
            of="untrained models, beginning above the middle",
            unit="models",
        ),
        Line(
            part="the last token is above the middle, untrained",
            of="untrained models, last token above the middle",
            unit="models",
        ),
        Line(part="stopping all angles changes little", of="untrained models, the same without angles", unit="models"),
        Line(
            part="the beginning is above the middle, trained",
            of="trained model, beginning above the middle",
            unit="texts",
        ),
        Line(
            part="the last token is above the middle, trained",
            of="trained model, last token above the middle",
            unit="texts",
        ),
    ),
    u_at_birth,
    "Deeper models, other ways to draw the weights.",
)
SOURCES = _claim(
    "L-4b",
    "The U has two sources in one model",
    "The loss of the middle before training needs no rotation; Theorem 7 of U25, which bends the largest weight that a "
    "positional head can put on a target, is another source, and comes with training",
    "the papers of L-4 beside Theorem 7 of Urrutia et al. (2026a)",
    "In one architecture and on the same prompts. In every model with random weights and all angles stopped, where "
    "every target's largest weight is the same, log influence over the first eighth and at the last token is above "
    "that of the central quarter. In the trained model the largest weight of a head, the positional part of its C "
    "pointed at each target, is higher at both ends than in the middle in more than half of the heads, and the height "
    "of that U is above that with random weights.",
    (
        Line(
            part="the beginning is above the middle, without angles",
            of="models without angles, beginning above the middle",
            unit="models",
        ),
        Line(
            part="the last token is above the middle, without angles",
            of="models without angles, last token above the middle",
            unit="models",
        ),
        Line(part="Theorem 7 bends trained heads", of="heads whose largest weight is U-shaped", above=0.5),
        Line(part="more than before training", of="height of that U, trained minus random weights", above=0),
    ),
    two_sources,
    "Longer prompts, over which slower planes turn; a model whose heads point at targets far away.",
)
MASSIVE = _claim(
    "L-5",
    "The largest queries and keys lie in slow planes",
    "Massive values of queries and keys concentrate in slow planes; they are found in planes that do not complete a "
    "cycle within the context",
    "Jin et al. (2025); Jonasson (2025)",
    "Over heads, the plane in which queries are largest (root mean square over text) lies in the slow half more often "
    "than not, and turns less than once over what the layer can see more often than a random plane of that layer; the "
    "same for keys.",
    tuple(
        Line(part=f"the largest {kind} plane {said}", of=name.format(kind=kind), above=line)
        for kind in ("query", "key")
        for said, name, line in (
            ("is a slow one", "heads whose largest {kind} plane is in the slow half", 0.5),
            ("turns less than once", "largest {kind} plane turns less than once, more often than a random plane", 0.0),
        )
    ),
    massive_planes,
    "The paper's own bounds on the frequency, which are not tested here.",
)
_BINDING = (
    "The last token's state behind one layer is replaced by that of a prompt with the facts rearranged, so that place, "
    f"name and answer name different facts. Each decides more than {DECIDES} of the answers at its best layer "
    "(chosen on other pairs): place and name beyond what an unrelated fact gets, the answer beyond what an "
    "answer that the prompt does not name gets; and place decides more at the ends than in the middle"
)
_BY_PLACE = Line(part="place decides", of="answers decided by the place", above=DECIDES)
_DECIDING = (
    _BY_PLACE,
    Line(part="name decides", of="answers decided by the name", above=DECIDES),
    Line(part="answer decides", of="answers decided by the answer", above=DECIDES),
)
_MIDDLE = Line(part="place decides less in the middle", of="place decides at the ends, minus in the middle", above=0)
BINDING = _changed(
    _claim(
        "L-6",
        "Binding goes by place, by name and by answer",
        "A model retrieves a bound word by the place of its fact (positional), by the name it is bound to (lexical) "
        "and by a pointer to the word itself (reflexive); by place least reliably in the middle",
        "Gur-Arieh et al. (2025): nine models, ten tasks",
        f"{_BINDING}, which is asked where place decides, on pairs that did not choose the layer.",
        (
            *_DECIDING,
            replace(_MIDDLE, of="the same on the pairs that did not choose the layer", testable=_BY_PLACE),
        ),
        three_pointers,
        "Models that bind untaught; longer lists of facts.",
        first=TAUGHT,
    ),
    f"{_BINDING}.",
    (*_DECIDING, _MIDDLE),
    "the line on the middle counted pairs that had chosen the layer, and was asked although the place hardly ever "
    "decides",
)

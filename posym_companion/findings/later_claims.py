"""Judges of claims that later papers make: each as a statement about the cross-logit matrix or about what follows it.

All rules were written, and committed, before the measurement that they judge.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from posym_companion.experiments.later_claims import BASES, LENGTHS, OUTCOMES, SHARES, full_size
from posym_companion.findings.binding_profile import MODEL
from posym_companion.findings.finding import Claim, Line, Measured, Number, Rule, cases
from posym_core.metrics.head_trends import local_layers
from posym_core.metrics.stats import Estimate, mean_difference, mean_interval
from posym_core.runs.results import Result, load_result

SHOWN_IN = "book/later/what_came_after.ipynb"
TAUGHT_MODEL = f"{MODEL}, taught to bind"
# Part of the cases from which an order counts as lost; one half is a coin toss.
LOST = 0.4
# Correlation of logits with their best sum from which they count as nearly a sum.
NEARLY = 0.9
# Part of the answers that a mechanism must decide.
DECIDES = 0.1
# Two profiles are the same if they differ by less than this part of the height of the U.
SAME = 0.1
QUARTER = SHARES[1]


def part(name: str, folder: Path | None = None, *, trained: bool = True) -> Result:
    """The stored result of one part.

    Raises:
        ValueError: if there is no such part.
    """
    found = {(setting.part, setting.trained): setting.name for setting in full_size()}
    if (name, trained) not in found:
        raise ValueError(f"part must be one of {', '.join(sorted({kind for kind, _ in found}))}; got {name!r}")
    return load_result(found[name, trained], folder=folder)


def global_heads(result: Result, folder: Path | None) -> np.ndarray:
    """``[layer]``: whether a layer sees the whole context."""
    angles = part("sums", folder)["angles"]
    return ~np.isin(np.arange(result["positional"].shape[1]), local_layers(angles))


def order_lost(folder: Path | None) -> Measured:
    """Near and far places, and pairs of contents, at the farthest distances that a layer sees."""
    result = part("order", folder)
    whole, own = global_heads(result, folder), BASES.index(1.0)
    # By prompt, mean over heads: [length, prompt].
    by = {name: result[name][own][:, :, whole].astype(float).mean((-1, -2)) for name in ("far", "contents")}
    local = result["contents"][own][LENGTHS.index(512)][:, ~whole].astype(float).mean((-1, -2))
    ours: dict[str, Number] = {
        "far preferred to near": mean_interval(by["far"][-1], over="prompts"),
        "inversions of contents": mean_interval(by["contents"][-1], over="prompts"),
        "rise of far preferred": mean_interval(by["far"][-1] - by["far"][0], over="prompts"),
        "rise of inversions": mean_interval(by["contents"][-1] - by["contents"][0], over="prompts"),
    }
    for name, rows in by.items():
        ours |= {f"{name} at {length}": float(row.mean()) for length, row in zip(LENGTHS, rows, strict=True)}
    ours["inversions of contents in local layers at 512"] = mean_interval(local, over="prompts")
    return _measured(ours, "order", note="Heads of the global layers; contents are those of a text of 64 tokens.")


def base_trades(folder: Path | None) -> Measured:
    """What a base a hundred times larger, and one a hundred times smaller, do to both orders."""
    result = part("order", folder)
    whole = global_heads(result, folder)
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
    return _measured({**counts, **ours}, "order", fails=fails, note=note)


def symbols_travel(folder: Path | None) -> Measured:
    """Whether heads that lean to symbols keep the order of contents where the others lose it."""
    result = part("order", folder)
    whole, own = global_heads(result, folder), BASES.index(1.0)
    lean = (result["symbolic"].astype(float) - result["positional"].astype(float)).mean(0)[whole].ravel()
    farthest = result["contents"][own, -1][:, whole].astype(float)
    by_head = farthest.reshape(len(farthest), -1)
    ours: dict[str, Number] = {"heads that lean to symbols": cases(lean > 0)}
    if (lean > 0).all() or (lean <= 0).all():
        ours |= dict.fromkeys(("inversions, symbolic heads", "fewer than in the others"), "all heads lean one way")
    else:
        symbolic, others = by_head[:, lean > 0].mean(1), by_head[:, lean <= 0].mean(1)
        ours |= {
            "inversions, symbolic heads": mean_interval(symbolic, over="prompts"),
            "inversions, other heads": mean_interval(others, over="prompts"),
            "fewer than in the others": mean_interval(others - symbolic, over="prompts"),
        }
    return _measured(ours, "order", note="Heads of the global layers at 32,768, by their scores on the text itself.")


def nearly_sums(folder: Path | None) -> Measured:
    """Correlation of ``C`` with the best sum of a function of position and one of content."""
    found = {trained: part("sums", folder, trained=trained) for trained in (True, False)}
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
    return _measured(ours, "sums", "sums_untrained", note=note)


def sum_correlation(interaction_share: np.ndarray) -> np.ndarray:
    """From ``[prompt, layer, head]`` the mean over prompts of ``sqrt(1 - interaction share)``, ``[layer, head]``.

    The best sum of a function of position and one of content, by least squares, explains the other two shares of the
    variance, and the correlation with a least-squares fit is the root of what it explains.
    """
    return np.sqrt(np.clip(1 - interaction_share.astype(float), 0, 1)).mean(0)


def slow_planes_of_carriers(folder: Path | None) -> Measured:
    """Recall without the slowest quarter of planes of the heads that carry the answer, and without others."""
    result = part("retrieval", folder)
    names = [str(name) for name in result["conditions"]]
    correct = result["correct"].astype(float)
    right = dict(zip(names, correct, strict=True))
    random = correct[[i for i, name in enumerate(names) if name.startswith("random")]].mean(0)
    others = correct[[i for i, name in enumerate(names) if name.startswith("other heads")]].mean(0)
    slow = right[f"slowest {QUARTER:g}"]
    ours: dict[str, Number] = {
        "recall": float(right["none"].mean()),
        "recall lost without all planes": mean_interval(right["none"] - right["all planes"], over="prompts"),
        "recall lost without the slowest quarter": mean_interval(right["none"] - slow, over="prompts"),
        "more than without random planes": mean_interval(random - slow, over="prompts"),
        "more than in other heads": mean_interval(others - slow, over="prompts"),
        "heads that carry the answer": cases((result["restored"] > 0.1).ravel()),
    }
    log_probability = dict(zip(names, result["log_probability"].astype(float), strict=True))
    ours |= {f"recall, {name}": float(row.mean()) for name, row in right.items()}
    ours |= {
        f"log-probability lost, {name}": float((log_probability["none"] - row).mean())
        for name, row in log_probability.items()
        if name != "none"
    }
    return _measured(ours, "retrieval", model=TAUGHT_MODEL, note="16 facts; chance is 1 in 16.")


def u_at_birth(folder: Path | None) -> Measured:
    """Influence by place before training, with and without angles, and after."""
    result = part("influence", folder)
    rotated, unrotated = (result[name].astype(float) for name in ("rotated", "unrotated"))
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
    for number, kind in enumerate(result["kinds"]):
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
    return _measured(ours, "influence", model=f"small Qwen-2 with random weights; {MODEL}", note=note)


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


def massive_planes(folder: Path | None) -> Measured:
    """Where the largest plane of every head's queries and keys lies."""
    result = part("sums", folder)
    angles, local = result["angles"], local_layers(result["angles"])
    sees = np.where(np.isin(np.arange(len(angles)), local), LENGTHS[1], LENGTHS[-1])
    partial = angles * sees[:, None] < 2 * np.pi
    ours: dict[str, Number] = {}
    for kind in ("query", "key"):
        norm = result[f"{kind}_norm"].astype(float)
        norm = norm[:, :1] if kind == "key" else norm  # all query heads of a layer share their keys
        top = norm.argmax(-1)
        inside = np.take_along_axis(partial, top, 1) - partial.mean(1, keepdims=True)
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
    note = "n is what a layer can see: 512 tokens in local layers, 32,768 in global ones."
    return _measured(ours, "sums", note=note)


def three_pointers(folder: Path | None) -> Measured:
    """Which of place, name and answer decides, behind the layer at which each decides most.

    The layer is chosen on the even pairs and judged on the odd ones.
    """
    result = part("binding", folder)
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
    facts = int(result.settings["length"])
    end = np.isin(place, (0, facts - 1))
    by_place = parts["place"][best["place"]]
    ours["place decides at the ends, minus in the middle"] = _difference(by_place[end], by_place[~end])
    for name in ("asked", "place", "name", "answer"):
        ours[f"answers of the {name} behind the last layer"] = float(said[0, -1, :, OUTCOMES.index(name)].mean())
    note = (
        "Behind late layers the state holds the answer itself: there both controls say it, and it counts for nothing."
    )
    return _measured(ours, "binding", model=TAUGHT_MODEL, note=note)


def _difference(first: np.ndarray, second: np.ndarray) -> Number:
    return mean_difference(first, second, over="pairs") if len(first) and len(second) else "no pair"


def _over_heads(values: np.ndarray) -> Estimate:
    return mean_interval(values.ravel(), over="heads")


def _measured(
    ours: dict[str, Number], *parts: str, model: str = MODEL, fails: list[str] | None = None, note: str = ""
) -> Measured:
    evidence = [*(f"later_claims/{name}" for name in parts), SHOWN_IN]
    return Measured(ours=ours, model=model, evidence=evidence, fails_in=fails or [], note=note)


def _claim(
    name: str,
    short: str,
    claim: str,
    paper: str,
    says: str,
    lines: tuple[Line, ...],
    measure: Callable[[Path | None], Measured],
    changes: str,
    able: tuple[Line, ...] = (),
) -> Claim:
    return Claim(
        id=name,
        short=short,
        claim=claim,
        paper=paper,
        rule=Rule(says=says, lines=lines, able=able, whole="reproduced in kind"),
        measure=measure,
        changes=changes,
        command="python -m posym_core run later_claims",
    )


_LARGER = "Larger models, and texts as long as the distances."
ORDER = _claim(
    "L-1a",
    "Far from the query RoPE keeps no order",
    "As the context grows, a head no longer prefers near places to substantially farther ones, and a key that beats "
    "another at one position may lose to it at the next: both failures approach one half",
    "Du et al. (2026), a theorem; tested on large models",
    "At distances up to 32,768, over the heads of the global layers and a text's tokens: a content has the "
    f"higher logit at the far of two places (at least twice as far) in more than {LOST} of the cases, two "
    f"contents change their order between two places in more than {LOST} of them, and both rise from the length 64.",
    (
        Line(part="near is not preferred", of="far preferred to near", above=LOST),
        Line(part="contents change their order", of="inversions of contents", above=LOST),
        Line(part="the first grows with length", of="rise of far preferred", above=0),
        Line(part="the second grows with length", of="rise of inversions", above=0),
    ),
    order_lost,
    _LARGER,
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
        Line(part="fewer inversions of contents", of="lengths with fewer inversions of contents"),
        Line(part="less is left to the position", of="lengths with less variance by position"),
    ),
    base_trades,
    "A model that was trained with either base.",
)
SYMBOLS = _claim(
    "L-1c",
    "Symbolic heads keep the order of contents",
    "What one takes from the first two papers: heads that act by symbol work at any length. Against L-1a: they "
    "keep the order of contents where other heads lose it",
    "a consequence that L-1a challenges",
    "Over the global layers at 32,768: heads with s_SYM above s_POS on the text have fewer inversions of contents than "
    f"the others, and fewer than {LOST}.",
    (
        Line(part="fewer than the others", of="fewer than in the others", above=0),
        Line(part="not lost", of="inversions, symbolic heads", below=LOST),
    ),
    symbols_travel,
    _LARGER,
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
        Line(part="nearly a sum", of="mean correlation", above=NEARLY),
        Line(part="more than by chance", of="trained minus random weights", above=0),
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
        Line(part="the heads are needed", of="recall lost without all planes", above=DECIDES),
        Line(part="the slowest planes are needed", of="recall lost without the slowest quarter", above=DECIDES),
        Line(part="more than random planes", of="more than without random planes", above=0),
        Line(part="more than in other heads", of="more than in other heads", above=0),
    ),
    slow_planes_of_carriers,
    "Longer prompts, in which more planes turn; a model with more heads to spare.",
    able=(Line(part="the model binds", of="recall", above=0.9),),
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
        Line(part="beginning, untrained", of="untrained models, beginning above the middle"),
        Line(part="last token, untrained", of="untrained models, last token above the middle"),
        Line(part="the same without angles", of="untrained models, the same without angles"),
        Line(part="beginning, trained", of="trained model, beginning above the middle"),
        Line(part="last token, trained", of="trained model, last token above the middle"),
    ),
    u_at_birth,
    "Deeper models, other ways to draw the weights.",
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
        Line(part=f"{kind}: {said}", of=name.format(kind=kind), above=line)
        for kind in ("query", "key")
        for said, name, line in (
            ("slow half", "heads whose largest {kind} plane is in the slow half", 0.5),
            ("less than one turn", "largest {kind} plane turns less than once, more often than a random plane", 0.0),
        )
    ),
    massive_planes,
    "The paper's own bounds on the frequency, which are not tested here.",
)
BINDING = _claim(
    "L-6",
    "Binding goes by place, by name and by answer",
    "A model retrieves a bound word by the place of its fact (positional), by the name it is bound to (lexical) "
    "and by a pointer to the word itself (reflexive); by place least reliably in the middle",
    "Gur-Arieh et al. (2025): nine models, ten tasks",
    "The last token's state behind one layer is replaced by that of a prompt with the facts rearranged, so that place, "
    f"name and answer name different facts. Each decides more than {DECIDES} of the answers at its best layer "
    "(chosen on other pairs): place and name beyond what an unrelated fact gets, the answer beyond what an "
    "answer that the prompt does not name gets; and place decides more at the ends than in the middle.",
    (
        Line(part="by place", of="answers decided by the place", above=DECIDES),
        Line(part="by name", of="answers decided by the name", above=DECIDES),
        Line(part="by answer", of="answers decided by the answer", above=DECIDES),
        Line(part="place fails in the middle", of="place decides at the ends, minus in the middle", above=0),
    ),
    three_pointers,
    "Models that bind untaught; longer lists of facts.",
)

"""Do scores tell which single head, edited, moves an answer to the neighbouring fact? Judge of B-6.

An edit moves an answer by what the probability of the two neighbouring facts rises above that of two of the others:
damage that spreads over all facts moves nothing. Of every order, made before any head was edited, only the first head
counts, or the mean over those that tie with it. *Sped up* asks orders for heads that bind: the most symbolic, the one
that reads most of the symbol, the one with most energy in slow planes. *Stopped* asks for heads that know where: their
opposites.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.results import Result, load_result
from posym_companion.solvers.head_editing import EDITS, ROLES, HeadEditing
from posym_companion.solvers.head_rankings import WITHIN, HeadRankings, list_orders, score_need
from posym_companion.solvers.judges.head_removal import SHOWN_IN
from posym_companion.solvers.ranked_models import LANGUAGE_MODELS
from posym_core.metrics import Estimate, student_margin
from posym_core.tasks import Question

FAMILIES = dict(zip(("Gemma", "SmolLM2"), LANGUAGE_MODELS, strict=True))
# What a head that an edit is expected to strike would be needed for.
SOUGHT: Mapping[str, Question] = dict(zip(EDITS, ("binding", "index"), strict=True))
SCORES = WITHIN
RIVALS = ("asked fact", "copying", "previous token")
CHANCE = "chance"
# Chosen after the edits, and so only shown.
MOST_MOVED = "most questions moved"
# In probability, of all that the two neighbours could have.
MARGIN = 0.05
# Heads tie whose scores are this near: of SmolLM2's many have the greatest s_SYM but for rounding.
TIE = 1e-4
FIRST = ", first rule"
MOVES, WON = "first heads that move the answer", "comparisons won by first heads"
MOST = "questions that one head moves to a neighbour"


def measure_moved(result: Result) -> Float[np.ndarray, "edit layer head list"]:
    """By how much each edit of a head moves answers to neighbours, from 0 to 1; below 0 if to other facts."""
    return (_lean(result["log_probability"]) - _lean(result["unedited"])).mean(-1)


def _lean(logs: Float[np.ndarray, "*batch role"]) -> Float[np.ndarray, "*batch"]:
    """Probability of both neighbours above that of two other facts."""
    _, before, after, other = np.moveaxis(np.exp(logs.astype(float)), -1, 0)
    return before + after - 2 * other


def over_lists(values: Float[np.ndarray, " list"]) -> Estimate:
    """A mean over lists with Student's interval, which one list does not give."""
    half = float(student_margin(values)) if len(values) > 1 else float("nan")
    value = float(values.mean())
    return Estimate(value=value, low=value - half, high=value + half, method="lists, Student's t")


def beyond_margin(found: Estimate) -> bool:
    """Whether an answer is moved: by more than the margin, with an interval off zero."""
    return found.value > MARGIN and found.low > 0


Heads = list[tuple[int, int]]


def first_heads(rankings: Result, edit: str, *, tied: bool = True) -> dict[str, Heads]:
    """The head that each order puts first, of those for what an edit seeks, and heads that tie with it if ``tied``."""
    by_name = dict(zip(rankings["predictor_names"].tolist(), rankings["predictors"][0, 0], strict=True))
    width = rankings["predictors"].shape[-1]
    orders = list_orders(by_name, SOUGHT[edit], seed=int(rankings.settings["seed"]))
    if not tied:
        return {order: [divmod(int(orders[order][0]), width)] for order in (*SCORES, *RIVALS)}
    by = {order: x.ravel() for order, x in score_need(by_name, SOUGHT[edit]).items()}
    return {
        order: [divmod(int(head), width) for head in np.flatnonzero(by[order] >= np.nanmax(by[order]) - TIE)]
        for order in (*SCORES, *RIVALS)
    }


@dataclass(frozen=True, kw_only=True)
class EditSummary:
    """What one edit does in one model.

    Attributes:
        first: the head of every order, with those that tie with it.
        moves: what its edit moves; also of ``most``, and the mean of all heads.
        compared: by how much the head of a score moves more than that of a rival, by both names; pairs that name one
            head are not there.
        above: how many heads move the answer more than the head of a score, by its name; only shown.
        most: the head that moves most questions to a neighbour.
        share: how many of the questions, of all; those that are answered so anyway are not moved.
    """

    first: Mapping[str, Heads]
    moves: Mapping[str, Estimate]
    compared: Mapping[tuple[str, str], Estimate]
    above: Mapping[str, int]
    most: tuple[int, int]
    share: float


def summarize_edit(result: Result, rankings: Result, edit: str, *, tied: bool = True) -> EditSummary:
    """What one edit does, of the heads that orders put first and of all; of heads that tie the mean."""
    number = EDITS.index(edit)
    by_head, first = measure_moved(result)[number], first_heads(rankings, edit, tied=tied)
    next_to = [ROLES.index("before"), ROLES.index("after")]
    new = ~np.isin(result["unedited_answer"], next_to)
    shares = (np.isin(result["answer"][number], next_to) & new).mean((-1, -2))
    most = divmod(int(shares.argmax()), shares.shape[1])
    by_order = {
        order: np.mean([by_head[head] for head in heads], axis=0)
        for order, heads in (first | {MOST_MOVED: [most]}).items()
    }
    by_order[CHANCE] = by_head.mean((0, 1))
    compared = {
        (score, rival): over_lists(by_order[score] - by_order[rival])
        for score in SCORES
        for rival in (*RIVALS, CHANCE)
        if first[score] != first.get(rival)
    }
    return EditSummary(
        first=first,
        moves={order: over_lists(x) for order, x in by_order.items()},
        compared=compared,
        above={score: int((by_head.mean(-1) > by_order[score].mean()).sum()) for score in SCORES},
        most=most,
        share=float(shares.max()),
    )


def _named(heads: Heads) -> str:
    return "{}:{}".format(*heads[0]) if len(heads) == 1 else f"{len(heads)} heads that tie"


def edits_move_answers(folder: Path | None) -> Measured:
    """B-6: both taught models, and both edits."""
    ours: dict[str, Number] = {}
    missed, evidence = [], []
    for family, model in FAMILIES.items():
        result = load_result(HeadEditing(model=model).name, folder=folder)
        rankings = load_result(HeadRankings(model=model).name, folder=folder)
        evidence += [result.name, rankings.name]
        ours[f"accuracy with all heads ({family})"] = float((result["unedited_answer"] == 0).mean())
        for edit in EDITS:
            found, where = summarize_edit(result, rankings, edit), f"{edit}, {family}"
            scores = {score: found.moves[score] for score in SCORES}
            ours |= {
                f"{MOVES} ({where})": count_cases(beyond_margin(x) for x in scores.values()),
                f"{WON} ({where})": count_cases(beyond_margin(x) for x in found.compared.values()),
                f"{MOST} ({where})": found.share,
                f"head that moves most questions ({where})": "{}:{}".format(*found.most),
            }
            ours |= {f"moved by the head of {order} ({where})": x for order, x in found.moves.items()}
            ours |= {f"heads that move it more than that of {score} ({where})": x for score, x in found.above.items()}
            ours |= {f"head of {order} ({where})": _named(heads) for order, heads in found.first.items()}
            alone = summarize_edit(result, rankings, edit, tied=False)
            first = {MOVES: [alone.moves[score] for score in SCORES], WON: list(alone.compared.values())}
            ours |= {f"{name} ({where}){FIRST}": count_cases(map(beyond_margin, each)) for name, each in first.items()}
            missed += [f"{score}, {where}: {x}" for score, x in scores.items() if not beyond_margin(x)]
            missed += [
                f"{score} against {rival}, {where}: {x}"
                for (score, rival), x in found.compared.items()
                if not beyond_margin(x)
            ]
    note = (
        "Every head was edited; a comparison of two orders that put the same head first asks nothing and is left out."
    )
    return Measured(
        ours=ours,
        model="Gemma 3 270M and SmolLM2-135M, taught to bind",
        evidence=[*evidence, SHOWN_IN],
        fails_in=missed,
        note=note,
    )

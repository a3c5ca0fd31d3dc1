"""Do scores tell which single head, edited, moves an answer to the neighbouring fact? Judge of B-6.

An edit moves an answer by what the probability of the two neighbouring facts rises above that of two of the others:
damage that spreads over all facts moves nothing. Of every order, made before any head was edited, only the first head
counts, or the mean over those that tie with it. *Sped up* asks orders for heads that bind: the most symbolic, the one
that reads most of the symbol, the one with most energy in slow planes. *Stopped* asks for heads that know where: their
opposites.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import Result
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
# Heads tie whose scores are this near: of SmolLM2's many have the greatest s_SYM but for rounding.
TIE = 1e-4
Heads = list[tuple[int, int]]


def measure_moved(result: Result) -> Float[np.ndarray, "edit layer head list"]:
    """Return by how much each edit of a head moves answers to neighbours, from 0 to 1; below 0 if to other facts."""
    return (_lean(result["log_probability"]) - _lean(result["unedited"])).mean(-1)


def _lean(logs: Float[np.ndarray, "*batch role"]) -> Float[np.ndarray, "*batch"]:
    """Return the probability of both neighbours above that of two other facts."""
    _, before, after, other = np.moveaxis(np.exp(logs.astype(float)), -1, 0)
    return before + after - 2 * other


def over_lists(values: Float[np.ndarray, " list"]) -> Estimate:
    """Return a mean over lists with Student's interval, which one list does not give."""
    half = float(student_margin(values)) if len(values) > 1 else float("nan")
    value = float(values.mean())
    return Estimate(value=value, low=value - half, high=value + half, method="lists, Student's t")


def first_heads(rankings: Result, edit: str, *, tied: bool = True) -> dict[str, Heads]:
    """Return the head that each order for what an edit seeks puts first, and heads that tie with it if ``tied``."""
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
    """Hold what one edit does in one model.

    Attributes:
        first: the head of every order, with those that tie with it.
        moves: what its edit moves; also the mean of all heads.
        compared: by how much the head of a score moves more than that of a rival, by both names; pairs that name one
            head are not there.
        share: how many of the questions the head moves to a neighbour that moves most, of all; those that are
            answered so anyway are not moved.
    """

    first: Mapping[str, Heads]
    moves: Mapping[str, Estimate]
    compared: Mapping[tuple[str, str], Estimate]
    share: float


def summarize_edit(result: Result, rankings: Result, edit: str, *, tied: bool = True) -> EditSummary:
    """Return what one edit does, of the heads that orders put first and of all; of heads that tie the mean."""
    number = EDITS.index(edit)
    by_head, first = measure_moved(result)[number], first_heads(rankings, edit, tied=tied)
    next_to = [ROLES.index("before"), ROLES.index("after")]
    new = ~np.isin(result["unedited_answer"], next_to)
    by_order = {order: np.mean([by_head[head] for head in heads], axis=0) for order, heads in first.items()}
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
        share=float((np.isin(result["answer"][number], next_to) & new).mean((-1, -2)).max()),
    )


def yield_moved(summary: EditSummary, where: str, rule: str = "") -> Iterator[Yielded]:
    """Yield what first heads move, and more than those of others; for the first rule of scores alone."""
    for order, moved in summary.moves.items():
        if order in SCORES or not rule:
            yield f"moved by the first head{rule}", f"{order}, {where}", moved
        if not rule:
            yield "the order is that of a score", f"{order}, {where}", order in SCORES
    for (score, rival), more in summary.compared.items():
        yield f"moved more than by the other{rule}", f"{score}, {rival}, {where}", more


@judge(
    SHOWN_IN,
    measured_on="Gemma 3 270M and SmolLM2-135M, taught to bind",
    note="Every head was edited; a comparison of two orders that put the same head first asks nothing and is left out.",
)
def edits_move_answers(look: Look) -> Iterator[Yielded]:
    """B-6: both taught models, and both edits."""
    for family, model in FAMILIES.items():
        result, rankings = look.load(HeadEditing(model=model)), look.load(HeadRankings(model=model))
        yield "accuracy with all heads", family, float((result["unedited_answer"] == 0).mean())
        for edit in EDITS:
            summary, where = summarize_edit(result, rankings, edit), f"{edit}, {family}"
            yield "questions that one head moves to a neighbour", where, summary.share
            for order, heads in summary.first.items():
                named = "{}:{}".format(*heads[0]) if len(heads) == 1 else f"{len(heads)} heads that tie"
                yield "first head", f"{order}, {where}", named
            yield from yield_moved(summary, where)
            yield from yield_moved(summarize_edit(result, rankings, edit, tied=False), where, ", first rule")

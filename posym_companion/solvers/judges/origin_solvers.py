"""Is index read from origins, with rotation and without? What the symbolic part of heads is that carry an answer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.judges.origins import SHOWN_IN
from posym_companion.results import Result, load_stored_results
from posym_companion.score_statistics import divide_sums
from posym_companion.solvers.head_roles import CARRIES
from posym_companion.solvers.judges.task_solvers import SOLVED
from posym_companion.solvers.origin_solvers import KEPT, QUERIES, full_size
from posym_core.metrics import Estimate

MODEL = "decoders of two and four layers, trained on binding and index"
NO_HEAD = "no head carries it"
LEARNED = "lower end of origin's share less the upper end before training"
DRAWS = 2000
SYMBOLIC = ("symbol", "origin", "symbol_origin")


def origin_results(folder: Path | None = None) -> list[Result]:
    """Return the stored settings, two without rotation and one with it.

    Raises:
        MissingResultError: if one is missing.
    """
    names = [setting.name for setting in full_size()]
    return load_stored_results(names, folder, least=len(names))


def origin_share(
    result: Result,
    seed: int,
    question: str,
    part: str,
    *,
    array: str = "parts",
    queries: str = "own",
    last: bool = False,
) -> Estimate | None:
    """Return a part of the symbolic part of the heads that carry a kind of question, with its interval over squares.

    The symbolic part of a prompt is the variance of the row means of its cross-logit matrix; what differs between
    prompts is no part of it. Variances are summed over the heads.

    Args:
        result: of the experiment ``origin_solvers``.
        seed: place of the model among its seeds.
        question: kind.
        part: ``"symbol"``, ``"origin"`` or ``"symbol_origin"``; or ``"place"``, which is of the whole variance.
        array: ``"parts"``, or ``"parts_before"`` for the same heads before training.
        queries: ``"own"`` or ``"crossed"``.
        last: leave out the heads of all layers but the last.

    Returns:
        None if no head carries it, or nothing varies in one that does.
    """
    kind = result.settings["solver"]["questions"].index(question)
    carries = result["patched"][seed, kind] >= CARRIES
    if last:
        carries[:-1] = False
    parts = result[array][seed, kind, QUERIES.index(queries)].astype(float)[:, carries].sum(1)
    by_name = dict(zip(KEPT, parts.T, strict=True))
    by_name["symbol_origin"] = np.maximum(by_name["symbol_origin"] - by_name.pop("prompts"), 0)
    whole = sum(by_name[name] for name in (by_name if part == "place" else SYMBOLIC))
    return divide_sums(by_name[part], np.asarray(whole), draws=DRAWS) if np.sum(whole) > 0 else None


@judge(SHOWN_IN, measured_on=MODEL)
def index_from_origins(look: Look) -> Iterator[Yielded]:
    """C-5: origin's share of the symbolic part, at the heads that carry an answer, of every model that solves it."""
    late = []
    for result in look.load_stored(full_size(), least=len(full_size())):
        solver = result.settings["solver"]
        turns = "no rotation" if solver["band"] == "none" else "rotation"
        for (place, seed), (kind, question) in product(enumerate(solver["seeds"]), enumerate(solver["questions"])):
            if not result["accuracy"][place, kind] > SOLVED:
                continue
            where = f"{question}, {turns}, {result.name.partition('/')[2]}, seed {seed}"
            share = origin_share(result, place, question, "origin")
            yield "origin's share", where, share or NO_HEAD
            if question == "index":
                before = origin_share(result, place, question, "origin", array="parts_before")
                yield LEARNED, where, share.low - before.high if share and before else NO_HEAD
            elif last := origin_share(result, place, question, "origin", last=True):
                late.append(last.value)
    look.note = (
        "Names are band, layers x heads, facts. Without rotation nothing but the key can know a place, so that what "
        "those models read was no question."
    )
    if late:
        look.note += (
            " Patching is at all tokens and logits are the last one's, so that a head that ties attributes to names "
            "counts among those that carry binding; seen afterwards: of those in the last layer alone origin holds "
            f"{min(late):.2f} to {max(late):.2f}"
        )

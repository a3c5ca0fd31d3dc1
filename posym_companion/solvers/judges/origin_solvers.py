"""Is index read from origins, with rotation and without? What the symbolic part of heads is that carry an answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.language_models.judges.origins import SHOWN_IN
from posym_companion.results import Result, load_stored_results
from posym_companion.solvers.judges.solver_roles import CARRIES
from posym_companion.solvers.judges.task_solvers import SOLVED
from posym_companion.solvers.origin_solvers import KEPT, QUERIES, full_size
from posym_core.metrics import Estimate, statistic_interval

MODEL = "decoders of two and four layers, trained on binding and index"
INDEX = "models without rotation that read index from origins"
ROTARY = "models with rotation that read index from origins"
BINDING = "models that do not read binding from origins"
BEFORE = "models without rotation with less origin before training"
HALF = 0.5
DRAWS = 2000
SYMBOLIC = ("symbol", "origin", "symbol_origin")


def origin_results(folder: Path | None = None) -> list[Result]:
    """The stored settings, two without rotation and one with it.

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
    """A part of the symbolic part of the heads that carry a kind of question, with its interval over squares.

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
    sums = np.stack([by_name[part], np.asarray(whole)], -1)[:, None]
    if not sums[..., 1].sum() > 0:
        return None
    return statistic_interval(
        lambda x: x[..., 0].sum((-1, -2)) / x[..., 1].sum((-1, -2)), sums, draws=DRAWS, vectorized=True
    )


def index_from_origins(folder: Path | None) -> Measured:
    """C-5: origin's share of the symbolic part, at the heads that carry an answer, of every model that solves it."""
    results = origin_results(folder)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {name: [] for name in (INDEX, ROTARY, BINDING, BEFORE)}
    fails = []
    for result in results:
        solver = result.settings["solver"]
        for place, seed in enumerate(solver["seeds"]):
            for kind, question in enumerate(solver["questions"]):
                where = f"{question}, {result.name.partition('/')[2]}, seed {seed}"
                accuracy = ours[f"accuracy ({where})"] = float(result["accuracy"][place, kind])
                if not accuracy > SOLVED:
                    continue
                found = origin_share(result, place, question, "origin")
                before = origin_share(result, place, question, "origin", array="parts_before")
                for said, value in (
                    ("origin's share", found),
                    ("origin's share before training", before),
                    (
                        "origin's share, crossed queries",
                        origin_share(result, place, question, "origin", queries="crossed"),
                    ),
                    ("origin's share in the last layer", origin_share(result, place, question, "origin", last=True)),
                    ("symbol's share", origin_share(result, place, question, "symbol")),
                    ("place's share of the whole variance", origin_share(result, place, question, "place")),
                ):
                    ours[f"{said} ({where})"] = "no head carries it" if value is None else value
                if question == "binding":
                    held[BINDING].append(found is not None and found.high < HALF)
                    kept = held[BINDING][-1]
                elif solver["band"] == "none":
                    held[INDEX].append(found is not None and found.low > HALF)
                    held[BEFORE].append(found is not None and before is not None and before.high < found.low)
                    kept = held[BEFORE][-1]
                else:
                    held[ROTARY].append(found is not None and found.low > HALF)
                    kept = held[ROTARY][-1]
                if not kept:
                    fails.append(f"{where}: {found}, {before} before training")
    late = [
        value.value
        for name, value in ours.items()
        if name.startswith("origin's share in the last layer (binding") and isinstance(value, Estimate)
    ]
    note = (
        "Names are band, layers x heads, facts. Without rotation nothing but the key can know a place, so that what "
        "those models read was no question."
    )
    if late:
        note += (
            " Patching is at all tokens and logits are the last one's, so that a head that ties attributes to names "
            "counts among those that carry binding; seen afterwards: of those in the last layer alone origin holds "
            f"{min(late):.2f} to {max(late):.2f}"
        )
    return Measured(
        ours={**{name: count_cases(each) for name, each in held.items()}, **ours},
        model=MODEL,
        evidence=[*(result.name for result in results), SHOWN_IN],
        fails_in=fails,
        note=note,
    )

"""Judge of the claim about constructed heads of one hop and their discrepancy: computed when asked, from no result.

Rules. *The heads work* if, at sizes where every sequence can be listed, each is right on every valid last token of
every sequence: Index at the angle of the paper's figure and a fast and a slow one, Retrieval at a tenth and at nine
tenths of the largest angle that the paper allows, at a temperature a thousandth above the smallest. *The bounds hold
as stated* if no input has a larger discrepancy, at the angles of the paper's figure and for all lengths it shows, two
tokens before the query or more. *They hold on the worst input* if the least discrepancy over inputs is within them.

Reproduced if the heads work and the bounds hold as stated. Reproduced in kind if the heads work and the bounds hold on
the worst input only: what the paper concludes from them, that some input's logits draw together, follows all the same.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.findings.finding import Finding, Verdict
from posym_core.metrics.rope import rope_angles
from posym_core.models.constructed.hop_limits import (
    index_discrepancy,
    index_smallest_beta,
    reflexive_smallest_beta,
    retrieval_angle_limit,
    retrieval_discrepancy,
    retrieval_smallest_beta,
)
from posym_core.models.constructed.hops import HopHead, IndexHead, RetrievalHead, every_sequence, hop_is_right
from posym_core.tasks.multihop import LetterTask, NumberTask
from posym_core.tasks.multihop_programs import index, is_valid, retrieval

SHOWN_IN = "book/several_hops/hop_heads.ipynb"
# Figure 5A: second and 42nd angle of a head of 128 dimensions, base 10000, and the longest context.
INDEX_ANGLE, RETRIEVAL_ANGLE = (float(angle) for angle in rope_angles(128)[[1, 41]])
SYMBOLS, LONGEST = 8, 100
ABOVE = 1.001
# Rounding of a difference of two cosines.
ROUNDING = 1e-12


def share_right(head: HopHead, length: int) -> tuple[float, int]:
    """Share of valid last tokens of all sequences that a head gets right, and their number."""
    tokens = every_sequence(head.task, length)
    tokens = tokens[is_valid(tokens, head.task)[:, -1]]
    expected = index(tokens, head.task) if isinstance(head.task, NumberTask) else retrieval(tokens, head.task)
    right = hop_is_right(head, tokens, expected)[:, -1]
    return float(right.double().mean()), len(tokens)


def constructed(length: int = 4) -> list[HopHead]:
    """Heads that should work, on tasks small enough to list every sequence of ``length`` tokens."""
    number, letter = NumberTask(letters=2, window=2, steps=2, hops=2), LetterTask(alphabet=3, integers=1, hops=2)
    heads: list[HopHead] = [
        IndexHead(number, angle=angle, beta=ABOVE * index_smallest_beta(length, angle))
        for angle in (INDEX_ANGLE, 2.5, 0.1)
    ]
    for part in (0.1, 0.9):
        angle = part * 2 * math.pi / letter.alphabet / (2 * length)
        least = max(
            retrieval_smallest_beta(length, letter.alphabet, angle),
            reflexive_smallest_beta(length, angle),
        )
        heads.append(RetrievalHead(letter, angle=angle, beta=ABOVE * least))
    return heads


def exceeded(*, least: bool) -> dict[str, Float[Tensor, " n"]]:
    """By how much the least or the greatest discrepancy exceeds each bound, for 2, 3, ... tokens before the query."""
    rows: dict[str, list[float]] = {"1 - cos(theta)": [], "2 pi^2 / n^2": [], "1 - cos(omega - n theta)": []}
    for n in range(2, LONGEST + 1):
        by_index = index_discrepancy(n, INDEX_ANGLE)
        by_retrieval = retrieval_discrepancy(n, RETRIEVAL_ANGLE, SYMBOLS)
        bounds = (*by_index.bounds, *by_retrieval.bounds)
        for row, bound, found in zip(rows.values(), bounds, (by_index, by_index, by_retrieval), strict=True):
            row.append((found.least if least else found.greatest) - bound)
    return {name: torch.tensor(row) for name, row in rows.items()}


def judged(*, heads: bool, stated: bool, worst: bool) -> Verdict:
    """The verdict, from what holds."""
    if heads and stated:
        return "reproduced"
    return "reproduced in kind" if heads and worst else "not reproduced"


def heads_hop_within_bounds(folder: Path | None) -> Finding:
    """U26-4: constructions on every input, and the bounds against the exact least and greatest discrepancy."""
    measured = [(head, *share_right(head, 4)) for head in constructed()]
    ours: dict[str, float | int | str] = {}
    for kind in (IndexHead, RetrievalHead):
        found = [(share, count) for head, share, count in measured if isinstance(head, kind)]
        ours[f"{kind.__name__}: least share right, at {len(found)} angles"] = min(share for share, _ in found)
        ours[f"{kind.__name__}: inputs, all there are"] = found[0][1]
    greatest, least = (exceeded(least=worst) for worst in (False, True))
    for name in greatest:
        for which, gaps in (("best", greatest[name]), ("worst", least[name])):
            ours[f"lengths out of {len(gaps)} whose {which} input exceeds {name}"] = int((gaps > ROUNDING).sum())
    ours["Retrieval's exact angle limit over omega / 2n, n = 8"] = (
        retrieval_angle_limit(9, SYMBOLS) * 16 / (2 * math.pi / SYMBOLS)
    )
    broken = [name for name, gaps in greatest.items() if bool((gaps > ROUNDING).any())]
    works = all(share == 1 for _, share, _ in measured)
    worst = all(bool((gaps <= ROUNDING).all()) for gaps in least.values())
    if not broken:
        bounds = "all bounds hold on every input"
    elif worst:
        bounds = (
            f"as a maximum over inputs, which is how the paper defines the discrepancy, {len(broken)} of its "
            f"{len(greatest)} bounds fail ({', '.join(broken)}); all hold for the minimum, the input that decides"
        )
    else:
        bounds = f"bounds fail even on the worst input ({', '.join(broken)})"
    return Finding(
        ours=ours,
        model="constructed heads of one plane",
        evidence=[SHOWN_IN],
        verdict=judged(heads=works, stated=not broken, worst=worst),
        note=f"the constructions are {'right on every input' if works else 'wrong on some inputs'}; {bounds}. "
        "Smallest temperatures, exact angle limits and exact discrepancies are this project's own.",
    )

"""Rows of the ledger and how they are filled.

A claim is a statement of a paper with the number the paper gives. A judge reads stored results and returns what was
found; where results are missing the row says so. No verdict is written down anywhere: it follows from the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from posym_core.metrics.stats import Estimate

Verdict = Literal["reproduced", "reproduced in kind", "not reproduced", "not run here"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "reproduced in kind", "not reproduced", "not run here")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was measured for a claim.

    Attributes:
        ours: name -> number, text or :class:`posym_core.metrics.stats.Estimate`.
        model: what it was measured on.
        evidence: names of the results, and the chapter that shows them.
        verdict: ``"reproduced in kind"`` is the same effect on another model or scale; ``"not run here"`` is also
            what cannot be told with what was run, which the note then says.
        note: what the verdict rests on, or what deviates; one sentence.
    """

    ours: Mapping[str, float | int | str | Estimate]
    model: str
    evidence: Sequence[str]
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of a paper.

    Attributes:
        id: paper and number, for example ``"U25-2"``.
        claim: the statement, in one sentence.
        paper: the paper's own figure.
        judge: file and function below ``posym_companion.findings``, from the folder of results to a
            :class:`Finding`.
    """

    id: str
    claim: str
    paper: str
    judge: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A claim with its finding, ready to print."""

    id: str
    claim: str
    paper: str
    ours: Mapping[str, Any]
    model: str
    evidence: Sequence[str] = field(default_factory=list)
    verdict: Verdict
    note: str = ""

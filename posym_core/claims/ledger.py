"""Rows of the ledger and how they are filled.

A claim is a statement of a paper with the number the paper gives. A judge reads stored results and returns what was
found; where results are missing the row says so. No verdict is written down anywhere: it follows from the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from posym_core.results import ResultError
from posym_core.stats import Estimate

Verdict = Literal["reproduced", "reproduced in kind", "not reproduced", "not run here"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "reproduced in kind", "not reproduced", "not run here")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was measured for a claim.

    Attributes:
        ours: name -> number, text or :class:`posym_core.stats.Estimate`.
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
        judge: from the folder of results to a :class:`Finding`; None where nothing has been run.
    """

    id: str
    claim: str
    paper: str
    judge: Callable[[Path | None], Finding] | None = None


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


def ledger(folder: Path | str | None = None) -> list[Row]:
    """Every claim with what the results in ``folder`` (default: this checkout's) say about it.

    Raises:
        ResultError: if a result is there but altered or truncated. A missing one makes its claims "not run here".
    """
    from posym_core.claims.registry import CLAIMS

    return [_row(claim, None if folder is None else Path(folder)) for claim in CLAIMS]


def _row(claim: Claim, folder: Path | None) -> Row:
    finding = Finding(ours={}, model="", evidence=[], verdict="not run here", note="no experiment has been run")
    if claim.judge is not None:
        try:
            finding = claim.judge(folder)
        except ResultError as error:
            if "is not there" not in str(error) and "no folder" not in str(error):
                raise
            finding = Finding(ours={}, model="", evidence=[], verdict="not run here", note=str(error))
    return Row(
        id=claim.id,
        claim=claim.claim,
        paper=claim.paper,
        ours={name: _plain(value) for name, value in finding.ours.items()},
        model=finding.model,
        evidence=list(finding.evidence),
        verdict=finding.verdict,
        note=finding.note,
    )


def _plain(value: float | int | str | Estimate) -> Any:
    """What JSON can hold: intervals become lists."""
    if isinstance(value, Estimate):
        return {"value": _rounded(value.value), "interval": [_rounded(value.low), _rounded(value.high)]}
    return _rounded(value) if isinstance(value, float) else value


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")

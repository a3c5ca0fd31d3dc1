"""What a row of the ledger is: a claim, what was measured for it, and the rule that makes a verdict of it.

A claim's ``measure`` reads stored results, or computes what needs none; its :class:`Rule` is a pure function of a few
of the numbers. No verdict is written down anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from posym_core.metrics.stats import Estimate

Verdict = Literal[
    "reproduced",
    "reproduced in kind",
    "partly",
    "not reproduced",
    "refuted as stated",
    "improved on",
    "not run here",
]
VERDICTS: Mapping[Verdict, str] = {
    "reproduced": "the claim as stated, on the paper's own kind of model, meets the rule",
    "reproduced in kind": "the claim as stated meets the same rule on another model or at another scale",
    "partly": "some of the claim's parts or cases meet the rule and others do not; the row says which",
    "not reproduced": "run, and every part of the rule is missed",
    "refuted as stated": "a counter-example or a proof against the statement as the paper words it; the row gives it "
    "and the nearest true statement",
    "improved on": "a cost that is not needed; such a row is no claim about a model and is counted apart",
    "not run here": "no run, or a model that cannot tell; the row gives the command that fills it",
}


@dataclass(frozen=True)
class Cases:
    """How many of some cases (settings, heads, inputs) are as claimed."""

    held: int
    of: int

    def __str__(self) -> str:
        return f"{self.held} of {self.of}"


def cases(held: Iterable[Any]) -> Cases:
    """How many hold, of those that are there."""
    each = [bool(x) for x in held]
    return Cases(sum(each), len(each))


Number = float | int | str | Estimate | Cases


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a rule asks of one number: that its whole interval lies beyond a line, or that all of its cases hold.

    Attributes:
        part: the part of the claim that stands or falls with it, in words.
        of: name of the number.
        above: the line that it must lie above.
        below: the line that it must lie below. Without either the number is :class:`Cases`.
        refutes: whether a miss is a counter-example to the claim as it is worded.
    """

    part: str
    of: str
    above: float | None = None
    below: float | None = None
    refutes: bool = False

    @property
    def counts(self) -> bool:
        """Whether cases are counted."""
        return self.above is None and self.below is None

    def kept(self, numbers: Mapping[str, Any]) -> float:
        """1 if the number is as asked, 0 if not, the share of its cases if they are counted.

        A number that is undefined (a text that says why, NaN) is not as asked.
        """
        value = numbers[self.of]
        if isinstance(value, Cases):
            return value.held / value.of
        if isinstance(value, str):
            return 0.0
        low, high = (value.low, value.high) if isinstance(value, Estimate) else (value, value)
        return float((self.above is None or low > self.above) and (self.below is None or high < self.below))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """From numbers to a verdict.

    Attributes:
        says: the rule, in a sentence that a reader can check.
        lines: what is asked. All kept is ``whole``, all missed is ``missed``, anything between is *partly*; a missed
            line that refutes is *refuted as stated*.
        whole: *reproduced* on the paper's own kind of model, *reproduced in kind* on another.
        missed: *not reproduced*, unless the claim is about a cost.
        able: what must hold for the model to be able to tell; else *not run here*.
        strict: whether a single miss is ``missed``: the first edition's rules knew no *partly*.
    """

    says: str
    lines: tuple[Line, ...]
    whole: Verdict = "reproduced"
    missed: Verdict = "not reproduced"
    able: tuple[Line, ...] = ()
    strict: bool = False

    def verdict(self, numbers: Mapping[str, Any]) -> Verdict:
        """What the numbers come to; a pure function of those that the lines name."""
        if any(line.kept(numbers) < 1 for line in self.able):
            return "not run here"
        if any(line.refutes and line.kept(numbers) < 1 for line in self.lines):
            return "refuted as stated"
        kept = [line.kept(numbers) for line in self.lines]
        return self.whole if min(kept) == 1 else "partly" if max(kept) > 0 and not self.strict else self.missed

    def parts(self, numbers: Mapping[str, Any]) -> dict[str, str]:
        """Each part of the claim with ``yes``, ``no``, or the number of its cases that hold."""
        return {
            line.part: str(numbers[line.of]) if line.counts else "yes" if line.kept(numbers) == 1 else "no"
            for line in (*self.able, *self.lines)
        }

    @property
    def names(self) -> list[str]:
        """The numbers that it looks at."""
        return list(dict.fromkeys(line.of for line in (*self.able, *self.lines)))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured for a claim.

    Attributes:
        ours: name -> number; those that the rule looks at among them.
        model: what it was measured on.
        evidence: names of results, and the chapters that show them.
        fails_in: cases in which the rule's own criterion fails, in words with their numbers.
        note: what a reader of the verdict should also know; a sentence or two.
    """

    ours: Mapping[str, Number]
    model: str
    evidence: Sequence[str]
    fails_in: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of a paper and how it is judged.

    Attributes:
        id: paper and number, for example ``"U25-2"``.
        short: the claim in ten words.
        claim: the statement, in a sentence or two.
        paper: the paper's own figure.
        rule: how numbers become a verdict.
        measure: from the folder of results to what was measured; None where nothing can be measured yet.
        first_rule: the rule that was written before data were seen, if that is another one.
        rule_fixed: ``"before the run"`` or ``"after a first look"`` at the data.
        changes: what would change the verdict.
        command: what fills the row where a run is missing.
    """

    id: str
    short: str
    claim: str
    paper: str
    rule: Rule
    measure: Callable[[Path | None], Measured] | None
    rule_fixed: Literal["before the run", "after a first look"] = "before the run"
    first_rule: Rule | None = None
    changes: str
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A claim with what was found, ready to print; see :class:`Claim` and :class:`Measured`.

    Attributes:
        numbers: the few that the rule looks at.
        parts: each part of the claim with ``yes``, ``no`` or a count of cases.
        first_rule_verdict: what the first rule gives; empty if there is no other.
        ours: all numbers.
    """

    id: str
    short: str
    claim: str
    paper: str
    verdict: Verdict
    rule: str
    rule_fixed: str
    first_rule: str = ""
    first_rule_verdict: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    changes: str = ""
    fails_in: Sequence[str] = field(default_factory=list)
    ours: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    evidence: Sequence[str] = field(default_factory=list)
    command: str = ""
    note: str = ""

    @property
    def summary(self) -> str:
        """Which parts hold, what the first rule gives where it is another, and the note."""
        parts = "; ".join(f"{part}: {held}" for part, held in self.parts.items())
        first = f"The first rule gives *{self.first_rule_verdict}*." if self.first_rule else ""
        return " ".join(text for text in (parts and f"{parts}.", first, self.note) if text)

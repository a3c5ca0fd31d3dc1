"""Claims of the papers as functions: each asks stored results whether a sentence holds, and yields its parts.

``claims/<chapter>.py`` holds a chapter's claims, each with its thresholds beside the numbers that they judge; what
they came to stands in ``claims/ledger.lock.json``, see :mod:`posym_companion.claims.rows`. A grade is a count of parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from posym_companion.results import Result

U25 = "Decoupling Positional and Symbolic Attention Behavior in Transformers"
U26 = "Positional versus Symbolic Attention Heads"
G26 = "Deconstructing Positional Information"
OWN = "This book"

GRADES: Mapping[str, str] = {
    "proved": "a proof, in which nobody who looked found a counter-example",
    "holds": "direction and size are as claimed, beyond the control",
    "weaker": "the direction is as claimed, beyond the control; size or scope is not",
    "not attributable": "it holds, and random weights, geometry or depth give it, too",
    "depends on the model": "families of models, seeds or kinds of prompt disagree",
    "absent or opposite": "run, could have been seen, and was not",
    "refuted as worded": "a counter-example to the sentence as the paper words it",
    "undecided": "what was run cannot tell, or it was not run",
}
NAMES = {"gemma-3-270m": "Gemma 3 270M", "smollm2-135m": "SmolLM2 135M", "gemma-3-270m-binds": "Gemma, taught to bind"}
POSITIVE = ("proved", "holds", "weaker", "not attributable")


@dataclass(frozen=True)
class Outcome:
    """An answer to a test: yes, no or None where it cannot be told; why, in words; and its number with the ends."""

    held: bool | None
    text: str = ""
    number: tuple[float, ...] = ()


def untold(why: str) -> Outcome:
    """Return that it cannot be told, and why."""
    return Outcome(None, why)


def above(value: Any, edge: float) -> Outcome:
    """Return whether a number, or the whole interval of an estimate, lies above an edge."""
    return _compare(value, edge, ">")


def below(value: Any, edge: float) -> Outcome:
    """Return whether a number, or the whole interval of an estimate, lies below an edge."""
    return _compare(value, edge, "<")


def _compare(value: Any, edge: float, sign: Literal["<", ">"]) -> Outcome:
    ends = (float(value.low), float(value.high)) if hasattr(value, "low") else ()
    number = float(value.value if ends else value)
    held = all(x > edge if sign == ">" else x < edge for x in ends or (number,))
    within = f" [{ends[0]:.3g}, {ends[1]:.3g}]" if ends else ""
    return Outcome(held, f"{number:.3g}{within}, {sign} {edge:.3g} asked", (number, *ends))


def part(name: str, case: str = "", *, asks: Literal["direction", "size", "control"] = "direction") -> tuple[str, ...]:
    """Return a part in one of its cases; it asks what is said, how much of it, or whether something else gives it."""
    return name, case, asks


@dataclass(kw_only=True)
class Asked:
    """One part of a claim: in how many of the cases that can be told it holds, where not and why, and the numbers."""

    name: str
    asks: str
    held: int = 0
    told: int = 0
    missed: dict[str, str] = field(default_factory=dict)
    untold: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    def add(self, case: str, outcome: Outcome | bool) -> None:
        """Count a case, and keep its number to six digits."""
        outcome = outcome if isinstance(outcome, Outcome) else Outcome(outcome)
        short = [float(f"{x:.6g}") + 0.0 for x in outcome.number if math.isfinite(x)]
        if short and len(short) == len(outcome.number):
            self.numbers[case] = short if len(short) > 1 else short[0]
        if outcome.held is None:
            self.untold[case] = outcome.text
            return
        self.told, self.held = self.told + 1, self.held + bool(outcome.held)
        if not outcome.held:
            self.missed[case] = outcome.text


@dataclass(kw_only=True)
class Answer:
    """The answer of one model: its grade, the number that decides in words, or why nothing was told, and its parts."""

    grade: str = "undecided"
    headline: str = ""
    why: str = ""
    parts: list[Asked] = field(default_factory=list)
    evidence: dict[str, str] = field(default_factory=dict)


class UndecidedError(Exception):
    """Raised where a presupposition of a claim is not met."""


@dataclass
class Look:
    """Access of a claim to stored results, and what is said of a model by them."""

    folder: Path | None = None
    model: str = ""
    answer: Answer = field(default_factory=Answer)

    def load(self, setting: Any) -> Result:
        """Return a stored result by its setting or name, and keep it as evidence."""
        from posym_companion.results import load_result

        result = load_result(setting if isinstance(setting, str) else setting.name, folder=self.folder)
        self.answer.evidence[result.name] = result.provenance["checksum"][:12]
        return result

    def require(self, what: str, met: Outcome | bool) -> None:
        """Leave the claim undecided where something that it presupposes is not met."""
        met = met if isinstance(met, Outcome) else Outcome(met)
        if not met.held:
            raise UndecidedError(f"not met: {what}" + (f" ({met.text})" if met.text else ""))

    def headline(self, what: str, value: str, *, paper: str = "", control: str = "") -> None:
        """Say the number that decides, beside the paper's and that of a control."""
        beside = "; ".join(filter(None, (f"paper {paper}" if paper else "", control)))
        text = f"{what} {value}" + (f" ({beside})" if beside else "")
        text = re.sub(r"(?<![\w.)])-(?=[\d.])", "−", text)
        self.answer.headline = re.sub(r"(?<![\d.])0\.(?=\d)", ".", text)


@dataclass(kw_only=True)
class Row:
    """The sentence of a claim with its place, where a theorem is proved, what is asked, and what each model says."""

    id: str
    short: str
    paper: str
    at: str
    quote: str
    chapter: str
    fixed: Literal["before the run", "after a look"]
    history: str = ""
    proof: str = ""
    grade: str = "undecided"
    asks: str = ""
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, str]:
        """Return where it stands: by paper, later ones and the book's own last, then by the numbers of its id."""
        paper = {U25: 0, U26: 1, G26: 2, OWN: 4}.get(self.paper, 3)
        return paper, re.sub(r"\d+", lambda number: number[0].zfill(3), self.id)

    @property
    def headline(self) -> str:
        """Return the decisive number, or why there is none, and what others say if it depends on the model."""
        (name, first), *others = self.answers.items()
        said = ("" if name in NAMES or not others else f"{name}: ") + (first.headline or first.why)
        beside = others if self.grade == "depends on the model" else []
        return said + "".join(f"; {one.grade} in {NAMES.get(model, model)}" for model, one in beside)


@dataclass(kw_only=True)
class Claim(Row):
    """A row with the function that asks each of some models, the nearest to the paper's first.

    ``others`` finds models that a folder has results of; they are asked before these. A claim depends on the model
    where models disagree and it is about all of them, or where cases of a direction disagree of which all must agree.
    """

    ask: Callable[[Look], Iterator[Any]]
    models: tuple[str, ...] = ("",)
    others: Callable[[Path], Iterable[str]] = lambda folder: ()
    all_models: bool = False
    all_agree: bool = False


CLAIMS: dict[str, Claim] = {}


def claim(id: str, short: str, **options: Any) -> Callable[[Callable], Callable]:
    """Return a decorator that makes a claim of a generator with a :class:`Look`, whose docstring is what is asked."""

    def register(ask: Callable) -> Callable:
        if id in CLAIMS and CLAIMS[id].ask.__module__ != ask.__module__:
            raise ValueError(f"{id} is claimed twice, in {CLAIMS[id].ask.__module__} and in {ask.__module__}")
        CLAIMS[id] = Claim(id=id, short=short, ask=ask, **options)
        return ask

    return register


def grade(parts: Sequence[Asked], *, theorem: bool = False, all_agree: bool = False) -> str:
    """Return the grade of what one model says.

    A part is met if it holds in more than half of its cases that can be told. One counter-example refutes a theorem.
    Otherwise: without an answer the claim is *undecided*; where cases of a direction differ that must agree it
    *depends on the model*; where no direction is met it is *absent or opposite*; where all are, but a control is not,
    it is *not attributable*. It *holds* if every part can be told and holds in every such case, and else is *weaker*.
    """
    if theorem:
        return "refuted as worded" if any(one.missed for one in parts) else "proved"
    directions = [one.held / one.told for one in parts if one.told and one.asks == "direction"]
    controls = [one.held / one.told for one in parts if one.told and one.asks == "control"]
    if not directions:
        return "undecided"
    if all_agree and any(0 < share < 1 for share in directions):
        return "depends on the model"
    if max(directions) <= 0.5:
        return "absent or opposite"
    if min(directions) > 0.5 and min(controls, default=1) <= 0.5:
        return "not attributable"
    return "holds" if all(one.held == one.told > 0 for one in parts) else "weaker"

"""Claims of the papers as functions: each asks stored results whether a sentence holds, and yields its parts.

``claims/<chapter>.py`` holds a chapter's claims, each with its thresholds beside the numbers that they judge; what
they came to stands in ``claims/ledger.lock.json``, see :mod:`posym_companion.claims.rows`. A grade is a count of parts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    "holds": "direction and size are as the paper says, beyond the control",
    "weaker": "the direction is the paper's, beyond the control; its size or scope is not",
    "not attributable": "it holds, and random weights, geometry or depth give it, too",
    "depends on the model": "families of models, seeds or kinds of prompt disagree",
    "absent or opposite": "run, could have been seen, and was not",
    "refuted as worded": "a counter-example to the sentence as the paper words it",
    "undecided": "what was run cannot tell, or it was not run",
}
POSITIVE = ("proved", "holds", "weaker", "not attributable")


@dataclass(frozen=True)
class Outcome:
    """An answer: whether a test holds, None where that cannot be told; in words, and with the number that was asked."""

    held: bool | None
    text: str = ""
    number: float | tuple[float, float, float] | None = None


def told(held: Any, text: str = "") -> Outcome:
    """Return an outcome that is known, with what is to be said where it fails."""
    return Outcome(bool(held), text)


def untold(why: str) -> Outcome:
    """Return that it cannot be told, and why."""
    return Outcome(None, why)


def above(value: Any, edge: float) -> Outcome:
    """Return whether a number, or the whole interval of an estimate, lies above an edge."""
    return _compare(value, operator.gt, f"> {edge:.3g}", edge)


def below(value: Any, edge: float) -> Outcome:
    """Return whether a number, or the whole interval of an estimate, lies below an edge."""
    return _compare(value, operator.lt, f"< {edge:.3g}", edge)


def _compare(value: Any, compare: Callable[[float, float], bool], asked: str, edge: float) -> Outcome:
    if not hasattr(value, "low"):
        return Outcome(bool(compare(float(value), edge)), f"{value:.3g}, {asked} asked", float(value))
    held = bool(compare(value.low, edge) and compare(value.high, edge))
    text = f"{value.value:.3g} [{value.low:.3g}, {value.high:.3g}], {asked} asked"
    return Outcome(held, text, (float(value.value), float(value.low), float(value.high)))


@dataclass(frozen=True)
class Part:
    """A part of a claim in one of its cases.

    Attributes:
        asks: what the sentence says (direction), how much of it (size), or whether something else gives it (control).
        all_agree: whether cases that disagree make the claim depend on the model, in place of a vote.
    """

    name: str
    case: str = ""
    asks: Literal["direction", "size", "control"] = "direction"
    all_agree: bool = False


part = Part  # reads as a verb where a claim yields one


class UndecidedError(Exception):
    """Raised where a presupposition of a claim is not met."""


@dataclass
class Look:
    """Access of a claim to stored results; keeps which were read, and the number that decides."""

    folder: Path | None = None
    model: str = ""
    evidence: dict[str, str] = field(default_factory=dict)
    said: str = ""

    def load(self, setting: Any) -> Result:
        """Return a stored result by its setting or name, and keep it as evidence."""
        from posym_companion.results import load_result

        result = load_result(setting if isinstance(setting, str) else setting.name, folder=self.folder)
        self.record(result)
        return result

    def record(self, *results: Result) -> None:
        """Keep results as evidence that were loaded otherwise."""
        self.evidence |= {one.name: one.provenance["checksum"][:12] for one in results}

    def require(self, what: str, met: Outcome | bool) -> None:
        """Leave the claim undecided where something that it presupposes is not met."""
        met = met if isinstance(met, Outcome) else told(met)
        if not met.held:
            raise UndecidedError(f"not met: {what}" + (f" ({met.text})" if met.text else ""))

    def headline(self, what: str, value: str, *, paper: str = "", control: str = "") -> None:
        """Say the number that decides, beside the paper's and that of a control."""
        beside = "; ".join(filter(None, (f"paper {paper}" if paper else "", control)))
        text = f"{what} {value}" + (f" ({beside})" if beside else "")
        text = re.sub(r"(?<![\w.)])-(?=[\d.])", "−", text)
        self.said = re.sub(r"(?<![\d.])0\.(?=\d)", ".", text)


@dataclass(kw_only=True)
class Sentence:
    """The sentence of a claim, with its source and place; ``proof`` is where a theorem is proved."""

    id: str
    short: str
    paper: str
    at: str
    quote: str
    chapter: str
    fixed: Literal["before the run", "after a look"]
    history: str = ""
    proof: str = ""


@dataclass(kw_only=True)
class Claim(Sentence):
    """A sentence with the function that asks whether it holds.

    Attributes:
        models: that are asked one by one, the nearest to the paper's first; or what was measured, in words.
        all_models: whether the sentence is about all models, so that it depends on the model where these disagree.
        others: finds models that a folder has results of beside these; they are asked first.
    """

    ask: Callable[[Look], Iterator[tuple[Part, Any]]]
    models: tuple[str, ...] = ("",)
    all_models: bool = False
    others: Callable[[Path], Iterable[str]] = lambda folder: ()


CLAIMS: dict[str, Claim] = {}


def claim(id: str, short: str, **options: Any) -> Callable[[Callable], Callable]:
    """Return a decorator that makes a claim of a generator with a :class:`Look`, whose docstring is what is asked."""

    def register(ask: Callable[[Look], Iterator[tuple[Part, Any]]]) -> Callable:
        if CLAIMS.get(id, ask) is not ask and CLAIMS[id].ask.__module__ != ask.__module__:
            raise ValueError(f"{id} is claimed twice, in {CLAIMS[id].ask.__module__} and in {ask.__module__}")
        CLAIMS[id] = Claim(id=id, short=short, ask=ask, **options)
        return ask

    return register


def grade(asked: Iterable[tuple[Part, Outcome]], *, theorem: bool = False) -> str:
    """Return the grade of one model's answers.

    A part is met if it holds in more than half of its cases that can be told. One counter-example refutes a theorem.
    Otherwise: without an answer the claim is *undecided*; where cases differ that must agree it *depends on the
    model*; where no direction is met it is *absent or opposite*; where all are, but a control is not, it is *not
    attributable*. It *holds* if every part can be told and holds in every such case, and else is *weaker*.
    """
    cases: dict[Part, list[bool]] = {}
    for one, outcome in asked:
        held = cases.setdefault(Part(one.name, "", one.asks, one.all_agree), [])
        held += [] if outcome.held is None else [outcome.held]
    if theorem:
        return "proved" if all(map(all, cases.values())) else "refuted as worded"
    shares = {one: sum(held) / len(held) for one, held in cases.items() if held}
    directions = [share > 0.5 for one, share in shares.items() if one.asks == "direction"]
    if not directions:
        return "undecided"
    if any(one.all_agree and 0 < share < 1 for one, share in shares.items()):
        return "depends on the model"
    if not any(directions):
        return "absent or opposite"
    if all(directions) and any(share <= 0.5 for one, share in shares.items() if one.asks == "control"):
        return "not attributable"
    return "holds" if len(shares) == len(cases) and min(shares.values()) == 1 else "weaker"


def combine(grades: Iterable[str], *, all_models: bool) -> str:
    """Return the grade of a claim: of the first model, unless all must agree and some that can tell do not."""
    first, *others = grades
    decided = [one for one in (first, *others) if one != "undecided"]
    return "depends on the model" if all_models and len({one in POSITIVE for one in decided}) > 1 else first

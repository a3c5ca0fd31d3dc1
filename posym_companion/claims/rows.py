"""Rows of the ledger: claims with their grades and what decided these, judged again or as they are stored."""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from posym_companion.claims import (
    CLAIMS,
    G26,
    OWN,
    U25,
    U26,
    Claim,
    Look,
    Outcome,
    Sentence,
    UndecidedError,
    combine,
    grade,
    told,
)

STORED = Path(__file__).with_name("ledger.lock.json")
PAPERS = (U25, U26, G26)  # then later papers, and last what is the book's own
DIGITS = 6
NAMES = {"gemma-3-270m": "Gemma 3 270M", "smollm2-135m": "SmolLM2 135M", "gemma-3-270m-binds": "Gemma, taught to bind"}


@dataclass(kw_only=True)
class Asked:
    """One part of a claim: in how many cases it holds, where it does not, and the numbers that tell.

    Attributes:
        held: cases in which it holds, of ``told`` that can be told.
        missed: the other cases that can be told, with why; ``untold`` those that cannot.
    """

    name: str
    asks: str
    held: int = 0
    told: int = 0
    missed: dict[str, str] = field(default_factory=dict)
    untold: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Answer:
    """What one model says: its grade, the number that decides in words, or why nothing was told, and its parts."""

    grade: str
    headline: str = ""
    why: str = ""
    parts: list[Asked] = field(default_factory=list)
    evidence: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Row(Sentence):
    """A sentence with what was asked, the grade, and what each model says."""

    grade: str
    asks: str
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """Return the decisive number, or why there is none, and what others say if it depends on the model."""
        (name, first), *others = self.answers.items()
        said = ("" if name in NAMES or not others else f"{name}: ") + (first.headline or first.why)
        beside = (
            f"; {one.grade} in {NAMES.get(model, model)}" for model, one in others if self.grade.startswith("depends")
        )
        return said + "".join(beside)


def sort_claims(claims: Mapping[str, Any]) -> list[str]:
    """Return ids of claims or rows by paper, later papers and the book's own last, then by their numbers."""

    def place(name: str) -> tuple:
        paper = claims[name].paper
        whose = PAPERS.index(paper) if paper in PAPERS else len(PAPERS) + (paper == OWN)
        return whose, [(int(x), "") if x.isdigit() else (-1, x) for x in re.findall(r"\d+|\D+", name)]

    return sorted(claims, key=place)


def load_claims() -> dict[str, Claim]:
    """Return all claims in order; imports the file of every chapter."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")
    return {name: CLAIMS[name] for name in sort_claims(CLAIMS)}


def ask(claim: Claim, look: Look) -> Answer:
    """Return what one model says of a claim; a missing result leaves it undecided."""
    from posym_companion.results import MissingResultError

    asked: list[tuple[Any, Outcome]] = []
    try:
        for one, outcome in claim.ask(look):
            asked.append((one, outcome if isinstance(outcome, Outcome) else told(outcome)))
    except UndecidedError as why:
        return Answer(grade="undecided", why=str(why), headline=look.said, evidence=look.evidence)
    except MissingResultError as why:
        return Answer(grade="undecided", why=f"not run: {why}", evidence=look.evidence)
    given = grade(asked, theorem=bool(claim.proof))
    parts: dict[str, Asked] = {}
    for one, outcome in asked:
        _count(parts.setdefault(one.name, Asked(name=one.name, asks=one.asks)), one.case, outcome)
    why = next((x.text for _, x in asked if x.held is None), "nothing was asked") if given == "undecided" else ""
    return Answer(grade=given, headline=look.said, why=why, parts=[*parts.values()], evidence=look.evidence)


def _count(found: Asked, case: str, outcome: Outcome) -> None:
    each: tuple[Any, ...] = outcome.number if isinstance(outcome.number, tuple) else (outcome.number,)
    if None not in each and all(map(math.isfinite, each)):
        short = [float(f"{x:.{DIGITS}g}") + 0.0 for x in each]
        found.numbers[case] = short if len(short) > 1 else short[0]
    if outcome.held is None:
        found.untold[case] = outcome.text
        return
    found.told, found.held = found.told + 1, found.held + outcome.held
    if not outcome.held:
        found.missed[case] = outcome.text


def judge(claim: Claim, folder: Path | str | None = None) -> Row:
    """Return a claim judged by the results in a folder, by default this checkout's."""
    place = None if folder is None else Path(folder)
    models = (*(claim.others(place) if place else ()), *claim.models)
    answers = {model: ask(claim, Look(place, model)) for model in models}
    given = combine((one.grade for one in answers.values()), all_models=claim.all_models)
    same = {x.name: getattr(claim, x.name) for x in fields(Sentence)}
    asks = " ".join((claim.ask.__doc__ or "").split())
    return Row(grade=given, asks=asks, answers=answers, **same)


def judge_all(*ids: str, folder: Path | str | None = None) -> list[Row]:
    """Return claims, all by default, judged by the results in a folder."""
    claims = load_claims()
    return [judge(claims[name], folder) for name in _known(ids, claims)]


def read_rows(*ids: str) -> list[Row]:
    """Return rows as they are stored, all by default; an unknown id raises KeyError."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return [make_row(stored[name]) for name in _known(ids, stored)]


def _known(ids: tuple[str, ...], known: Mapping[str, Any]) -> list[str]:
    if unknown := [name for name in ids if name not in known]:
        raise KeyError(f"no claim is called {unknown[0]}; claims are {', '.join(known)}")
    return [*(ids or known)]


def make_row(stored: Mapping[str, Any]) -> Row:
    """Return a row from what is stored of it."""
    answers = {
        model: Answer(**{**each, "parts": [Asked(**one) for one in each["parts"]]})
        for model, each in stored["answers"].items()
    }
    return Row(**{**stored, "answers": answers})


def write_rows(rows: list[Row], path: Path = STORED) -> None:
    """Write rows, a line for each part."""
    path.write_text(_write({row.id: asdict(row) for row in rows}) + "\n", encoding="utf-8")


def _write(value: Any, depth: int = 0) -> str:
    if depth > 4 or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    pad, (start, end) = " " * depth, "{}" if isinstance(value, dict) else "[]"
    names = [f"{json.dumps(name)}: " for name in value] if isinstance(value, dict) else [""] * len(value)
    each = value.values() if isinstance(value, dict) else value
    lines = [f"{pad} {name}{_write(x, depth + 1)}" for name, x in zip(names, each, strict=True)]
    return "\n".join([start, ",\n".join(lines), f"{pad}{end}"])

"""Rows of the ledger: claims with their grades and what decided these, judged again or as they are stored."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from posym_companion.claims import CLAIMS, POSITIVE, Answer, Asked, Claim, Look, Row, UndecidedError, grade

STORED = Path(__file__).with_name("ledger.lock.json")


def load_claims() -> dict[str, Claim]:
    """Return all claims in order; imports the file of every chapter."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")
    return {one.id: one for one in sorted(CLAIMS.values(), key=lambda one: one.place)}


def ask(claim: Claim, look: Look) -> Answer:
    """Return what one model says of a claim; a missing result leaves it undecided."""
    from posym_companion.results import MissingResultError

    answer, parts = look.answer, {}
    try:
        for (name, case, asks), outcome in claim.ask(look):
            parts.setdefault(name, Asked(name=name, asks=asks)).add(case, outcome)
    except UndecidedError as error:
        answer.why = str(error)
    except MissingResultError as error:
        answer.headline, answer.why = "", f"not run: {error}"
    except (LookupError, ValueError, RuntimeError) as error:
        if look.folder is None:
            raise
        # Results of another size may lack a length or a kind of prompt, or have arrays that do not fit each other.
        answer.headline, answer.why = "", f"cannot be asked of these results ({error})"
    else:
        answer.parts = [*parts.values()]
        answer.grade = grade(answer.parts, theorem=bool(claim.proof), all_agree=claim.all_agree)
        if answer.grade == "undecided":
            answer.why = next((why for one in answer.parts for why in one.untold.values()), "nothing was asked")
    return answer


def judge(claim: Claim, folder: Path | str | None = None) -> Row:
    """Return a claim judged by the results in a folder, by default this checkout's.

    The grade is the first model's, unless all must agree and some that can tell do not.
    """
    place = None if folder is None else Path(folder)
    models = (*(claim.others(place) if place else ()), *claim.models)
    row = Row(**{each.name: getattr(claim, each.name) for each in fields(Row)})
    row.asks = " ".join((claim.ask.__doc__ or "").split())
    row.answers = {model: ask(claim, Look(place, model)) for model in models}
    grades = [one.grade for one in row.answers.values()]
    split = claim.all_models and len({one in POSITIVE for one in grades if one != "undecided"}) > 1
    row.grade = "depends on the model" if split else grades[0]
    return row


def judge_all(*ids: str, folder: Path | str | None = None) -> list[Row]:
    """Return claims, all by default, judged by the results in a folder."""
    return [judge(one, folder) for one in _choose(load_claims(), ids)]


def read_rows(*ids: str) -> list[Row]:
    """Return rows as they are stored, all by default; an unknown id raises KeyError."""
    return [make_row(one) for one in _choose(json.loads(STORED.read_text(encoding="utf-8")), ids)]


def _choose(known: Mapping[str, Any], ids: tuple[str, ...]) -> list[Any]:
    if unknown := [name for name in ids if name not in known]:
        raise KeyError(f"no claim is called {unknown[0]}; claims are {', '.join(known)}")
    return [known[name] for name in ids or known]


def make_row(stored: Mapping[str, Any]) -> Row:
    """Return a row from what is stored of it."""
    answers = {}
    for model, each in stored["answers"].items():
        answers[model] = Answer(**{**each, "parts": [Asked(**one) for one in each["parts"]]})
    return Row(**{**stored, "answers": answers})


def write_rows(rows: list[Row], path: Path = STORED) -> None:
    """Write rows as JSON, a line for each part: what lies deeper is on the line of that."""
    text = json.dumps({row.id: asdict(row) for row in rows}, indent=1, ensure_ascii=False, allow_nan=False)
    text = re.sub(r",\n {6,}", ", ", text)
    path.write_text(re.sub(r"\n {6,}|\n {5}(?=[]}])", "", text) + "\n", encoding="utf-8")

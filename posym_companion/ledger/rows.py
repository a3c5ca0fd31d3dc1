"""The ledger's rows: claims, each measured and decided."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any

from posym_companion.old_claims import list_claim_ids, load_claim
from posym_companion.results import MissingResultError
from posym_companion.verdicts import (
    UNDECIDED,
    Cases,
    Claim,
    Judgement,
    Measured,
    Number,
    Remedy,
    Row,
    Rule,
    combine_columns,
    combine_families,
)
from posym_core.metrics import Estimate

SAME = ("id", "short", "claim", "paper", "kind", "rule_fixed", "history", "changes", "models")


def ledger(*ids: str, folder: Path | str | None = None) -> list[Row]:
    """Return claims with what the results in ``folder`` (default: this checkout's) say about them.

    Without ids all claims; an id may be one of a claim's columns. Only the judges of these are imported and asked. A
    missing result makes its claims *not run here*; one that is altered or truncated raises ResultError.
    """
    measured = cache(partial(_measured, None if folder is None else Path(folder)))  # some claims share a measurement
    return [_row(one, measured) for one in map(load_claim, ids or list_claim_ids())]


def make_row(judged: Claim, folder: Path | None = None) -> Row:
    """A claim measured and decided."""
    return _row(judged, partial(_measured, folder))


def _measured(folder: Path | None, measure: Callable[..., Measured], *remedy: Remedy, **model: str) -> Measured | str:
    """What was measured, or why nothing is."""
    try:
        return measure(folder, *remedy, **model)
    except MissingResultError as error:
        return str(error)


def _row(judged: Claim, measured: Callable[..., Measured | str]) -> Row:
    """A claim decided in every set of models that it is asked of."""
    row = _column(judged, measured)
    if not judged.columns:
        return row
    columns = [_column(one, measured) for one in judged.columns]
    verdict = combine_columns(one.verdict for one in (row, *columns))
    return replace(row, verdict=verdict, verdict_of_column=row.verdict, columns=columns)


def _column(judged: Claim, measured: Callable[..., Measured | str]) -> Row:
    """Return a claim decided, on its own prompts, on those of every remedy, and in every other family."""
    row = replace(decide(judged, measured(judged.measure)), remedied=_remedied(judged, measured))
    if judged.families is not None:
        families = []
        for model, fixed in judged.families.items():
            again = _remedied(judged, partial(measured, model=model))
            found = measured(judged.measure, model=model)
            families.append(judge_again(judged, found, rule_fixed=fixed, model=model, remedied=again))
        verdict = reduce(combine_families, (one.verdict for one in families), row.verdict)
        evidence = [*dict.fromkeys(name for one in (row, *families) for name in one.evidence)]
        row = replace(row, verdict=verdict, verdict_of_model=row.verdict, families=families, evidence=evidence)
    return replace(row, sentence=write_sentence(judged, row))


def _remedied(judged: Claim, measured: Callable[..., Measured | str]) -> list[Judgement]:
    return [
        judge_again(judged, measured(judged.measure, remedy), rule_fixed=fixed, remedy=remedy)
        for remedy, fixed in judged.remedies.items()
    ]


def judge_again(judged: Claim, found: Measured | str, **asked: Any) -> Judgement:
    """A claim's rule asked once more, of another model or on other prompts."""
    return Judgement(**judge(judged.rule, found), **asked)


def decide(judged: Claim, found: Measured | str) -> Row:
    """A claim decided by what was measured, or with the reason why nothing was."""
    told = judge(judged.rule, found)
    if isinstance(found, Measured):
        told |= {"model": found.model, "note": found.note, "fails_in": judged.rule.missed_by(found.ours)}
    undecided = told["verdict"] in UNDECIDED
    same = {name: getattr(judged, name) for name in SAME}
    return Row(**same, **told, rule=judged.rule.says, command=judged.command if undecided else "")


def judge(rule: Rule, found: Measured | str) -> dict[str, Any]:
    """What a rule makes of what was measured, or the reason why nothing was; fields of a :class:`Judgement`."""
    if isinstance(found, str):
        return {"verdict": "not run here", "note": found}
    read = rule.read(found.ours)
    return {
        "verdict": rule.verdict(found.ours),
        "found": rule.describe(found.ours),
        "numbers": {name: convert_to_json(value) for name, value in read.items()},
        "parts": rule.parts(found.ours),
        "answers": rule.answers(found.ours),
        "ours": {name: convert_to_json(value) for name, value in {**read, **found.ours}.items()},
        "cases": {
            name: {case: convert_to_json(x) for case, x in each.items()} for name, each in found.ours.cases.items()
        },
        "evidence": list(found.evidence),
    }


def write_sentence(judged: Claim, found: Row) -> str:
    """What a person would say of a row; where its verdict is none that was written about, what the rule says."""
    written = judged.sentences.get(found.verdict)
    return re.sub(r"\{([^{}|]+)(?:\|([^{}]+))?\}", partial(_read_number, found), written) if written else found.summary


def _read_number(found: Row, number: re.Match[str]) -> str:
    name, form = number.groups()
    if name not in found.ours:
        raise ValueError(f"{found.id}: its sentence has {{{name}}}; numbers of ours are {', '.join(found.ours)}")
    value = found.ours[name]
    if form is None:
        return str(value)
    return format(value["value"] if isinstance(value, Mapping) else value, form)


def convert_to_json(value: Number) -> Any:
    """What JSON can hold: intervals become lists, counts texts."""
    if isinstance(value, Estimate):
        return {"value": _rounded(value.value), "interval": [_rounded(value.low), _rounded(value.high)]}
    return _rounded(value) if isinstance(value, float) else str(value) if isinstance(value, Cases) else value


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")

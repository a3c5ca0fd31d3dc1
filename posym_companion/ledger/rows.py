"""The ledger's rows: claims, each measured and decided."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any

from posym_companion.claims import list_claim_ids, load_claim
from posym_companion.results import MissingResultError
from posym_companion.verdicts import (
    Cases,
    Claim,
    Fixed,
    Measured,
    Number,
    Numbers,
    OnOtherModel,
    OnOtherPrompts,
    Remedy,
    Row,
    Rule,
    combine_columns,
    combine_families,
)
from posym_core.metrics import Estimate


def ledger(*ids: str, folder: Path | str | None = None) -> list[Row]:
    """Return claims with what the results in ``folder`` (default: this checkout's) say about them.

    Args:
        ids: of the claims, for example ``"U25-6"``, or of a claim's columns; all claims without any. Only their judges
            are imported and asked.
        folder: of results.

    Raises:
        ValueError: if there is no such claim.
        ResultError: if a result is there but altered or truncated. A missing one makes its claims "not run here".
    """
    measured = cache(partial(_measured, None if folder is None else Path(folder)))  # some claims share a measurement
    return [_row(one, measured) for one in map(load_claim, ids or list_claim_ids())]


def make_row(judged: Claim, folder: Path | None = None) -> Row:
    """A claim measured and decided."""
    return _row(judged, partial(_measured, folder))


def _row(judged: Claim, measured: Callable[..., Measured | str]) -> Row:
    """A claim decided in every set of models that it is asked of."""
    row = _column(judged, measured)
    if not judged.columns:
        return row
    columns = [_column(one, measured) for one in judged.columns]
    verdict = combine_columns(one.verdict for one in (row, *columns))
    return replace(row, verdict=verdict, verdict_of_column=row.verdict, columns=columns)


def _column(judged: Claim, measured: Callable[..., Measured | str]) -> Row:
    """Return a claim decided, on its own prompts, on those of every remedy, and on every other model that is asked."""
    fixed: dict[str, Fixed] = {**(judged.families or {}), **dict.fromkeys(judged.others, judged.rule_fixed)}
    by_model = {model: measured(judged.measure, model=model) for model in fixed}
    row = replace(decide(judged, measured(judged.measure)), remedied=_remedied(judged, measured))
    if judged.families is None:
        return replace(row, sentence=write_sentence(judged, row))
    again = [
        OnOtherModel(
            model=model,
            called=other.model if model in judged.others and isinstance(other, Measured) else "",
            remedied=_remedied(judged, partial(measured, model=model)),
            **judge_again(judged, fixed[model], other),
        )
        for model, other in by_model.items()
    ]
    families, others = again[: len(judged.families)], again[len(judged.families) :]
    verdict = reduce(combine_families, (one.verdict for one in families), row.verdict)
    evidence = [*dict.fromkeys(name for one in (row, *again) for name in one.evidence)]
    row = replace(row, verdict=verdict, verdict_of_model=row.verdict, families=families, others=others)
    return replace(row, evidence=evidence, sentence=write_sentence(judged, row))


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


def _remedied(judged: Claim, measured: Callable[..., Measured | str]) -> list[OnOtherPrompts]:
    return [
        OnOtherPrompts(remedy=remedy, **judge_again(judged, fixed, measured(judged.measure, remedy)))
        for remedy, fixed in judged.remedies.items()
    ]


def _measured(folder: Path | None, measure: Callable[..., Measured], *remedy: Remedy, **model: str) -> Measured | str:
    """What was measured, or why nothing is."""
    try:
        return measure(folder, *remedy, **model)
    except MissingResultError as error:
        return str(error)


def decide(judged: Claim, found: Measured | str) -> Row:
    """A claim decided by what was measured, or with the reason why nothing was."""
    rule, first = judged.rule, judged.first_rule
    common: dict[str, Any] = {
        **{
            name: getattr(judged, name)
            for name in ("id", "short", "claim", "paper", "kind", "rule_fixed", "changes", "models")
        },
        "rule": rule.says,
        "first_rule": first.says if first else "",
        "first_rule_fixed": judged.first_rule_fixed,
        "changed_because": judged.changed_because,
    }
    if isinstance(found, str):
        return Row(**common, verdict="not run here", command=judged.command, note=found)
    judgement = _told(rule, found)
    return Row(
        **common,
        **judgement,
        first_rule_verdict=first.verdict(found.ours) if first else _unwritten(judged),
        fails_in=[*found.fails_in] or rule.missed_by(found.ours),
        model=found.model,
        command=judged.command if judgement["verdict"] == "not testable" else "",
        note=found.note,
    )


def judge_again(judged: Claim, fixed: Fixed, found: Measured | str) -> dict[str, Any]:
    """What a claim's rule makes of what was measured once more, or the reason why nothing was; fields of ``Again``."""
    if isinstance(found, str):
        return {"rule_fixed": fixed, "verdict": "not run here", "note": found}
    return {"rule_fixed": fixed, **_told(judged.rule, found)}


def _told(rule: Rule, found: Measured) -> dict[str, Any]:
    """What a rule makes of what was measured; fields of a row and of what is asked once more."""
    read, cases = rule.read(found.ours), found.ours.cases if isinstance(found.ours, Numbers) else {}
    return {
        "verdict": rule.verdict(found.ours),
        "found": rule.describe(found.ours),
        "numbers": {name: convert_to_json(value) for name, value in read.items()},
        "parts": rule.parts(found.ours),
        "answers": rule.answers(found.ours),
        "ours": {name: convert_to_json(value) for name, value in {**read, **found.ours}.items()},
        "cases": {
            name: dict(zip(each, map(convert_to_json, each.values()), strict=True)) for name, each in cases.items()
        },
        "evidence": list(found.evidence),
    }


def _unwritten(judged: Claim) -> str:
    return "none was written" if judged.rule_fixed == "after a first look" else ""


def convert_to_json(value: Number) -> Any:
    """What JSON can hold: intervals become lists, counts texts."""
    if isinstance(value, Estimate):
        return {"value": _rounded(value.value), "interval": [_rounded(value.low), _rounded(value.high)]}
    return _rounded(value) if isinstance(value, float) else str(value) if isinstance(value, Cases) else value


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")

"""The claims as ``claims.toml`` has them: what a paper says, the rule that judges it, and what measures it."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from posym_companion.finding import Claim, Line, Measured, Rule, cases
from posym_core.runs.results import MissingResultError

FILE = Path(__file__).with_name("claims.toml")
# The number that says on how many other models a claim's rule holds whole.
ELSEWHERE = "other models in which the rule holds whole"


@cache
def entries() -> Mapping[str, Mapping[str, Any]]:
    """What the file says, by the claims' ids, in its order."""
    return MappingProxyType(tomllib.loads(FILE.read_text(encoding="utf-8")))


def heads() -> list[str]:
    """The ids of claims, in the file's order, without those of columns: a claim asked of another set of models."""
    return [name for name, entry in entries().items() if "column_of" not in entry]


@cache
def claim(name: str) -> Claim:
    """A claim, or one column of it, by its id; imports the file that judges it.

    A column's entry says of which claim it is, and nothing of what is that claim's; without a rule it has that one's.

    Raises:
        ValueError: if there is none, or if its entry does not fit: a key that no :class:`Claim`, :class:`Rule` or
            :class:`Line` has, or one that is missing.
    """
    entry = dict(_entry(name))
    if "column_of" in entry:
        head = _entry(entry.pop("column_of"))
        shared = {key: x for key, x in head.items() if key in ("short", "claim", "paper", "changes", "command")}
        rules = {} if "rule" in entry else {key: x for key, x in head.items() if "rule" in key or "changed" in key}
        entry = {**rules, **entry, **{key: x for key, x in shared.items() if key not in entry}}
    else:
        entry["columns"] = tuple(claim(each) for each, x in entries().items() if x.get("column_of") == name)
    judge, asked_of = entry.pop("judge", None), entry.pop("asked_of", None)
    for key in {"rule", "first_rule"} & set(entry):
        entry[key] = _rule(name, entry[key])
    judged = _made(Claim, name, {"id": name, "measure": None, **entry})
    if judge is None:
        return judged
    measure = _function(name, judge)
    return replace(judged, measure=partial(_asked_of_all, asked_of, judged.rule, measure) if asked_of else measure)


def rule(name: str) -> Rule:
    """The rule that judges a claim, without the file that measures it; for what measures a claim to look at.

    Raises:
        ValueError: see :func:`claim`.
    """
    entry = _entry(name)
    return _rule(name, entry["rule"] if "rule" in entry else _entry(entry["column_of"])["rule"])


def _entry(name: str) -> Mapping[str, Any]:
    if name not in entries():
        raise ValueError(f"no claim is called {name}; claims are {', '.join(entries())}")
    return entries()[name]


def _rule(name: str, entry: Mapping[str, Any]) -> Rule:
    lines = {key: tuple(_line(name, line) for line in entry[key]) for key in ("lines", "able") if key in entry}
    return _made(Rule, name, {**entry, **lines})


def _line(name: str, entry: Mapping[str, Any]) -> Line:
    guard = {"testable": _line(name, entry["testable"])} if "testable" in entry else {}
    return _made(Line, name, {**entry, **guard})


def _made(kind: Any, name: str, values: Mapping[str, Any]) -> Any:
    if unknown := set(values) - {field.name for field in fields(kind)}:
        known = ", ".join(field.name for field in fields(kind))
        raise ValueError(
            f"{FILE.name}, {name}: no {kind.__name__} has {', '.join(sorted(unknown))}; its keys are {known}"
        )
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{FILE.name}, {name}: {error}") from None


def _function(name: str, judge: str) -> Callable[..., Measured]:
    """The function that ``room.judges.module:function`` names."""
    module, _, function = judge.partition(":")
    try:
        return getattr(importlib.import_module(f"posym_companion.{module}"), function)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ValueError(f"{FILE.name}, {name}: judge is {judge!r}, but {error}") from error


def _asked_of_all(
    models: Sequence[str],
    rule: Rule,
    judge: Callable[[Path | None, str], Measured],
    folder: Path | None,
    model: str | None = None,
) -> Measured:
    """What the first model says, and the rule's verdict and numbers on every other that was run; or what one says.

    Where the rule asks whether it holds elsewhere, all others are asked beside that one, too.
    """
    alone = replace(rule, lines=tuple(line for line in rule.lines if line.of != ELSEWHERE))
    if model is not None and alone == rule:
        return judge(folder, model)
    models = [model, *(each for each in models if each != model)] if model is not None else models
    rule = alone
    found = judge(folder, models[0])
    ours, evidence, said = dict(found.ours), list(found.evidence), []
    fails, whole = list(found.fails_in), []
    for model in models[1:]:
        try:
            other = judge(folder, model)
        except MissingResultError:
            continue
        verdict, held = rule.verdict(other.ours), rule.parts(other.ours)
        said.append(f"{other.model}: *{verdict}*")
        if verdict != "not testable":
            whole.append(verdict == rule.whole)
            missed = [part for part, answer in held.items() if answer == "no"]
            lacks = f"not {'; not '.join(missed)}" if missed else "in part"
            fails += [] if whole[-1] else [f"{other.model}: {lacks}"]
        ours |= {f"{other.model}: verdict": verdict}
        ours |= {f"{other.model}: parts": "; ".join(f"{part}: {answer}" for part, answer in held.items())}
        ours |= {f"{other.model}: {number}": other.ours[number] for number in rule.names}
        evidence = [*dict.fromkeys([*other.evidence[:-1], *evidence])]
    note = f"{found.note} The same rule elsewhere: {'; '.join(said)}." if said else found.note
    return replace(found, ours=ours | {ELSEWHERE: cases(whole)}, evidence=evidence, fails_in=fails, note=note)

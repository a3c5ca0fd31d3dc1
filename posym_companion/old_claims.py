"""The claims as ``claims.toml`` has them: what a paper says, the rule that judges it, and what measures it."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from posym_companion.catalogue import EXPERIMENTS
from posym_companion.verdicts import REMEDIES, Claim, Line, Measured, Rule

FILE = Path(__file__).with_name("claims.toml")
# A number's name, a threshold, or both, as lines have them: "accuracy > 0.9"; and one of the estimate without its
# interval, "accuracy > 0, mean > 0.1".
EDGE = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
NUMBER = re.compile(rf"([^<>]*?)(?:(?:^| )([<>]) ({EDGE})(?:, mean \2 ({EDGE}))?)?")
# What a column has of its claim; and without a rule of its own that one's.
SHARED = ("short", "claim", "paper", "changes", "command")
RULE = ("rule", "rule_fixed", "history", "unit")


@cache
def read_entries() -> Mapping[str, Mapping[str, Any]]:
    """What the file says, by the claims' ids, in its order."""
    return MappingProxyType(tomllib.loads(FILE.read_text(encoding="utf-8")))


def list_claim_ids() -> list[str]:
    """The ids of claims, in the file's order, without those of columns: a claim asked of other models, or parts."""
    return [name for name, entry in read_entries().items() if "column_of" not in entry]


@cache
def load_claim(name: str) -> Claim:
    """Return a claim, or one column of it, by its id; import the file that judges it.

    An entry that does not fit raises ValueError: a key that no :class:`Claim`, :class:`Rule` or :class:`Line` has, one
    that is missing, or a form that is not the file's.
    """
    entry = _entry(name)
    if "column_of" not in read_entries()[name]:
        entry["columns"] = tuple(load_claim(each) for each, x in read_entries().items() if x.get("column_of") == name)
    judge, unit, model = entry.pop("judge", ""), entry.pop("unit", "cases"), entry.pop("model", "")
    experiment = judge.partition(":")[0].rpartition(".")[2]
    entry.setdefault("command", f"posym run {experiment}" if experiment in EXPERIMENTS else "")
    if "rule" in entry:
        entry["rule"] = _rule(name, entry["rule"], unit)
    fixed = {remedy: when for when, each in entry.get("remedies", {}).items() for remedy in each}
    if unknown := set(fixed) - set(REMEDIES):
        _refuse(name, f"remedies stand in lists by when they were fixed, and are {', '.join(REMEDIES)}; not {unknown}")
    entry["remedies"] = {remedy: fixed[remedy] for remedy in REMEDIES if remedy in fixed}
    measure = _function(name, judge)
    entry["measure"] = partial(measure, model=model) if model else measure
    return _made(Claim, name, {"id": name, **entry})


def _entry(name: str) -> dict[str, Any]:
    """An entry with what it leaves out; a column's with what is its claim's."""
    if name not in read_entries():
        raise ValueError(f"no claim is called {name}; claims are {', '.join(read_entries())}")
    entry = dict(read_entries()[name])
    if "column_of" in entry:
        shared = SHARED if "rule" in entry else (*SHARED, *RULE)
        entry = {key: x for key, x in _entry(entry.pop("column_of")).items() if key in shared} | entry
    elif "short" in entry:
        entry = {"claim": entry["short"]} | entry
    return {"rule_fixed": "after a first look" if "history" in entry else "before the run"} | entry


def _spread(part: str, entry: Any) -> dict[str, Any]:
    """Return a line, or one for each row of words in its ``over``, which stand for ``{0}``, ``{1}`` and so on."""

    def fill(x: Any, words: list[str]) -> Any:
        if isinstance(x, dict):
            return {fill(key, words): fill(value, words) for key, value in x.items()}
        return [fill(one, words) for one in x] if isinstance(x, list) else x.format(*words) if isinstance(x, str) else x

    if not isinstance(entry, dict) or not isinstance(entry.get("over"), list):
        return {part: entry}
    line = {key: value for key, value in entry.items() if key != "over"}
    return {part.format(*words): fill(line, words) for words in entry["over"]}


def _rule(name: str, entry: Mapping[str, Any], unit: str) -> Rule:
    made: dict[str, tuple[Line, ...]] = {}
    for kind in {"lines", "able"} & set(entry):
        if not isinstance(entry[kind], dict):
            _refuse(name, 'a rule\'s lines stand by the part that each decides, lines."it is" = "accuracy > 0.9"')
        lines = {part: line for one, each in entry[kind].items() for part, line in _spread(one, each).items()}
        made[kind] = tuple(_line(name, part, x, unit) for part, x in lines.items())
    refutes = any(line.refutes for line in made.get("lines", ()))
    return _made(Rule, name, {"whole": "reproduced" if refutes else "reproduced in kind", **entry, **made})


def _line(name: str, part: str, entry: Any, unit: str) -> Line:
    """A line from its part and its number, with a threshold or without, or from a table that says more."""
    values: Any = {"of": entry} if isinstance(entry, str) else entry
    fits = isinstance(values, dict) and not {"part", "above", "below"} & set(values)
    if not fits or not (found := NUMBER.fullmatch(values.get("of", ""))) or {"of", "each"} <= set(values):
        _refuse(name, f'{part!r} asks a number, or one and a threshold as in "accuracy > 0.9", not {entry!r}')
    values = values | {key: _of_cases(name, part, values[key]) for key in ("each", "among") if key in values}
    of, mark, edge, mean = found.groups()
    asked: dict[str, Any] = {{">": "above", "<": "below"}[mark]: float(edge)} if mark else {}
    asked |= {"mean": float(mean)} if mean else {}
    if "testable" in values:
        guard, number = values["testable"]
        asked["testable"] = _line(name, guard, number, "cases")
    return _made(Line, name, {"part": part, "unit": unit, **values, "of": of or part, **asked})


def _of_cases(name: str, part: str, asked: Any) -> tuple[Line, ...]:
    """What is asked of each case: a quantity with a threshold, or a list of such."""
    return tuple(_line(name, part, one, "cases") for one in ([asked] if isinstance(asked, str) else asked))


def _refuse(name: str, why: str) -> NoReturn:
    raise ValueError(f"{FILE.name}, {name}: {why}")


def _made(kind: Any, name: str, values: Mapping[str, Any]) -> Any:
    if unknown := set(values) - {field.name for field in fields(kind)}:
        known = ", ".join(field.name for field in fields(kind))
        _refuse(name, f"no {kind.__name__} has {', '.join(sorted(unknown))}; its keys are {known}")
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

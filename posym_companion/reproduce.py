"""One command a paper: every result that its claims read, measured once, and what the claims come to on these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posym_companion.claims.rows import Row, read_rows
from posym_companion.experiments import SECOND, TAUGHT, load_experiment, stored_result
from posym_companion.results import MissingResultError, Result, result_path


def choose_rows(*asked: str) -> list[Row]:
    """Return the rows of papers or other groups, called as the ids of their claims begin, or single claims."""
    rows = read_rows()
    known = {row.id.partition("-")[0] for row in rows} | {row.id for row in rows}
    if unknown := [name for name in asked if name not in known]:
        groups = sorted(name for name in known if "-" not in name)
        raise ValueError(f"no paper or claim is called {unknown[0]}; pass one of {', '.join(groups)}, or ids of claims")
    return [row for row in rows if {row.id, row.id.partition("-")[0]} & set(asked)]


def list_settings(rows: list[Row], *, small: bool = False) -> dict[str, list[Any]]:
    """Return by experiment the settings of all results that claims read, as the ledger keeps them as evidence."""
    read = {name for row in rows for answer in row.answers.values() for name in answer.evidence}
    needed = {}
    for name in sorted({result.partition("/")[0] for result in read}):
        experiment = load_experiment(name)
        models = [(), (SECOND,), (TAUGHT,)] if experiment.takes_model else [()]
        every = (setting for model in models for setting in experiment.settings(*model) if setting.name in read)
        sized = map(experiment.shrink, every) if small else every
        needed[name] = list({setting.name: setting for setting in sized}.values())
    return needed


def leave_out_stored(needed: Mapping[str, list[Any]], folder: Path | str | None) -> dict[str, list[Any]]:
    """Return the settings by experiment whose results are not in the folder yet; experiments that have all are none."""
    lacking = {
        name: [setting for setting in settings if stored_result(setting, folder=folder) is None]
        for name, settings in needed.items()
    }
    return {name: settings for name, settings in lacking.items() if settings}


def read_seconds(name: str) -> tuple[str, float] | None:
    """Return on which device a result of this checkout was measured, and in how many seconds; None if there is none."""
    try:
        file = result_path(name).with_suffix(".json")
    except MissingResultError:
        return None
    if not file.is_file():
        return None
    provenance = json.loads(file.read_text(encoding="utf-8"))["provenance"]
    return re.sub(r"\b1 threads", "1 thread", provenance["device"]), provenance["seconds"]


def estimate(todo: Mapping[str, list[Any]], *, small: bool = False) -> str:
    """Return how many results are to be measured, and how long those took that are stored, on which device."""
    names = [setting.name for settings in todo.values() for setting in settings]
    if not names or small:
        return f"{len(names)} are to be measured" + (", of the small size, which takes minutes" if names else "")
    timed: list[tuple[str, float]] = [found for name in names if (found := read_seconds(name))]
    took: dict[str, float] = {}
    for device, seconds in timed:
        took[device] = took.get(device, 0) + seconds
    said = [f"{_in_words(seconds)} on {device}" for device, seconds in took.items()]
    untimed = len(names) - len(timed)
    said += [f"{untimed} {'was' if untimed == 1 else 'were'} not timed"] if untimed else []
    return f"{len(names)} are to be measured; the stored ones took {' and '.join(said)}"


def _in_words(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"


def run_all(todo: Mapping[str, list[Any]], **options: Any) -> Iterator[Result]:
    """Yield results as they are kept; an experiment that reads results of another waits until these are there."""
    waiting = list(todo)
    while waiting:
        later, missing = [], None
        for name in waiting:
            try:
                yield from load_experiment(name).run(todo[name], **options)
            except MissingResultError as error:
                later, missing = [*later, name], error
        if missing is not None and len(later) == len(waiting):
            raise missing
        waiting = later

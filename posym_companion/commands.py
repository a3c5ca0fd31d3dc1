"""The companion's commands: run an experiment, and show which claims were reproduced."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

WIDTH = 100

if TYPE_CHECKING:
    from posym_companion.verdicts import Row


def add_commands(commands: Any) -> None:
    """Add ``run`` and ``claims`` to the commands of ``posym``."""
    from posym_companion.catalogue import EXPERIMENTS

    run = commands.add_parser("run", help="run an experiment and keep its results")
    run.add_argument("experiment", help="which: " + ", ".join(EXPERIMENTS))
    run.add_argument(
        "--model", help="in place of gemma-3-270m, as for profile; an experiment that has models of its own refuses it"
    )
    run.add_argument("--small", action="store_true", help="a size for trying out; needs --results")
    run.add_argument("--device", default="auto", help="auto, cpu, cuda")
    run.add_argument("--results", help="folder to keep results in (default: this checkout's)")
    places = run.add_mutually_exclusive_group()
    places.add_argument("--jobs", type=int, default=1, help="processes of this machine (default: 1)")
    places.add_argument("--cluster", metavar="ADDRESS", help="address of a Dask scheduler, in place of this machine")
    run.add_argument("--force", action="store_true", help="discard what is there and run again")
    run.add_argument("--no-progress", action="store_true", help="no progress bar")
    run.set_defaults(command=_run)

    claims = commands.add_parser("claims", help="the ledger: what was reproduced and what was not")
    whole = "show all that is known of these claims (default: a line for each claim)"
    claims.add_argument("claims", nargs="*", metavar="ID", help=whole)
    claims.add_argument("--json", action="store_true", help="as JSON, one object a claim")
    claims.add_argument("--results", help="folder of results (default: this checkout's)")
    claims.set_defaults(command=_claims)


def _run(options: argparse.Namespace) -> None:
    from posym_companion.catalogue import require_experiment

    require_experiment(options.experiment)
    from posym_companion.experiments import run_experiment

    for result in run_experiment(
        options.experiment,
        model=options.model,
        small=options.small,
        device=options.device,
        folder=options.results,
        force=options.force,
        progress=not options.no_progress,
        jobs=options.jobs,
        cluster=options.cluster,
    ):
        print(result.describe(), flush=True)


def _claims(options: argparse.Namespace) -> None:
    from posym_companion.ledger.rows import ledger
    from posym_companion.results import find_results_folder

    folder = find_results_folder() if options.results is None else Path(options.results)
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder of results at {folder}; pass --results with another")
    rows = ledger(*options.claims, folder=folder)
    if options.json:
        print(json.dumps([_plain(row) for row in rows], indent=1))
    elif options.claims:
        print("\n\n".join(_whole(row) for row in rows))
    else:
        print("\n".join(_in_columns((row.id, row.grade, row.short) for row in rows)))
        print("\nposym claims ID shows the whole of a claim.")


def _in_columns(table: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows with their cells below each other."""
    rows = list(table)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _whole(row: Row) -> str:
    """All that the ledger says of a claim, a paragraph a field; what is empty is left out."""
    fields = {
        "Claim": row.claim,
        "Paper": row.paper,
        "Here": row.summary,
        "Rule": row.rule,
        "Fails in": "; ".join(row.fails_in),
        "Changes": row.changes,
        "Numbers": "; ".join(f"{name} {_number(value)}" for name, value in row.ours.items()),
        "Evidence": ", ".join(row.evidence),
        "Command": row.command,
    }
    paragraphs = [
        textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=f"{name}: ", subsequent_indent="    ")
        for name, text in fields.items()
        if text
    ]
    return "\n".join([f"{row.id}  {row.grade}: {row.short}", *paragraphs])


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON, its columns and families with their grades, too."""

    def plain(one: Any) -> dict[str, Any]:
        return asdict(one, dict_factory=lambda items: {name: value for name, value in items if name != "cases"})

    families = [plain(one) | {"grade": one.grade} for one in row.families or ()] or row.families
    again = {"families": families, "columns": [_plain(one) for one in row.columns]}
    return plain(row) | again | {"grade": row.grade, "decides": row.decides}


def _number(value: object) -> str:
    if isinstance(value, dict):
        low, high = value["interval"]
        return f"{value['value']} [{low}, {high}]"
    return str(value)

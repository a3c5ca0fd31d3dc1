"""The companion's commands: run an experiment or a whole paper, and show what the papers' claims came to."""

from __future__ import annotations

import argparse
import json
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

WIDTH = 100

CONTROL = {"direction": "", "size": " (size)", "control": " (control)"}

if TYPE_CHECKING:
    from posym_companion.claims.rows import Asked, Row


def add_commands(commands: Any) -> None:
    """Add ``run``, ``reproduce`` and ``claims`` to the commands of ``posym``."""
    from posym_companion.catalogue import EXPERIMENTS

    run = commands.add_parser("run", help="run an experiment and keep its results")
    run.add_argument("experiment", help="which: " + ", ".join(EXPERIMENTS))
    run.add_argument(
        "--model", help="in place of gemma-3-270m, as for profile; an experiment that has models of its own refuses it"
    )
    run.add_argument("--facts", type=int, help="blocks of a prompt, in place of the numbers that are stored")
    run.add_argument("--small", action="store_true", help="a size for trying out; needs --results")
    run.add_argument("--force", action="store_true", help="discard what is there and run again")
    run.set_defaults(command=_run)

    paper = commands.add_parser("reproduce", help="run what a paper's claims read, and judge these again")
    paper.add_argument("claims", nargs="+", metavar="PAPER", help="U25, U26, G26, or ids of claims")
    paper.add_argument(
        "--size", choices=("full", "small"), default="full", help="small: for trying out; needs --results"
    )
    paper.add_argument("--small", action="store_const", const="small", dest="size", help="the same as --size small")
    paper.set_defaults(command=_reproduce)
    for command in (run, paper):
        command.add_argument("--device", default="auto", help="auto, cpu, cuda")
        command.add_argument("--results", help="folder to keep results in (default: this checkout's)")
        places = command.add_mutually_exclusive_group()
        places.add_argument("--jobs", type=int, default=1, help="processes of this machine (default: 1)")
        places.add_argument(
            "--cluster", metavar="ADDRESS", help="address of a Dask scheduler, in place of this machine"
        )
        command.add_argument("--no-progress", action="store_true", help="no progress bar")

    claims = commands.add_parser("claims", help="the ledger: what the papers' claims came to")
    whole = "show all that is known of these claims (default: a line for each claim)"
    claims.add_argument("claims", nargs="*", metavar="ID", help=whole)
    claims.add_argument("--json", action="store_true", help="as JSON, one object a claim")
    claims.add_argument("--results", help="judge again by the results in this folder (default: what is stored)")
    claims.set_defaults(command=_claims)


def _run(options: argparse.Namespace) -> None:
    from posym_companion.catalogue import require_experiment

    require_experiment(options.experiment)
    from posym_companion.experiments import run_all_settings

    what = {"model": options.model, "facts": options.facts, "small": options.small, "force": options.force}
    for result in run_all_settings(options.experiment, **what, **_how(options)):
        print(result.describe(), flush=True)


def _how(options: argparse.Namespace) -> dict[str, Any]:
    """Return how experiments are run: where, what is kept in which folder, and with a bar or without."""
    same = {name: getattr(options, name) for name in ("device", "jobs", "cluster")}
    return {**same, "folder": options.results, "progress": not options.no_progress}


def _reproduce(options: argparse.Namespace) -> None:
    from posym_companion import reproduce
    from posym_companion.claims.rows import judge_all
    from posym_companion.experiments import require_own_folder

    small, rows = options.size == "small", reproduce.choose_rows(*options.claims)
    require_own_folder(small, options.results)
    needed = reproduce.list_settings(rows, small=small)
    todo = reproduce.leave_out_stored(needed, options.results)
    print(f"{len(rows)} claims read {sum(map(len, needed.values()))} results: {', '.join(needed) or 'none'}")
    print(reproduce.estimate(todo, small=small), flush=True)
    for result in reproduce.run_all(todo, **_how(options)):
        print(result.describe(), flush=True)
    _print_lines(judge_all(*(row.id for row in rows), folder=options.results))


def _claims(options: argparse.Namespace) -> None:
    from posym_companion.claims.rows import judge_all, read_rows

    if options.results is not None and not Path(options.results).is_dir():
        raise NotADirectoryError(f"there is no folder of results at {options.results}; pass --results with another")
    try:
        rows = judge_all(*options.claims, folder=options.results) if options.results else read_rows(*options.claims)
    except KeyError as error:
        raise ValueError(error.args[0]) from None
    if options.json:
        print(json.dumps([asdict(row) | {"headline": row.headline} for row in rows], indent=1, ensure_ascii=False))
    elif options.claims:
        print("\n\n".join(map(_whole, rows)))
    else:
        _print_lines(rows)
        print("\nposym claims ID shows the whole of a claim.")


def _print_lines(rows: list[Row]) -> None:
    width = max(len(row.id) for row in rows)
    print("\n".join(f"{row.id:{width}}  {row.grade:20}  {row.short}: {row.headline}" for row in rows))


def _whole(row: Row) -> str:
    """Return all that the ledger says of a claim, a paragraph a field; what is empty is left out."""
    fields = [
        ("Sentence", f"{row.quote} ({row.paper}, {row.at})"),
        ("Asked", f"{row.asks} The rule was fixed {row.fixed}. {row.history}"),
        ("Theorem in", row.proof),
        ("Shown in", row.chapter),
    ]
    for model, answer in row.answers.items():
        fields.append((model, f"{answer.grade}. {answer.headline or answer.why}"))
        fields += [(f"  {part.name}{CONTROL[part.asks]}", _part(part)) for part in answer.parts]
        fields.append(("  evidence", ", ".join(f"{name} ({digest})" for name, digest in answer.evidence.items())))
    return "\n".join([f"{row.id}  {row.grade}: {row.short}", *(_filled(*each) for each in fields if each[1])])


def _part(part: Asked) -> str:
    """Return in how many cases a part holds, and where it does not or cannot be told."""
    missed = [f"not {case}: {why}".rstrip(": ") for case, why in part.missed.items()]
    untold = [f"untold {case}: {why}" for case, why in part.untold.items()]
    return "; ".join([f"{part.held} of {part.told}", *missed, *untold])


def _filled(name: str, text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=f"{name}: ", subsequent_indent="    ")

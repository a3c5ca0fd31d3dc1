"""Command line: ``python -m posym_core claims`` and ``python -m posym_core run EXPERIMENT``."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m posym_core", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    claims = commands.add_parser("claims", help="the ledger: what was reproduced and what was not")
    claims.add_argument("--json", action="store_true", help="as JSON, one object a claim")
    claims.add_argument("--results", help="folder of results (default: this checkout's)")
    claims.set_defaults(run=_claims)

    run = commands.add_parser("run", help="run an experiment and keep its results")
    run.add_argument("experiment", choices=sorted(EXPERIMENTS), help="which")
    run.add_argument("--model", default="gemma-3-270m", help="model name (binding_profile)")
    run.add_argument("--device", default="auto", help="auto, cpu, cuda")
    run.add_argument("--results", help="folder to keep results in (default: this checkout's)")
    run.add_argument("--force", action="store_true", help="run again what is there already")
    run.set_defaults(run=_run)

    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (RuntimeError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _claims(options: argparse.Namespace) -> None:
    from posym_core.claims import ledger

    rows = ledger(options.results)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    for row in rows:
        ours = "; ".join(f"{name} {_number(value)}" for name, value in row.ours.items())
        text = f"{row.claim}. Paper: {row.paper}. Here: {ours or row.note}."
        print(f"{row.id:6} {row.verdict}")
        print(textwrap.indent(textwrap.fill(text, 100), " " * 7))


def _number(value: object) -> str:
    if isinstance(value, dict):
        low, high = value["interval"]
        return f"{value['value']} [{low}, {high}]"
    return str(value)


def _run(options: argparse.Namespace) -> None:
    EXPERIMENTS[options.experiment](options)


def _binding_profile(options: argparse.Namespace) -> None:
    from posym_core.experiments import binding_profile

    settings = binding_profile.full_size(options.model)
    for result in binding_profile.run(settings, device=options.device, folder=options.results, force=options.force):
        print(result.describe())


EXPERIMENTS = {"binding_profile": _binding_profile}


if __name__ == "__main__":
    sys.exit(main())

"""Print one table, row by row: ``python -m benchmarks``, or with the names of parts, such as ``scores browser``.

Without names all are run but ``architectures``, which measures rounding. ``--save`` also writes the
table to ``benchmarks/RESULTS.md``, which the README quotes.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from posym_core.runs.devices import choose_device, device_name
from posym_core.runs.store import write_atomically

TIMED = ("scores", "operations", "tools", "ensemble", "multihop", "explorer", "live", "browser")
PARTS = (*TIMED, "architectures")
STORED = Path(__file__).with_name("RESULTS.md")


def lines(parts: Sequence[str]) -> Iterator[str]:
    """The table, as it is measured."""
    today = datetime.now(UTC).date().isoformat()
    yield f"{device_name(choose_device())}, torch {torch.__version__}, {today}"
    yield ""
    yield "| measured | ratio |"
    yield "| --- | --- |"
    for part in parts:
        yield from importlib.import_module(f"benchmarks.{part}").rows()


def main(arguments: Sequence[str] | None = None, stored: Path = STORED) -> None:
    """Run the parts named on the command line, or all that are timed."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--save", action="store_true", help=f"write the table to {STORED.name}, too")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    if given.save and given.parts:
        parser.error("--save keeps the whole table; leave out the names of parts")
    table = []
    for line in lines(given.parts or TIMED):
        print(line, flush=True)
        table.append(line + "\n")
    if given.save:
        write_atomically(stored, "".join(table).encode())


if __name__ == "__main__":
    main()

"""Print one table, row by row: ``python -m benchmarks``, or with the names of parts, such as ``scores browser``.

Without names all are run but ``architectures``, which measures rounding. ``--save`` also keeps the rows of these parts
in ``benchmarks/devices``, in the files of the device they were measured on. On a GPU ``--save`` runs the tests marked
``gpu``, too.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks import cards
from posym_core.store import choose_device, describe_device

TIMED = ("scores", "tools", "ensemble", "multihop", "explorer", "live", "browser")
PARTS = (*TIMED, "architectures")
DEVICES = Path(__file__).with_name("devices")


def lines(parts: Sequence[str], rows: dict[str, list[cards.Row]]) -> Iterator[str]:
    """Yield the table as it is measured; its rows are put into ``rows`` by part."""
    today = datetime.now(UTC).date().isoformat()
    yield f"{describe_device(choose_device())}, torch {torch.__version__}, {today}"
    yield ""
    yield "| measured | ratio |"
    yield "| --- | --- |"
    for part in parts:
        rows[part] = []
        for line in importlib.import_module(f"benchmarks.{part}").rows():
            what, _, result = line.strip("| ").rpartition(" | ")
            rows[part].append((what, result))
            yield line


def main(arguments: Sequence[str] | None = None, folder: Path = DEVICES) -> None:
    """Run the parts named on the command line, or all that are timed."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--save", action="store_true", help=f"keep the rows by device in {folder.name}")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    device, rows = choose_device(), {}
    for line in lines(given.parts or TIMED, rows):
        print(line, flush=True)
    if given.save:
        tests = tests_said() if device.type == "cuda" else ""
        folder.mkdir(exist_ok=True)
        cards.store_parts(rows, device, folder=folder, commit=commit(), tests=tests)


def tests_said() -> str:
    """Return the last line that pytest prints of the tests marked ``gpu``."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests"]
    said = subprocess.run(command, cwd=DEVICES.parents[1], capture_output=True, text=True, check=False).stdout
    return said.strip().splitlines()[-1]


def commit() -> str:
    """Return the commit of the code that runs, marked where it was changed since; "" outside a checkout."""
    described = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(described, cwd=DEVICES, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()

"""Print one table, row by row: ``python -m benchmarks [scores] [ensemble] [multihop] [architectures] [explorer]``."""

from __future__ import annotations

import importlib
import sys

import torch

from posym_core.devices import choose_device, device_name

PARTS = ("scores", "ensemble", "multihop", "architectures", "explorer")


def main() -> None:
    """Run the parts named on the command line, or all."""
    chosen = sys.argv[1:] or PARTS
    if unknown := set(chosen) - set(PARTS):
        sys.exit(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    print(f"{device_name(choose_device())}, torch {torch.__version__}\n\n| measured | ratio |\n| --- | --- |")
    for part in chosen:
        for row in importlib.import_module(f"benchmarks.{part}").rows():
            print(row, flush=True)


if __name__ == "__main__":
    main()

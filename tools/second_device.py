"""Run chapters and small experiments where ``"auto"`` is a second device that needs no hardware.

What would fail on a GPU, because tensors of two devices meet or NumPy reads a tensor that is not the CPU's, fails here
too and is listed with its cell: ``python tools/second_device.py [--jobs N] [NAME ...]``. A NAME is the file of a
chapter or the name of an experiment; without one, all of them run. Every name has a process of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Seconds that one of them may take.
LIMIT = 5400
ENVIRONMENT = {"MPLBACKEND": "agg", "TQDM_DISABLE": "1", "POSYM_STATIC": "1", "HF_HUB_OFFLINE": "1"}


def names() -> list[str]:
    """All chapters and all experiments, chapters first."""
    from posym_companion.catalogue import EXPERIMENTS

    return [*sorted(str(path.relative_to(ROOT)) for path in (ROOT / "book").rglob("*.ipynb")), *EXPERIMENTS]


def failures(name: str) -> tuple[list[str], float]:
    """What fails in a chapter or an experiment on the second device, and the seconds that it took."""
    import torch
    from other_device import other_device

    torch.set_num_threads(1)
    began = time.perf_counter()
    with other_device(), open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        found = failing_cells(ROOT / name) if name.endswith(".ipynb") else failing_experiment(name)
    return found, time.perf_counter() - began


def failing_cells(chapter: Path) -> list[str]:
    """The cells of a chapter that raise, in a shell of their own; cells that are meant to raise are left out."""
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell

    os.chdir(chapter.parent)
    shell, found = InteractiveShell(), []
    shell.showtraceback = lambda *_, **__: None
    for number, cell in enumerate(nbformat.read(chapter, as_version=4).cells):
        if cell.cell_type != "code" or "raises-exception" in cell.metadata.get("tags", []):
            continue
        ran = shell.run_cell(cell.source, silent=True)
        if (error := ran.error_before_exec or ran.error_in_exec) is not None:
            found.append(f"cell {number}: {described(error)}")
    return found


def failing_experiment(name: str) -> list[str]:
    """What an experiment at its small size raises, beside the stored results of all others, which some read."""
    from posym_companion.experiments import run_experiment

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "results", folder, ignore=shutil.ignore_patterns(name), dirs_exist_ok=True)
        try:
            for _ in run_experiment(name, small=True, folder=folder, progress=False):
                pass
        except Exception as error:
            return [described(error)]
    return []


def described(error: BaseException) -> str:
    """An error in one line, with the last places of the project that it came through."""
    places = [f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__}: {str(error)[:300]} ({' > '.join(places[-6:])})"


def report(name: str) -> tuple[str, bool]:
    """What a process of its own says about one chapter or experiment, and whether all of it ran."""
    try:
        ran = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"{name}: failed, not done after {LIMIT} s\n", False
    return ran.stdout + ("" if ran.stdout else ran.stderr), ran.returncode == 0


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="chapters and experiments; by default all")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    options = parser.parse_args(arguments)
    if len(options.names) == 1:
        found, seconds = failures(options.names[0])
        print(f"{options.names[0]}: {'failed' if found else 'right'} after {seconds:.0f} s", *found, sep="\n  ")
        raise SystemExit(bool(found))
    every, failed = options.names or names(), []
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, (said, right) in zip(every, pool.map(report, every), strict=True):
            print(said, end="", flush=True)
            failed += [] if right else [name]
    if failed:
        raise SystemExit(f"{len(failed)} of {len(every)} fail on the second device: {', '.join(failed)}")


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]
    main()

"""Run chapters and small experiments where ``"auto"`` is a second device that needs no hardware.

What would fail on a GPU, because tensors of two devices meet or NumPy reads a tensor that is not the CPU's, fails here
too and is listed with its cell: ``python tests/helpers/second_device.py [--jobs N] [NAME ...]``. A NAME is a chapter's
file or the name of an experiment; without one, all of them run. Every name has a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"MPLBACKEND": "agg", "TQDM_DISABLE": "1", "POSYM_STATIC": "1", "HF_HUB_OFFLINE": "1"}


def run_on_second_device(name: str) -> list[str]:
    """Print whether a chapter or an experiment runs on the second device; return what fails."""
    import torch
    from other_device import other_device

    torch.set_num_threads(1)
    began = time.perf_counter()
    with other_device(), open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        errors = run_cells(ROOT / name) if name.endswith(".ipynb") else run_small_experiment(name)
    state = "failed" if errors else "right"
    print(f"{name}: {state} after {time.perf_counter() - began:.0f} s", *errors, sep="\n  ", flush=True)
    return errors


def run_cells(chapter: Path) -> list[str]:
    """Return what cells of a chapter raise, in a shell of their own; cells that are meant to raise are left out."""
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell

    os.chdir(chapter.parent)
    shell, errors = InteractiveShell(), []
    shell.showtraceback = lambda *_, **__: None
    for number, cell in enumerate(nbformat.read(chapter, as_version=4).cells):
        if cell.cell_type == "code" and "raises-exception" not in cell.metadata.get("tags", []):
            run = shell.run_cell(cell.source, silent=True)
            if error := run.error_before_exec or run.error_in_exec:
                errors.append(f"cell {number}: {describe_error(error)}")
    return errors


def run_small_experiment(name: str) -> list[str]:
    """Return what an experiment at its small size raises, beside the stored results of all others, which some read."""
    from posym_companion.experiments import run_all_settings

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "results", folder, ignore=shutil.ignore_patterns(name), dirs_exist_ok=True)
        try:
            for _ in run_all_settings(name, small=True, folder=folder, progress=False):
                pass
        except Exception as error:
            return [describe_error(error)]
    return []


def describe_error(error: BaseException) -> str:
    """Return an error in one line, with the last places that it came through."""
    places = [f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__}: {str(error)[:300]} ({' > '.join(places[-6:])})"


def main() -> None:
    """Command line: see above."""
    from posym_companion.catalogue import EXPERIMENTS

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="chapters and experiments; by default all")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    options = parser.parse_args()
    chapters = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "book").rglob("*.ipynb"))
    names = options.names or [*chapters, *EXPERIMENTS]
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=fresh, max_tasks_per_child=1) as pool:
        failed = [name for name, errors in zip(names, pool.map(run_on_second_device, names), strict=True) if errors]
    if failed:
        raise SystemExit(f"{len(failed)} of {len(names)} fail on the second device: {', '.join(failed)}")


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    sys.path.insert(0, str(ROOT))
    main()

"""Execute chapters, two at once, each only when its code or something that all chapters depend on has changed.

Outputs are kept in ``_build/executed/KEY``, where the key is of packages, results and versions of libraries: after a
change of these all chapters run again, and after an edit of a chapter it alone. Every chapter runs in a kernel
of its own with one thread. Kernels are forked from one process that has imported the libraries, since importing
PyTorch, SymPy and Matplotlib takes longer than many a chapter.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("posym_core", "posym_profile", "posym_figures", "posym_companion")
# What every chapter depends on: code, results, versions of libraries, and how cells are run.
EVERYWHERE = (*PACKAGES, "results", "requirements.txt", "requirements-bare.txt", "tools/execute.py")
# What no page is made from: leftovers, and what chapters printed when it was accepted.
IGNORED = {"__pycache__", ".ipynb_checkpoints", "expected"}
JOBS = 2
TIMEOUT = 900  # seconds a cell may take
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "NO_COLOR": "1",
    "TQDM_DISABLE": "1",
    "POSYM_STATIC": "1",  # figures open no connection to a page that is not there
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}
IMPORTED = [
    *("ipykernel.kernelapp", "matplotlib.pyplot", "scipy.stats", "sympy"),
    *("transformers.models.gemma3.modeling_gemma3", "posym_core", "posym_figures", "posym_profile"),
]


def run_kernel(connection_file: str, folder: str) -> None:
    """Serve a chapter as its kernel, in a forked process."""
    threading.Thread(target=end_with_build, daemon=True).start()
    os.chdir(folder)
    sys.path[0] = ""
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(argv=["-f", connection_file, "--log-level=ERROR"])


def end_with_build() -> None:
    """End this process when the one that asked for it is gone, also if it was killed."""
    build = multiprocessing.parent_process()
    assert build is not None
    build.join()
    os._exit(1)


class ForkedProcess(ForkServerProcess):
    """A forked process with the methods of ``subprocess.Popen`` that Jupyter uses."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        if self.exitcode is None and self.pid is not None:
            os.kill(self.pid, number)


class ForkedKernels(LocalProvisioner):
    """Kernels on this machine that are forked instead of started."""

    async def launch_kernel(self, cmd: list[str], **options: Any) -> dict[str, Any]:
        self.process = ForkedProcess(target=run_kernel, args=(cmd[cmd.index("-f") + 1], options["cwd"]))
        self.process.start()
        self.pid = self.process.pid
        return self.connection_info


def tree_key(root: Path, names: Iterable[str]) -> str:
    """Return a short hash over the names and the contents of all files below ``names``; absent ones count as empty."""
    key = hashlib.sha256()
    for name in names:
        path = root / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not IGNORED & set(file.relative_to(root).parts):
                key.update(file.relative_to(root).as_posix().encode() + b"\0")
                key.update(hashlib.sha256(file.read_bytes()).digest())
    return key.hexdigest()[:16]


@functools.cache
def outputs_folder(root: Path) -> Path:
    """Return where outputs are kept that were made from the present packages, results and libraries."""
    return root / "_build" / "executed" / f"{tree_key(root, EVERYWHERE)}-{platform.python_version()}"


def executed(root: Path, chapter: Path) -> Path:
    """Return where the outputs of a chapter are kept."""
    return outputs_folder(root) / chapter.relative_to(root)


def read(path: Path) -> dict[str, Any]:
    """Return a notebook as JSON; nothing where there is none or it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def code_cells(notebook: Mapping[str, Any]) -> list[str]:
    """Return the code of each cell."""
    return ["".join(cell["source"]) for cell in notebook.get("cells", []) if cell["cell_type"] == "code"]


def is_current(root: Path, chapter: Path) -> bool:
    """Return whether the outputs of a chapter that are kept are those of its present cells."""
    kept = read(executed(root, chapter))
    return bool(kept) and code_cells(kept) == code_cells(read(chapter))


async def execute(root: Path, chapter: Path, free: asyncio.Semaphore) -> str | None:
    """Execute a chapter when there is room, and keep its outputs; return what went wrong."""
    async with free:
        notebook, start = nbformat.read(chapter, as_version=4), time.perf_counter()
        place = {"metadata": {"path": str(chapter.parent)}}
        client = NotebookClient(notebook, timeout=TIMEOUT, resources=place, coalesce_streams=True)
        try:
            await client.async_execute()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return str(error)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    if said := [output.text for output in outputs if output.get("name") == "stderr"]:
        return f"it writes to stderr: {''.join(said)}"
    target = executed(root, chapter)
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target.with_suffix(".new"))
    target.with_suffix(".new").replace(target)
    print(f"executed {chapter.relative_to(root)} in {time.perf_counter() - start:.1f} s", flush=True)
    return None


async def execute_all(root: Path, chapters: list[Path]) -> dict[Path, str]:
    """Execute chapters, the longest first; return what went wrong."""
    free = asyncio.Semaphore(JOBS)
    ordered = sorted(
        chapters, key=lambda x: -read(x)["metadata"].get("seconds", 0)
    )  # a long one says how long it takes
    done = await asyncio.gather(*(execute(root, chapter, free) for chapter in ordered))
    return {chapter: wrong for chapter, wrong in zip(ordered, done, strict=True) if wrong is not None}


def execute_changed(root: Path, chapters: list[Path]) -> dict[Path, str]:
    """Execute the chapters whose outputs are missing or out of date; return what went wrong."""
    for stale in (root / "_build" / "executed").glob("*"):
        if stale != outputs_folder(root):
            shutil.rmtree(stale)
    due = [chapter for chapter in chapters if not is_current(root, chapter)]
    if due:
        fork_kernels()
    return asyncio.run(execute_all(root, due))


def fork_kernels(**environment: str) -> None:
    """Let Jupyter fork its kernels from a process that is started here and keeps the environment of its start."""
    forkserver.set_forkserver_preload(IMPORTED)
    with patch.dict(os.environ, ENVIRONMENT | environment):
        forkserver.ensure_running()
    factory = KernelProvisionerFactory.instance()
    factory.provisioners["forked"] = EntryPoint("forked", "execute:ForkedKernels", factory.GROUP_NAME)
    factory.default_provisioner_name = "forked"

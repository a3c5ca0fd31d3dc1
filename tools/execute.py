"""Execute chapters, several at once, each only when its code or something that all chapters depend on has changed.

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
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from functools import partialmethod
from importlib.metadata import EntryPoint
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

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
BAR = re.compile(r".*\d%\|.*\| *\d+/\d+ \[.*")  # as tqdm writes one
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "NO_COLOR": "1",
    "TQDM_DISABLE": "1",
    "POSYM_STATIC": "1",  # figures open no connection to a page that is not there
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}
IMPORTED = [
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
    "scipy.stats",
    "sympy",
    "transformers.models.gemma3.modeling_gemma3",
    "posym_core",
    "posym_figures",
    "posym_profile",
]
FORKS = multiprocessing.get_context("forkserver")


def run_kernel(connection_file: str, folder: str) -> None:
    """Serve a chapter as its kernel, in a forked process."""
    os.chdir(folder)
    sys.path[0] = ""
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(
        argv=["-f", connection_file, f"--IPKernelApp.parent_handle={os.getppid()}", "--log-level=ERROR"]
    )


class ForkedProcess:
    """A forked process with the methods of ``subprocess.Popen`` that Jupyter uses."""

    stdin = stdout = stderr = None

    def __init__(self, *arguments: Any) -> None:
        self._process = FORKS.Process(target=run_kernel, args=arguments)
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None and self.pid is not None:
            os.kill(self.pid, number)

    terminate = partialmethod(send_signal, signal.SIGTERM)
    kill = partialmethod(send_signal, signal.SIGKILL)


class ForkedKernels(LocalProvisioner):
    """Kernels on this machine that are forked instead of started."""

    async def launch_kernel(self, cmd: list[str], **options: Any) -> dict[str, Any]:
        self.process = ForkedProcess(cmd[cmd.index("-f") + 1], options["cwd"])
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


async def execute(root: Path, chapter: Path) -> str | None:
    """Execute a chapter and keep its outputs; return what went wrong."""
    notebook, start = nbformat.read(chapter, as_version=4), time.perf_counter()
    client = NotebookClient(notebook, timeout=TIMEOUT, resources={"metadata": {"path": str(chapter.parent)}})
    try:
        await client.async_execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return str(error)
    if wrong := unwanted(notebook):
        return wrong
    target = executed(root, chapter)
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target.with_suffix(".new"))
    target.with_suffix(".new").replace(target)
    print(f"executed {chapter.relative_to(root)} in {time.perf_counter() - start:.1f} s", flush=True)
    return None


def unwanted(notebook: Any) -> str | None:
    """What a chapter shows that no page may show: a text on stderr, or a progress bar."""
    for out in (out for cell in notebook.cells for out in cell.get("outputs", [])):
        if out.get("name") == "stderr":
            return f"it writes to stderr: {out['text']}"
        if found := BAR.search("".join([out.get("text", ""), out.get("data", {}).get("text/plain", "")])):
            return f"it shows a progress bar: {found[0].strip()}"
    return None


def execute_changed(root: Path, chapters: list[Path], jobs: int = JOBS) -> dict[Path, str]:
    """Execute the chapters whose outputs are missing or out of date, the longest first; return what went wrong."""
    for stale in (root / "_build" / "executed").glob("*"):
        if stale != outputs_folder(root):
            shutil.rmtree(stale)
    due = [chapter for chapter in chapters if not is_current(root, chapter)]
    if not due:
        return {}
    fork_kernels()
    due.sort(key=lambda x: -read(x)["metadata"].get("seconds", 0))  # a long chapter says how long it takes
    return asyncio.run(_execute_all(root, due, jobs))


def fork_kernels(**environment: str) -> None:
    """Let Jupyter fork its kernels from a process that is started here and keeps the environment of its start."""
    FORKS.set_forkserver_preload(IMPORTED)
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT | environment)
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
    factory = KernelProvisionerFactory.instance()
    factory.provisioners["forked"] = EntryPoint("forked", "execute:ForkedKernels", factory.GROUP_NAME)
    factory.default_provisioner_name = "forked"


async def _execute_all(root: Path, chapters: list[Path], jobs: int) -> dict[Path, str]:
    free = asyncio.Semaphore(jobs)

    async def one(chapter: Path) -> str | None:
        async with free:
            return await execute(root, chapter)

    done = await asyncio.gather(*map(one, chapters))
    return {chapter: wrong for chapter, wrong in zip(chapters, done, strict=True) if wrong is not None}

"""Execute chapters, several at once, each only when something that its outputs depend on has changed.

Outputs are kept in ``_build/executed``, with what they were made from (see ``reads.py``). Every chapter
runs in a kernel of its own with one thread. Kernels are forked from one process that has imported the libraries, since
importing PyTorch, SymPy and Matplotlib afresh takes longer than many a chapter.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from functools import partialmethod
from importlib.metadata import EntryPoint
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from reads import make_key, name_reads

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


def run_kernel(connection_file: str, folder: str, opened: str) -> None:
    """Serve a chapter as its kernel, in a forked process, and write down which files it reads and folders it lists."""
    os.chdir(folder)
    sys.path[0] = ""
    with open(opened, "w", buffering=1, encoding="utf-8") as file:
        for module in list(sys.modules.values()):  # those that were imported before the fork
            file.write(f"{getattr(module, '__dict__', {}).get('__file__')}\n")

        def record(event: str, arguments: tuple[Any, ...]) -> None:
            path = arguments[0] if event in ("open", "os.listdir", "os.scandir") else None
            if not isinstance(path, str | os.PathLike):
                return
            # Imports list the chapter's own folder, and what is opened to write is not read.
            neighbours = event == "os.listdir" and os.path.abspath(path) == folder
            if not neighbours and not (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
                file.write(os.path.abspath(path) + "\n")

        sys.addaudithook(record)
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
        opened = options["env"].get("POSYM_OPENED", os.devnull)
        self.process = ForkedProcess(cmd[cmd.index("-f") + 1], options["cwd"], opened)
        self.pid = self.process.pid
        return self.connection_info


def executed(root: Path, chapter: Path) -> Path:
    """Where the outputs of a chapter are kept."""
    return root / "_build" / "executed" / chapter.relative_to(root)


def read(path: Path) -> dict[str, Any]:
    """A notebook as JSON, or nothing where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def last_run(root: Path, chapter: Path) -> dict[str, Any]:
    """Return the key, the reads and the seconds of a chapter's last execution, if there was one."""
    return read(executed(root, chapter)).get("metadata", {}).get("posym", {})


def is_current(root: Path, chapter: Path) -> bool:
    """Return whether the outputs of a chapter that are kept are those of its present cells and reads."""
    run = last_run(root, chapter)
    return "reads" in run and run["key"] == make_key(root, read(chapter), run["reads"])


async def execute(root: Path, chapter: Path) -> str | None:
    """Execute a chapter and keep its outputs; return what went wrong."""
    cells, notebook = read(chapter), nbformat.read(chapter, as_version=4)
    began, start = time.time_ns(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        opened = Path(folder) / "opened"
        client = NotebookClient(notebook, timeout=TIMEOUT, resources={"metadata": {"path": str(chapter.parent)}})
        try:
            await client.async_execute(env=os.environ | {"POSYM_OPENED": str(opened)})
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return str(error)
        reads = name_reads(root, opened.read_text(encoding="utf-8").splitlines())
    if wrong := unwanted(notebook):
        return wrong
    seconds = round(time.perf_counter() - start, 1)
    # What changed while the chapter ran may not be what it read: then the next build executes it again.
    files = [path for name in reads if (path := root / name).is_file()]
    key = "" if any(path.stat().st_mtime_ns > began for path in files) else make_key(root, cells, reads)
    notebook.metadata["posym"] = {"key": key, "seconds": seconds, "reads": reads}
    target = executed(root, chapter)
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target.with_suffix(".new"))
    target.with_suffix(".new").replace(target)
    print(f"executed {chapter.relative_to(root)} in {seconds} s", flush=True)
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
    due = [chapter for chapter in chapters if not is_current(root, chapter)]
    if not due:
        return {}
    fork_kernels()
    # A chapter that was never executed may say itself that it takes long.
    due.sort(key=lambda x: -(last_run(root, x).get("seconds") or read(x)["metadata"].get("seconds", 0)))
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

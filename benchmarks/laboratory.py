"""A notebook in a real JupyterLab, in a headless browser: what the tests look at and the benchmarks time."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat

START = 60  # seconds that the server may take until it answers
SETTINGS = (
    "--no-browser",
    "--ServerApp.ip=127.0.0.1",
    "--IdentityProvider.token=",
    "--ServerApp.allow_root=True",
    "--LabApp.expose_app_in_browser=True",
    "--LabApp.news_url=None",
)
# Run before its kernel answers, a notebook asks which kernel to take.
READY = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"


def chromium() -> str | None:
    """Where the system keeps its Chromium, if it has one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextlib.contextmanager
def served(folder: Path, root: Path) -> Iterator[str]:
    """The address of a JupyterLab over ``folder``, whose kernels import the packages of ``root``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = dict.fromkeys(
        ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"), f"{folder}/.own"
    )
    environment = {**os.environ, **own, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    environment.pop("POSYM_STATIC", None)
    command = [sys.executable, "-m", "jupyterlab", *SETTINGS, f"--ServerApp.port={port}", f"--notebook-dir={folder}"]
    with open(folder / ".log", "wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        address, began = f"http://127.0.0.1:{port}", time.monotonic()
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/status", timeout=5).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > began + START:
                    raise RuntimeError(f"JupyterLab did not start: {(folder / '.log').read_text()[-2000:]}") from None
                time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait(20)


@contextlib.contextmanager
def laboratory(root: Path) -> Iterator[Callable[..., Any]]:
    """Opens notebooks in one JupyterLab and one browser: ``open_notebook(cells, **context)`` is a page that shows one
    with these cells, all run.
    """
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder, pages = Path(name), list[Any]()

        def open_notebook(cells: Sequence[str], **context: Any) -> Any:
            kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
            notebook.metadata["kernelspec"] = kernel  # without one JupyterLab asks which to take
            file = folder / f"figure{len(pages)}.ipynb"
            nbformat.write(notebook, file)
            page = browser.new_context(**context).new_page()
            pages.append(page)
            page.goto(f"{address}/doc/tree/{file.name}")
            page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
            page.wait_for_function(READY, timeout=60_000)
            page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
            return page

        with served(folder, root) as address:
            browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            try:
                yield open_notebook
            finally:
                browser.close()


@contextlib.contextmanager
def opened(cells: Sequence[str], root: Path, **context: Any) -> Iterator[Any]:
    """A page of JupyterLab that shows a notebook with these cells, all run."""
    with laboratory(root) as open_notebook:
        yield open_notebook(cells, **context)

"""What a chapter's outputs depend on: its cells, how cells are run, and what it read when it last ran.

``execute.py`` writes down which files of the project a chapter opens and which folders it lists, those of modules
included. Their names are kept with the outputs, and their contents are part of the key: outputs are up to date as long
as cells and contents are those of the last run. Of a module the code counts, without comments and docstrings, and of a
neighbouring chapter the claims that its cells show.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from address import ROOT as ROOT
from address import is_setup_cell

PACKAGES = ("posym_core", "posym_profile", "posym_figures", "posym_companion")
WATCHED = (*PACKAGES, "benchmarks", "results", "book")
# What every chapter depends on: the versions of libraries, the packaged models' among them, and how cells are run.
EVERYWHERE = ("requirements.txt", "requirements-bare.txt", "tools/execute.py")
CLAIM_TAG = re.compile(r'"((?:shows|live)-[a-z]\d+-t?\d+[a-c]?)"')
# What no page is made from: leftovers, and what chapters printed when it was accepted.
IGNORED = {"__pycache__", ".ipynb_checkpoints", "expected"}


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells of a notebook, each with its source as one text, without the one that serves Colab."""
    cells = [cell | {"source": "".join(cell["source"])} for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in cells if not is_setup_cell(cell["source"])]


def name_reads(root: Path, paths: Iterable[str]) -> list[str]:
    """Return which files and folders of the project these paths are; byte code stands for its source."""
    names = set()
    for path in map(Path, paths):
        if path.suffix == ".pyc" and path.parent.name == "__pycache__":
            path = Path(importlib.util.source_from_cache(str(path)))
        # What stands in a folder of byte code depends on who ran before.
        name = path.relative_to(root) if path.is_relative_to(root) else Path()
        if name.parts and name.parts[0] in WATCHED and "__pycache__" not in name.parts:
            names.add(name.as_posix())
    return sorted(names)


def digest(path: Path) -> Any:
    """Return what a chapter knows of a file or a folder that it reads, None if there is none."""
    if path.is_dir():
        files = [file for file in path.iterdir() if file.name not in IGNORED]
        return sorted(
            (file.name, file.stat().st_size if "results" in (path.name, path.parent.name) else 0) for file in files
        )
    return _digest_file(path, path.stat().st_mtime_ns) if path.is_file() else None


@functools.cache
def _digest_file(path: Path, changed: int) -> str:
    from posym_core.store._provenance import strip_code

    content = path.read_bytes()
    if path.suffix == ".py":
        content = strip_code(content.decode()).encode()
    elif path.suffix == ".ipynb":
        content = " ".join(CLAIM_TAG.findall(content.decode())).encode()
    return hashlib.sha256(content).hexdigest()


def make_key(root: Path, notebook: dict[str, Any], reads: Iterable[str]) -> str:
    """Return a hash over a chapter's cells and what it reads, as both are now."""
    cells = [(x["source"], "raises-exception" in x["metadata"].get("tags", [])) for x in code_cells(notebook)]
    contents = [(name, digest(root / name)) for name in (*EVERYWHERE, *sorted(reads))]
    return hashlib.sha256(json.dumps([platform.python_version(), cells, contents]).encode()).hexdigest()[:16]

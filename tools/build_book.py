"""Build the book: ``_build/html`` is a complete site made from the present files, or it is not there.

Chapters are executed first (``execute.py``), each only when something that it depends on has changed. Jupyter Book then
renders ``_build/sources``, the book with these outputs. A build that fails or is interrupted leaves no site behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from execute import ENVIRONMENT, EVERYWHERE, ROOT, execute_changed, executed, tree_key
from finish_site import finish
from sphinx_external_toc.parsing import parse_toc_yaml

# What the whole site depends on; its key is kept beside the site, so that a test can tell an old site from the present.
SITE_INPUTS = (*EVERYWHERE, "tools", "book", "benchmarks", "_config.yml", "_toc.yml", "CITATION.cff")
# Warnings are errors, and so are names in the reference that lead nowhere.
JUPYTER_BOOK = [
    str(Path(sys.executable).with_name("jupyter-book")),
    *("build", "--warningiserror", "--nitpick", "--keep-going"),
]


def pages(root: Path) -> dict[str, Path]:
    """Return the pages of the table of contents in its order, by name."""
    named = ((name, root / f"{name}{end}") for name in parse_toc_yaml(root / "_toc.yml") for end in (".ipynb", ".md"))
    return {name: path for name, path in named if path.is_file()}


def chapters(root: Path) -> list[Path]:
    """Return the chapters of the table of contents, which are executed."""
    return [path for path in pages(root).values() if path.suffix == ".ipynb"]


def site_is_current(root: Path) -> bool:
    """Return whether ``_build/html`` was made from the files as they are now."""
    site, stamp = root / "_build" / "html", root / "_build" / "html.key"
    return site.is_dir() and stamp.exists() and stamp.read_text() == tree_key(root, SITE_INPUTS)


def with_outputs(chapter: Path, run: Path) -> Any:
    """Return a chapter with the outputs of its last execution."""
    notebook, done = (nbformat.read(path, as_version=4) for path in (chapter, run))
    pairs = ([cell for cell in each.cells if cell.cell_type == "code"] for each in (notebook, done))
    for cell, other in zip(*pairs, strict=True):
        cell.outputs, cell.execution_count = other.outputs, other.execution_count
    return notebook


def write_outputs(root: Path, target: Path) -> None:
    """Write the book to a folder, with the outputs of its chapters."""
    shutil.copytree(root / "book", target / "book", ignore=shutil.ignore_patterns("expected"))
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(root / name, target)
    for chapter in chapters(root):
        nbformat.write(with_outputs(chapter, executed(root, chapter)), target / chapter.relative_to(root))


def execute_chapters(root: Path) -> bool:
    """Execute the chapters that have changed, print what goes wrong, and return whether nothing does."""
    failed = execute_changed(root, chapters(root))
    for chapter, wrong in failed.items():
        print(f"{chapter.relative_to(root)} failed: {wrong}", file=sys.stderr)
    return not failed


def build(root: Path = ROOT) -> int:
    """Build the book of ``root`` and publish it to ``_build/html``; return the exit status."""
    if site_is_current(root):
        return 0
    site, stamp, sources = (root / "_build" / name for name in ("html", "html.key", "sources"))
    stamp.unlink(missing_ok=True)
    for stale in (site, sources):
        shutil.rmtree(stale, ignore_errors=True)
    key = tree_key(root, SITE_INPUTS)
    if not execute_chapters(root):
        return 1
    write_outputs(root, sources)
    tools = {"PYTHONPATH": os.pathsep.join([str(root / "tools"), os.environ.get("PYTHONPATH", "")])}  # has book_site
    if status := subprocess.run([*JUPYTER_BOOK, str(sources)], env=os.environ | ENVIRONMENT | tools).returncode:
        return status
    fresh = sources / "_build" / "html"
    for chapter in chapters(root):  # what readers download are chapters as they are stored, without outputs
        shutil.copy(chapter, fresh / "_sources" / chapter.relative_to(root))
    finish(fresh, root)
    fresh.rename(site)
    stamp.write_text(key)
    return 0


if __name__ == "__main__":
    if build():
        sys.exit("the book was not built: see above, where each warning is an error")
    print("the site is in _build/html")

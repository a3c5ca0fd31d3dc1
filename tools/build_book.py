"""Build the book: ``_build/html`` is a complete site made from the present files, or it is not there.

Chapters are executed first (``execute.py``), each only when something that it depends on has changed. Sphinx then
renders ``_build/sources``, the book with these outputs, in a folder named after everything that shapes all pages, so
that it keeps no page whose settings have changed. A build that fails or is interrupted leaves no site behind, and
nothing by which the next build could take a failing chapter for a good one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from execute import ENVIRONMENT, execute_changed, executed
from finish_site import finish
from moved import write_moved
from reads import EVERYWHERE, IGNORED, PACKAGES, ROOT, WATCHED
from words import pages

# What all pages depend on besides their sources; Sphinx knows which pages quote which docstrings.
PAGE_INPUTS = (*EVERYWHERE, "_config.yml", "_toc.yml", "tools", "book/_static", "book/references.bib")
# What the whole site depends on; its key is kept beside the site, so that a test can tell an old site from the present.
SITE_INPUTS = (*PAGE_INPUTS, *WATCHED, "CITATION.cff")
TITLE = re.compile(r'^ *"?# .*$', re.MULTILINE)


def tree_key(root: Path, names: Iterable[str]) -> str:
    """Return a short hash over the names and the contents of all files below ``names``; absent ones count as empty."""
    key = hashlib.sha256()
    for name in names:
        path = root / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and not IGNORED & set(file.relative_to(root).parts):
                key.update(file.relative_to(root).as_posix().encode() + b"\0")
                key.update(hashlib.sha256(file.read_bytes()).digest())
    return key.hexdigest()[:16]


def pages_key(root: Path) -> str:
    """Return a short hash over what all pages depend on: settings, titles of pages, and names of modules."""
    titles = [title for path in pages(root).values() for title in TITLE.findall(path.read_text(encoding="utf-8"))[:1]]
    modules = sorted(str(path.relative_to(root)) for name in PACKAGES for path in (root / name).rglob("*.py"))
    parts = [tree_key(root, PAGE_INPUTS), *titles, *modules]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


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
    if "widgets" in done.metadata:
        notebook.metadata["widgets"] = done.metadata["widgets"]
    return notebook


def stage(root: Path) -> Path:
    """Write the book with outputs to ``_build/sources`` and leave alone what has not changed there."""
    target = root / "_build" / "sources"
    files = [root / "_config.yml", root / "_toc.yml", *pages(root).values()]
    files += [path for path in (root / "book").rglob("*") if path.is_file() and path.suffix not in (".ipynb", ".md")]
    for file in files:
        copy = target / file.relative_to(root)
        run = executed(root, file)
        new = nbformat.writes(with_outputs(file, run)).encode() if file.suffix == ".ipynb" else file.read_bytes()
        if not copy.is_file() or copy.read_bytes() != new:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(new)
    wanted = {target / file.relative_to(root) for file in files}
    for path in target.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
    return target


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
    site, fresh, stamp = (root / "_build" / name for name in ("html", "html.new", "html.key"))
    work, key = root / "_build" / "pages" / pages_key(root), tree_key(root, SITE_INPUTS)
    stamp.unlink(missing_ok=True)
    for stale in {site, fresh, *work.parent.glob("*")} - {work}:
        shutil.rmtree(stale, ignore_errors=True)
    if not execute_chapters(root):
        return 1
    try:
        command = [sys.executable, str(root / "tools" / "render.py"), str(stage(root)), str(work / "html")]
        status = subprocess.run(command, cwd=root, env=os.environ | ENVIRONMENT).returncode
        if status == 0:
            shutil.copytree(work / "html", fresh)
            for chapter in chapters(root):  # what readers download are chapters as they are stored, without outputs
                shutil.copy(chapter, fresh / "_sources" / chapter.relative_to(root))
            finish(fresh, root)
            write_moved(fresh)
            fresh.rename(site)
            stamp.write_text(key)
        return status
    finally:
        if not stamp.exists():
            for unfinished in (work, fresh):
                shutil.rmtree(unfinished, ignore_errors=True)


if __name__ == "__main__":
    if build():
        sys.exit("the book was not built: see above, where each warning is an error")
    print("the site is in _build/html")

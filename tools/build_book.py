"""Build the book: ``_build/html`` is a complete site made from the present files, or it is not there.

The work is done in a folder named after everything that shapes a page apart from the chapters themselves, so that
Sphinx never keeps a page whose package, results, table of contents or settings have changed. A build that fails or is
interrupted leaves no site behind, and nothing by which the next build could take a failing chapter for a good one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from finish_site import finish

ROOT = Path(__file__).resolve().parent.parent
# What a chapter's outputs depend on besides its own cells.
EXECUTION_INPUTS = ("posym_core", "results", "requirements.txt")
# What a page depends on besides its chapter.
PAGE_INPUTS = (*EXECUTION_INPUTS, "_config.yml", "_toc.yml", "tools", "book/_static")
# What the whole site depends on; its key is kept beside the site, so that a test can tell an old site from the present.
SITE_INPUTS = (*PAGE_INPUTS, "book")
CLAIM_TAG = re.compile(r'"((?:shows|live)-[a-z]\d+-\d+)"')
IGNORED = {"__pycache__", ".ipynb_checkpoints"}


def tree_key(root: Path, names: Iterable[str]) -> str:
    """A short hash over the names and the contents of all files below ``names``; absent ones count as empty."""
    key = hashlib.sha256()
    for name in names:
        path = root / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and not IGNORED & set(file.relative_to(root).parts):
                key.update(file.relative_to(root).as_posix().encode() + b"\0")
                key.update(hashlib.sha256(file.read_bytes()).digest())
    return key.hexdigest()[:16]


def claim_tags(root: Path) -> list[str]:
    """Which cells of chapters show which claims: the ledger reads it off the chapters, whose cells it links to."""
    return [
        f"{chapter.name} {tag}"
        for chapter in sorted((root / "book").glob("*.ipynb"))
        for tag in CLAIM_TAG.findall(chapter.read_text(encoding="utf-8"))
    ]


def execution_cache(root: Path) -> Path:
    """The folder of executed chapters that belongs to package, results, lock and places of claims as they are now."""
    places = hashlib.sha256("\n".join(claim_tags(root)).encode()).hexdigest()[:8]
    return root / "_build" / ".jupyter_cache" / f"{tree_key(root, EXECUTION_INPUTS)}-{places}"


def site_is_current(root: Path) -> bool:
    """Whether ``_build/html`` was made from the files as they are now."""
    stamp = root / "_build" / "html.key"
    return (root / "_build" / "html").is_dir() and stamp.exists() and stamp.read_text() == tree_key(root, SITE_INPUTS)


def keep_only(folder: Path) -> None:
    """Remove the siblings of ``folder``: what was made for another state of the project."""
    if folder.parent.is_dir():
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(other) if other.is_dir() else other.unlink()


def build(root: Path = ROOT) -> int:
    """Build the book of ``root`` and publish it to ``_build/html``; return the exit status."""
    site = root / "_build" / "html"
    fresh = root / "_build" / "html.new"
    work = root / "_build" / "pages" / tree_key(root, PAGE_INPUTS)
    stamp = root / "_build" / "html.key"
    key = tree_key(root, SITE_INPUTS)
    stamp.unlink(missing_ok=True)
    for stale in (site, fresh):
        shutil.rmtree(stale, ignore_errors=True)
    keep_only(work)
    keep_only(execution_cache(root))
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(root), "--path-output", str(work)]
    environment = os.environ | {"PYTHONHASHSEED": "0", "NO_COLOR": "1", "TQDM_DISABLE": "1"}
    # A chapter that writes to stderr fails the build, and Matplotlib does so when it first looks for fonts.
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=True, capture_output=True)
    done = False
    try:
        status = subprocess.run([*command, "-n", "-W", "--keep-going"], cwd=root, env=environment).returncode
        if status == 0:
            shutil.copytree(work / "_build" / "html", fresh)
            finish(fresh, root)
            fresh.rename(site)
            stamp.write_text(key)
            done = True
    finally:
        if not done:
            for unfinished in (work, fresh):
                shutil.rmtree(unfinished, ignore_errors=True)
    return status


def main() -> int:
    """Command line: ``python tools/build_book.py``."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    status = build()
    if status:
        print("the book was not built: see the warnings above, each of which is an error", file=sys.stderr)
    else:
        print("the site is in _build/html")
    return status


if __name__ == "__main__":
    sys.exit(main())

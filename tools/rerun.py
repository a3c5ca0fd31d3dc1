"""Write the chapters that nbval runs in ``make test``: those that the last build has not executed, and quick ones.

What a tagged cell must show is what was accepted of it (``accept.py``). Chapters that the build did execute are not run
a second time, since a test compares what they printed there; the quick ones are, with another order of sets.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
from accept import TAG, expected_file, read_expected
from build_book import chapters
from execute import is_current, last_run, read
from reads import ROOT, code_cells

QUICK = 5  # seconds


def with_expected(notebook: dict[str, Any], expected: dict[str, str]) -> dict[str, Any]:
    """Return a chapter's code with what was accepted as the only outputs."""
    cells = code_cells(notebook)
    for cell in cells:
        cell["metadata"] = {"tags": sorted({"raises-exception", TAG} & set(cell["metadata"].get("tags", [])))}
        if TAG in cell["metadata"]["tags"]:
            text = expected.get(cell["id"], "")
            cell |= {"outputs": [nbformat.v4.new_output("stream", name="stdout", text=text)], "execution_count": 1}
    return notebook | {"cells": cells}


def write_chapters(root: Path) -> list[Path]:
    """Write them into ``_build/rerun``; return which they are."""
    target = root / "_build" / "rerun"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    chosen = []
    for chapter in chapters(root):
        if not is_current(root, chapter) or last_run(root, chapter)["seconds"] <= QUICK:
            chosen.append(chapter)
            path = target / chapter.relative_to(root)
            path.parent.mkdir(parents=True, exist_ok=True)
            expected = read_expected(expected_file(root, chapter))
            path.write_text(json.dumps(with_expected(read(chapter), expected)), encoding="utf-8")
    return chosen


if __name__ == "__main__":
    print(f"nbval runs {', '.join(chapter.stem for chapter in write_chapters(ROOT)) or 'no chapter'}")

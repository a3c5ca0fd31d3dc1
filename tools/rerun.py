"""Write the chapters that nbval runs in ``make test``: of each the cells that a reader sees without unfolding.

A page is a program: these cells run by themselves, in their order, in a new kernel. What a tagged cell must show is
what was accepted of it (``accept.py``).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
from accept import TAG, read_expected
from build_book import chapters
from execute import ROOT, read

HIDDEN = {"remove-cell", "remove-input", "hide-cell", "hide-input"}


def cells_in_sight(notebook: dict[str, Any], expected: dict[str, str]) -> dict[str, Any]:
    """Return a chapter with the code in sight alone, and what was accepted as the only outputs."""
    kept = []
    for cell in notebook["cells"]:
        tags = set(cell["metadata"].get("tags", []))
        if cell["cell_type"] == "code" and not HIDDEN & tags:
            new = nbformat.v4.new_code_cell("".join(cell["source"]), id=cell["id"])
            new.metadata["tags"] = sorted({"raises-exception", TAG} & tags)
            if TAG in tags:
                text = expected.get(cell["id"], "")
                new.outputs, new.execution_count = [nbformat.v4.new_output("stream", name="stdout", text=text)], 1
            kept.append(new)
    return notebook | {"cells": kept}


def write_chapters(root: Path) -> list[Path]:
    """Write them into ``_build/rerun``; return which they are."""
    target, chosen = root / "_build" / "rerun", chapters(root)
    shutil.rmtree(target, ignore_errors=True)
    for chapter in chosen:
        path = target / chapter.relative_to(root)
        path.parent.mkdir(parents=True, exist_ok=True)
        seen = cells_in_sight(read(chapter), read_expected(root, chapter))
        path.write_text(json.dumps(seen), encoding="utf-8")
    return chosen


if __name__ == "__main__":
    print(f"nbval runs what is in sight of {len(write_chapters(ROOT))} chapters")

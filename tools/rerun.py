"""Write the chapters that nbval runs in ``make test``: of each the cells that a reader sees without unfolding.

A page is a program: these cells run by themselves. What a tagged cell must show was accepted of it (``accept.py``).
"""

from __future__ import annotations

import json
import shutil
from typing import Any

from accept import TAG, read_expected
from build_book import chapters
from execute import ROOT, read
from nbformat.v4 import new_code_cell, new_output

HIDDEN = {"remove-cell", "remove-input", "hide-cell", "hide-input"}


def cells_in_sight(notebook: dict[str, Any], expected: dict[str, str]) -> dict[str, Any]:
    """Return a chapter with the code in sight alone, and what was accepted as the only outputs."""
    kept = []
    for cell in notebook["cells"]:
        tags = {*cell["metadata"].get("tags", [])}
        if cell["cell_type"] == "code" and not HIDDEN & tags:
            shown = [new_output("stream", text=expected.get(cell["id"], ""))] if TAG in tags else []
            asked = {"tags": sorted({"raises-exception", TAG} & tags)}
            new = {"id": cell["id"], "metadata": asked, "outputs": shown, "execution_count": 1}  # or nbval reads none
            kept.append(new_code_cell("".join(cell["source"]), **new))
    return notebook | {"cells": kept}


if __name__ == "__main__":
    shutil.rmtree(ROOT / "_build" / "rerun", ignore_errors=True)
    for chapter in chapters(ROOT):
        path = ROOT / "_build" / "rerun" / chapter.relative_to(ROOT)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(cells_in_sight(read(chapter), read_expected(ROOT, chapter))), encoding="utf-8")

"""Which cells of a chapter are run a second time, and what becomes of a number that differs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import compare
import nbformat
import pytest

CELLS = [
    "import torch\nfrom numpy import pi",
    "generator = torch.Generator().manual_seed(0)",
    "def show(x):\n    return f'{x:.2f}'",
    "unused = show(3)",
    "rows = []",
    "rows.append(torch.rand(1, generator=generator).item())",
    "other = torch.rand(1, generator=generator)",
    "table = {}",
    "table['first'] = rows[0]",
    "print(table)",  # compared
    "print(unused)",
]


def cells(sources: list[str], *compared: int) -> list[dict[str, Any]]:
    return [
        nbformat.v4.new_code_cell(
            source, id=f"code-{number}", metadata={"tags": [compare.TAG] if number in compared else []}
        )
        for number, source in enumerate(sources)
    ]


@pytest.mark.parametrize(("compared", "kept"), [(9, [0, 1, 4, 5, 7, 8, 9]), (10, [2, 3, 10]), (0, [0]), (None, [])])
def test_only_what_a_compared_cell_needs_is_run(compared: int | None, kept: list[int]) -> None:
    keep = compare.needed(cells(CELLS, *([] if compared is None else [compared])))
    assert [number for number, each in enumerate(keep) if each] == kept


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("axes[0].set_title('x')", {"axes"}),
        ("model.layer.weight = w", {"model"}),
        ("for name, value in pairs: total += value", {"name", "value", "total"}),
        ("x = torch.rand(2)", {"x", "torch"}),
        ("x = rng.normal(size=2)", {"x", "rng"}),
        ("fill(rows, 3)", {"rows"}),
        ("print(rows)", set()),
        ("import matplotlib.pyplot as plt", {"plt"}),
        ("x = scores.mean()", {"x"}),
    ],
)
def test_what_a_cell_sets_or_changes_is_known(source: str, changed: set[str]) -> None:
    assert compare.names(__import__("ast").parse(source))[0] == changed


@pytest.mark.parametrize("second", ["1", "2"])
def test_a_number_that_differs_fails(tmp_path: Path, second: str) -> None:
    (shown,) = cells([f"print('mean', {second})"], 0)
    shown.execution_count = 1
    shown.outputs = [nbformat.v4.new_output("stream", name="stdout", text="mean 1\n")]
    notebook = nbformat.v4.new_notebook(
        cells=[shown], metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )
    (tmp_path / "chapter.ipynb").write_text(json.dumps(compare.cut(notebook, compared=True)))
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "-q", "-p", "no:cacheprovider", "chapter.ipynb"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode == 0) == (second == "1"), run.stdout


def test_without_a_build_the_whole_chapter_is_run_and_nothing_compared() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("Words."), *cells(CELLS, 9)])
    short = compare.cut(notebook, compared=False)
    assert len(short["cells"]) == len(CELLS)
    assert not any(cell["metadata"]["tags"] for cell in short["cells"])


def test_chapters_have_numbers_to_compare(root: Path) -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (root / "book").rglob("*.ipynb")}
    assert not [name for name, text in texts.items() if f'"{compare.TAG}"' not in text]

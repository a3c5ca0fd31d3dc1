"""Which cells of a chapter are run a second time, and what becomes of a number that differs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import compare
import nbformat
import pytest
from jupyter_kernels import stop_in_time

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
        ("x = task.sample(3, torch.Generator().manual_seed(0))", {"x", "task"}),
        ("fill(rows, 3)", {"rows"}),
        ("print(rows)", set()),
        ("import matplotlib.pyplot as plt", {"plt"}),
        ("x = scores.mean()", {"x"}),
    ],
)
def test_what_a_cell_sets_or_changes_is_known(source: str, changed: set[str]) -> None:
    assert compare.names(source).changed == changed


@pytest.mark.parametrize(
    ("sources", "kept"),
    [
        (["model = 1", "model = 2\nprint(model)"], [1]),  # set anew before it is used
        (["model = 1", "if flag:\n    model = 2", "print(model)"], [0, 1, 2]),  # perhaps not set anew
        (["model = 1", "model += 1", "print(model)"], [0, 1, 2]),
        (["x = 1", "with open_file() as x:\n    x.read()\nprint(x)"], [1]),
        (["x = 1", "for x in range(3):\n    total = x\nprint(total, x)"], [1]),
        (["x = 1", "print([x for x in range(3)])"], [1]),  # a name of its own
        (["x = 1", "def f(x):\n    y = x\n    return y\nprint(f(2))"], [1]),
        (["def f():\n    return x", "x = 1", "x = 2\ny = 3", "print(f())"], [0, 1, 2, 3]),  # looks x up when called
        (["f = lambda: x", "x = 1", "print(f())"], [0, 1, 2]),
        (["x = 1", "def g():\n    return x", "x = 2\nprint(3)"], [2]),
        (["import numpy as np", "C = [1]", "np.fill_diagonal(C, 0)", "print(C)"], [0, 1, 2, 3]),
        (["from posym_core.figures import plots", "C = 1", "plots.curve(C)", "print(plots, C)"], [0, 1, 3]),
        (["from posym_companion.book import say", "C = 1", "say(C)", "print(say, C)"], [0, 1, 3]),
        (["from posym_companion.book import Table", "t = Table('a')", "t.add(1)", "print(t)"], [0, 1, 2, 3]),
        (["x = 1", "print(x)", "x = 2"], [0, 1]),
    ],
)
def test_a_name_is_followed_from_where_it_is_set_to_where_it_is_used(sources: list[str], kept: list[int]) -> None:
    compared = max(number for number, source in enumerate(sources) if "print" in source)
    assert [number for number, each in enumerate(compare.needed(cells(sources, compared))) if each] == kept


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


class Blocking:
    """A kernel whose sockets never close."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "600"])
        self.km = SimpleNamespace(provisioner=SimpleNamespace(pid=self.process.pid))
        self.never = threading.Event()

    def stop(self) -> None:
        self.never.wait()


def test_a_kernel_that_does_not_stop_is_killed_and_holds_nothing_up():
    class Kernel(Blocking):
        pass

    stop_in_time(0.1, Kernel)
    kernel = Kernel()
    kernel.stop()
    assert kernel.process.wait(10) == -signal.SIGKILL
    kernel.never.set()


def test_a_kernel_that_stops_is_left_alone():
    class Kernel(Blocking):
        pass

    stop_in_time(10, Kernel)
    kernel = Kernel()
    kernel.never.set()
    kernel.stop()
    assert kernel.process.poll() is None
    kernel.process.kill()
    kernel.process.wait()

"""What a chapter depends on: of what it read, contents that can change its outputs, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import reads

FILES = {
    "posym_core/metrics/_swaps.py": 'def swap_scores():\n    "Docstring."\n    return 1',
    "results/heads/all.json": "1",
    "book/part/other.ipynb": '{"tags": ["shows-u25-1"]}',
    "requirements.txt": "torch==2",
}
READS = ["book/part/other.ipynb", "posym_core/metrics", "posym_core/metrics/_swaps.py", "results/heads"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def notebook(source: str, *tags: str) -> dict[str, Any]:
    return {"cells": [{"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source.splitlines(True)}]}


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("posym_core/metrics/_swaps.py", "def swap_scores():\n    return 2", True),
        ("posym_core/metrics/_swaps.py", "def swap_scores():\n    'Another.'\n    return  1  # at once", False),
        ("posym_core/metrics/_more.py", "", True),  # a folder that was listed has one more
        ("posym_core/metrics/__pycache__", None, False),
        ("posym_core/other.py", "", False),
        ("results/heads/all.json", "22", True),  # a folder of results was listed with sizes
        ("results/heads/more.json", "1", True),
        ("book/part/other.ipynb", '{"text": "words", "tags": ["shows-u25-1"]}', False),
        ("book/part/other.ipynb", '{"tags": ["live-u25-1"]}', True),
        ("requirements.txt", "torch==3", True),
        ("requirements-bare.txt", "weights==1", True),
        ("tools/execute.py", "1", True),
    ],
)
def test_a_change_counts_where_it_was_read(project: Path, name: str, text: str | None, counts: bool) -> None:
    before = reads.make_key(project, notebook("1"), READS)
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if text is None else path.write_text(text)
    assert (reads.make_key(project, notebook("1"), READS) != before) == counts

"""What a chapter depends on: a made-up project in which each change concerns some chapters and not others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import closure
import pytest

FILES = {
    "posym_core/__init__.py": "from posym_core.metrics._swaps import swap_scores",
    "posym_core/__main__.py": "from posym_core.tasks import other",
    "posym_core/py.typed": "",
    "posym_core/checks.py": "def require(x): return x",
    "posym_core/metrics/__init__.py": """
        from posym_core.metrics._swaps import swap_scores
        from posym_core.metrics._rope import rotate as turn
        def local(): return 1""",
    "posym_core/metrics/_swaps.py": """
        from posym_core._checks import require
        def swap_scores():
            "Docstring."
            return 1""",
    "posym_core/metrics/_rope.py": "def rotate():\n    from posym_core.tasks import words\n    return words",
    "posym_core/tasks/__init__.py": "",
    "posym_core/tasks/words.py": "TEXT = open('words.txt').read()",
    "posym_core/tasks/words.txt": "one two",
    "posym_core/tasks/other.py": "",
    "posym_core/figures/__init__.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from posym_core.figures.plots import plot
        def __getattr__(name): ...""",
    "posym_core/figures/plots.py": "def plot(): ...",
    "posym_core/figures/sliders.py": "",
    "posym_core/figures/static/figure.js": "draw()",
    "posym_core/figures/static/lines.js": "line()",
    "posym_companion/__init__.py": "",
    "posym_companion/one_head/__init__.py": "",
    "posym_companion/one_head/drawn.py": "from posym_core.figures import sliders\npage('lines.js')",
    "posym_companion/one_head/heads.py": "from posym_core.metrics import swap_scores",
    "posym_companion/catalogue.py": """
        import importlib
        def experiment(name): return importlib.import_module("posym_companion.one_head." + name)""",
    "posym_companion/ledger/__init__.py": "from posym_companion.ledger.rows import ledger",
    "posym_companion/ledger/rows.py": """
        from posym_companion.claims import judge
        def ledger(*ids): return [judge(name) for name in ids]""",
    "posym_companion/claims.py": """
        import importlib
        FILE = "claims.toml"
        def judge(name): return importlib.import_module(f"posym_companion.{name}")""",
    "posym_companion/claims.toml": """
        [U25-1]
        judge = "one_head.judges.heads:exclusion"
        [T-1]
        [T-1G]
        column_of = "T-1"
        judge = "one_head.judges.hops:order"
        """,
    "posym_companion/one_head/judges/heads.py": "",
    "posym_companion/one_head/judges/hops.py": "",
    "results/heads/all.json": "1",
    "results/hops/all.json": "1",
    "posym_companion/cards.py": "",
    "benchmarks/devices/card.json": "1",
    "benchmarks/devices/card.md": "# card",
    "requirements.txt": "torch==2",
    "requirements-bare.txt": "weights==1",
    "book/other.ipynb": '{"tags": ["shows-u25-1"]}',
}
CHAPTERS = {
    "swaps": "from posym_core.metrics import swap_scores",
    "verb": "from posym_core import swap_scores",
    "rope": "from posym_core.metrics import turn",
    "local": "from posym_core.metrics import local",
    "plots": "from posym_core.figures import plot",
    "sliders": "from posym_core.figures import sliders",
    "experiment": "from posym_companion.one_head import heads",
    "drawn": "from posym_companion.one_head import drawn",
    "catalogue": "from posym_companion import catalogue",
    "named": "load(f'hops/{setting}')",
    "row": "from posym_companion.ledger import ledger\nledger('U25-1')",
    "taught": "from posym_companion.ledger import load_claim\nclaim('T-1G')",
    "columns": "from posym_companion.ledger import ledger\nledger('T-1')",
    "rows": "from posym_companion.ledger import ledger\nledger()",
    "neighbours": "open('other.ipynb')",
    "command": "run(['-m', 'posym_core'])",
    "cards": "from posym_companion import cards",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("\n".join(line.removeprefix("        ") for line in text.split("\n")))
    return tmp_path


def notebook(source: str, *tags: str) -> dict[str, Any]:
    return {"cells": [{"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source.splitlines(True)}]}


def keys(project: Path) -> dict[str, str]:
    return {name: closure.Project(project).key(notebook(source)) for name, source in CHAPTERS.items()}


@pytest.mark.parametrize(
    ("name", "concerned"),
    [
        ("posym_core/metrics/_swaps.py", "swaps verb experiment catalogue local"),
        ("posym_core/checks.py", "swaps verb experiment catalogue local"),
        ("posym_core/metrics/_rope.py", "rope local"),
        ("posym_core/tasks/words.py", "rope local"),
        ("posym_core/tasks/words.txt", "rope local"),
        ("posym_core/tasks/other.py", "command"),
        ("posym_core/metrics/__init__.py", "local"),  # where a name comes from, not what the face is made of
        ("posym_core/figures/plots.py", "plots"),
        (
            "posym_core/figures/static/figure.js",
            "plots sliders drawn catalogue",
        ),  # no module names it, so it belongs to all
        ("posym_core/figures/static/lines.js", "drawn catalogue"),  # a module of another room names it
        ("posym_core/py.typed", ""),
        ("posym_companion/one_head/heads.py", "experiment catalogue"),
        ("results/heads/all.json", "experiment catalogue row rows"),
        ("results/hops/all.json", "named taught columns rows"),
        ("posym_companion/one_head/judges/heads.py", "row rows"),
        ("posym_companion/one_head/judges/hops.py", "taught columns rows"),
        ("posym_companion/claims.toml", "row taught columns rows"),
        ("benchmarks/devices/card.json", "cards"),
        ("benchmarks/devices/card.md", ""),
        ("requirements.txt", " ".join(CHAPTERS)),
        ("requirements-bare.txt", " ".join(CHAPTERS)),
    ],
)
def test_a_change_concerns_the_chapters_that_use_it(project: Path, name: str, concerned: str) -> None:
    before = keys(project)
    with (project / name).open("a") as file:
        file.write("\nchanged = 1\n")
    after = keys(project)
    assert {chapter for chapter in CHAPTERS if before[chapter] != after[chapter]} == set(concerned.split())


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("posym_core/metrics/_swaps.py", '"Docstring."', '"Another."'),
        ("posym_core/metrics/_swaps.py", "return 1", "return  1  # at once"),
    ],
)
def test_words_about_code_concern_no_chapter(project: Path, name: str, old: str, new: str) -> None:
    before = keys(project)
    text = (project / name).read_text()
    (project / name).write_text(text.replace(old, new))
    assert text != (project / name).read_text()
    assert keys(project) == before


def test_a_name_that_comes_from_elsewhere_concerns_its_chapters(project: Path) -> None:
    before = keys(project)
    face = project / "posym_core" / "metrics" / "__init__.py"
    face.write_text(
        face.read_text().replace("posym_core.metrics._rope import rotate", "posym_core._checks import require")
    )
    assert {name for name, key in keys(project).items() if key != before[name]} == {"rope", "local"}


def test_moved_claims_concern_chapters_that_read_their_neighbours(project: Path) -> None:
    before = keys(project)
    (project / "book" / "other.ipynb").write_text('{"tags": ["live-u25-1"], "text": "more"}')
    assert {name for name, key in keys(project).items() if key != before[name]} == {"neighbours"}


def test_code_of_cells_counts_and_text_does_not(project: Path) -> None:
    known = closure.Project(project)
    key = known.key(notebook("1 + 1"))
    words = {"cell_type": "markdown", "metadata": {}, "source": ["More words."]}
    assert known.key({"cells": [words, *notebook("1 + 1")["cells"]]}) == key
    assert known.key(notebook("1 + 2")) != key
    assert known.key(notebook("1 + 1", "raises-exception")) != key
    assert known.key(notebook("1 + 1", "hide-input")) == key


def test_a_tag_names_a_claim_too(project: Path) -> None:
    source = "from posym_companion.ledger import ledger\nledger(*names)"
    behind = closure.Project(project).behind(notebook(source, "shows-t-1g"))
    assert project / "posym_companion/one_head/judges/hops.py" in behind
    assert project / "posym_companion/one_head/judges/heads.py" not in behind


def test_relative_imports_are_refused(project: Path) -> None:
    (project / "posym_core" / "checks.py").write_text("from . import metrics")
    with pytest.raises(ValueError, match="`from \\. import metrics` is relative; name the module in full"):
        closure.Project(project).behind(notebook("from posym_core._checks import require"))


def test_chapters_of_this_book_depend_on_less_than_everything(root: Path) -> None:
    project = closure.Project(root)
    modules = {path for name in closure.PACKAGES for path in (root / name).rglob("*.py")}
    for chapter in (root / "book").rglob("*.ipynb"):
        behind = project.behind(json.loads(chapter.read_text(encoding="utf-8")))
        assert len(behind & modules) < 0.85 * len(modules), chapter.name


@pytest.mark.parametrize("registry", ["posym_profile/prompts/_prompt_tasks.py", "posym_core/encodings/_registry.py"])
def test_a_registry_brings_all_files_that_register_themselves(root: Path, registry: str) -> None:
    """No line imports them, so a chapter would not be executed again when one changes."""
    reached = closure.Project(root).closure([root / registry])
    assert set((root / registry).parent.glob("*.py")) <= reached

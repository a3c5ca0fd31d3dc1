"""What was accepted is held: words to the letter, numbers but for rounding, cells and chapters all of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import accept
import nbformat
import pytest
import rerun
from build_book import chapters
from execute import ROOT, executed, is_current, read

from posym_companion.claims.rows import Answer, Asked, Row


@pytest.mark.parametrize("chapter", chapters(ROOT), ids=lambda chapter: chapter.stem)
def test_a_chapter_prints_what_was_accepted(chapter: Path, continuous_integration: bool) -> None:
    accepted = accept.read_expected(ROOT, chapter)
    assert list(accept.read_tagged(read(chapter))) == list(accepted), "every cell that is held has been accepted"
    # These two quote numbers of other chapters alone.
    assert accepted or chapter.stem in {"what_came_after", "your_facts"}
    if not is_current(ROOT, chapter):
        assert not continuous_integration, "`make book` has not executed it"
        pytest.skip("`make book` has not executed it; nbval does, and compares")
    wrong = [*accept.differences(accepted, accept.read_tagged(read(executed(ROOT, chapter))))]
    assert not wrong, f"if this is meant, run `make accept` and say why in the commit: {wrong}"


@pytest.mark.parametrize(
    ("accepted", "found", "same"),
    [
        ("the mean is 0.44", "the mean is 0.45", True),  # another processor rounds 0.445 the other way
        ("the mean is 0.44", "the mean is 0.46", False),
        ("the mean is 0.440", "the mean is 0.442", False),
        ("the mean is 0.44", "the median is 0.44", False),
        ("the mean is 0.44", "the mean is nan", False),
        ("the mean is −0.44", "the mean is 0.44", False),
        ("the mean is -0.00", "the mean is 0.00", True),
        ("0.85–0.90", "0.85–0.92", False),
        ("1,000 of 1,000", "1,001 of 1,000", False),
        ("88 % of heads", "89 % of heads", True),
        ("88 % of heads", "90 % of heads", False),
        ("88 % of heads", "88 of heads", False),
        ("off by 9e-08", "off by 0", True),
        ("off by 9e-08", "off by 2e-03", False),
        ("up to 7.8e-03", "up to 8.2e-03", False),
        ("code 932d5104", "code 932d5105", False),
        ("gemma-3-270m", "gemma-2-270m", False),
        ("a\nb 0.1", "a\nb 0.1\nc", False),
        ({"seed 0": 0.123456}, {"seed 0": 0.123457}, True),
        ({"seed 0": 0.123456}, {"seed 0": 0.123556}, False),
        ({"seed 0": 3e-32}, {"seed 0": 5e-33}, True),
        ({"seed 0": 0.5}, {"seed 1": 0.5}, False),
        ([0.5, 0.4, 0.6], [0.5, 0.4, 0.61], False),
        ([0.5, 0.4], [0.5], False),
        (3, 4, False),
        (1, True, False),
    ],
)
def test_what_was_accepted_is_held_but_for_rounding(accepted: Any, found: Any, same: bool) -> None:
    assert (not [*accept.differences(accepted, found)]) == same
    assert (not [*accept.differences(found, accepted)]) == same


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A book of one chapter, and what executes it and accepts it: what its cell prints, and another row's number."""
    (tmp_path / accept.LOCK).parent.mkdir(parents=True)
    (tmp_path / accept.LOCK).write_text("{}")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/chapter\n")
    cells = [nbformat.v4.new_markdown_cell("# Chapter"), nbformat.v4.new_code_cell("print(share)", id="share")]
    cells[1].metadata["tags"] = [accept.TAG]
    notebook = nbformat.v4.new_notebook(cells=cells)
    chapter = tmp_path / "book" / "chapter.ipynb"
    for path in (chapter, executed(tmp_path, chapter)):
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
    (tmp_path / accept.EXPECTED).mkdir()
    (tmp_path / accept.EXPECTED / "gone.md").touch()

    def accepted(text: str, number: float) -> list[str]:
        cells[1].outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
        nbformat.write(notebook, executed(tmp_path, chapter))
        part = Asked(name="share", asks="size", held=1, told=1, numbers={"seed 0": number})
        answers = {"toys": Answer(grade="holds", parts=[part])}
        words = dict.fromkeys(("short", "paper", "at", "quote", "asks", "chapter", "fixed"), "")
        row = Row(id="T-1", grade="holds", answers=answers, **words)  # pyright: ignore[reportArgumentType]
        monkeypatch.setattr(accept, "judge_rows", lambda: {"T-1": asdict(row)})
        return accept.accept(tmp_path)

    return tmp_path, accepted


def test_what_is_accepted_is_said_and_rounding_is_left_as_it_was(book: Any) -> None:
    root, accepted = book
    assert [line.partition(": null was accepted")[0] for line in accepted("share 0.44\n", 0.441234)] == [
        "chapter | share",
        "T-1",
    ]
    page, lock = root / accept.EXPECTED / "chapter.md", root / accept.LOCK
    before = page.read_bytes(), lock.read_bytes()
    assert [*page.parent.iterdir()] == [page]
    assert before[0] == b"<!-- cell share -->\nshare 0.44\n"
    assert accepted("share 0.45\n", 0.441235) == []
    assert (page.read_bytes(), lock.read_bytes()) == before
    assert accepted("share 0.48\n", 0.48) == [
        "chapter | share: 'share 0.44' was accepted, 'share 0.48' is found",
        "T-1 | answers | toys | parts | share | numbers | seed 0: 0.441234 was accepted, 0.48 is found",
    ]
    assert page.read_text() == "<!-- cell share -->\nshare 0.48\n"


def test_nbval_compares_with_what_was_accepted(tmp_path: Path) -> None:
    for prints in ("0.45", "0.47", "nan"):
        cells = [nbformat.v4.new_code_cell(f"x = '{prints}'"), nbformat.v4.new_code_cell("print('mean', x)", id="mean")]
        cells[1].metadata["tags"] = [accept.TAG]
        notebook = nbformat.v4.new_notebook(
            cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        )
        staged = rerun.cells_in_sight(notebook, {"mean": "mean 0.44"})
        (tmp_path / f"{prints}.ipynb").write_text(json.dumps(staged))
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path[:0] = {[str(ROOT / 'tools'), str(ROOT / 'tests' / 'helpers')]}\n"
        "from jupyter_kernels import compare_with_accepted\ncompare_with_accepted()\n"
    )
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "-qrA", "-p", "no:cacheprovider", "."]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert set(re.findall(r"^FAILED (\S+)\.ipynb::Cell 1", run.stdout, re.M)) == {"0.47", "nan"}, run.stdout
    assert "'mean 0.44' was accepted, 'mean 0.47' is found" in run.stdout
    assert "4 passed" in run.stdout

"""Words in sight: what the counter counts, and that pages and the whole path stay readable."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
import words

ROOT = Path(__file__).resolve().parents[2]
LONGEST_PAGE = 2500
LONGEST_PATH = 40_000

COUNTED = {
    "# A title\n\nTwo words\nand three, **bold** ones.": 8,
    "The head's 0.85, 2,500 and its well-known cost.": 8,
    "One [long link](scores.ipynb#the-rule) and `posym_core.profile`.": 5,
    "* one\n* two\n\n> three": 3,
    "Let $a = b$ and\n\n$$\nc = d + e\n$$\n\n\\begin{align}\nf\n\\end{align}\n\nend.": 3,
    "Said by {cite:t}`urrutia2026` in {eq}`law` and {prf:ref}`thm-a`.": 6,
    "![four words not read](x.png) here": 1,
    "```python\nx = one + two\n```\n\n    indented code\n\nend": 1,
    "| a | b |\n| - | - |\n| c | d |\n\nend": 1,
    ":::{prf:theorem} A name\n:label: thm-a\nThree words here.\n:::": 5,
    ":::{prf:proof}\n:class: dropdown\nNot in sight.\n:::\n\nend": 1,
    ":::{admonition} Its title counts\n:class: dropdown note\nThis does not.\n:::": 3,
    "````{exercise}\n:label: x\nOne.\n```{math}\na\n```\n:::{note}\nTwo.\n:::\n````": 2,
    "```{bibliography}\n:style: unsrt\n```": 0,
}


@pytest.mark.parametrize(("text", "count"), COUNTED.items())
def test_text_in_sight_is_counted(text: str, count: int) -> None:
    assert words.words(text) == count


def test_cells_of_code_and_what_they_show_do_not_count(tmp_path: Path) -> None:
    shown = nbformat.v4.new_output("stream", text="said by a cell")
    cells = [nbformat.v4.new_markdown_cell("# Three short words"), nbformat.v4.new_code_cell("a = 1", outputs=[shown])]
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_markdown_cell("And one.")]), path)
    assert words.words_in_sight(path) == 5


def test_the_reading_path_leaves_out_what_is_looked_up() -> None:
    path, pages = list(words.reading_path(ROOT)), list(words.pages(ROOT))
    assert path == pages[: len(path)]
    assert "book/fifteen_minutes" in path
    assert {name.split("/")[1] for name in pages[len(path) :]} == {"reference", "package"}


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    return {name: words.words_in_sight(path) for name, path in words.reading_path(ROOT).items()}


def test_pages_are_short(counts: dict[str, int]) -> None:
    longer = {name: count for name, count in counts.items() if count > LONGEST_PAGE}
    assert not longer, "fold or merge what is too long"


def test_the_whole_path_is_read_in_an_evening(counts: dict[str, int]) -> None:
    assert sum(counts.values()) <= LONGEST_PATH

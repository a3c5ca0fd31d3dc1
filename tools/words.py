"""Words in sight: how much a built page gives to read before anything is unfolded.

``python tools/words.py`` prints a table of all pages in ``_build/html``. Counted is what a browser shows: paragraphs,
items, captions, headings and definitions, whether they are written in the chapter or printed by its cells. Not counted
are tables, code, formulas, the controls and drawings of figures, badges (a claim's id and grade), and folds with their
titles.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bs4 import BeautifulSoup, Tag
from reads import ROOT
from sphinx_external_toc.parsing import parse_toc_yaml

WORDS_A_MINUTE = 200
# Pages to look things up in: nobody reads them from front to back.
LOOKED_UP = ("book/reference/", "book/package/")
FOLDED = "script, style, noscript, details, .dropdown, .toggle, .headerlink, .cell_input, [hidden]"
NO_PROSE = (
    "pre, table, .highlight, svg, .posym-sliders, .posym-drawing, select, output, mjx-container, .math, "
    ".posym-minutes, .posym-badge"
)
BLOCKS = ("p", "li", "dd", "figcaption", "h1", "h2", "h3")


class Count(NamedTuple):
    """What a page gives to read.

    Attributes:
        words: in sight, those that cells print included.
        tabled: words and numbers in tables in sight, which are not among ``words``.
    """

    words: int
    tabled: int

    @property
    def minutes(self) -> int:
        """How long that takes to read, tables at half the speed of prose, figures not included."""
        return max(1, round((self.words + 2 * self.tabled) / WORDS_A_MINUTE))


def words_in_sight(page: str) -> Count:
    """Count the words of a built page."""
    article = BeautifulSoup(page, "html.parser").select_one("article")
    if article is None:
        return Count(0, 0)
    for part in article.select(FOLDED):
        part.decompose()
    tabled = sum(_length(cell) for cell in article.select("td, th"))
    for part in article.select(NO_PROSE):
        part.decompose()
    blocks = [block for block in article.find_all(BLOCKS) if block.find_parent(BLOCKS) is None]
    return Count(sum(map(_length, blocks)), tabled)


def _length(block: Tag) -> int:
    return len(block.get_text(" ").split())


def pages(root: Path) -> dict[str, Path]:
    """The pages of the table of contents in its order, by name."""
    named = ((name, root / f"{name}{end}") for name in parse_toc_yaml(root / "_toc.yml") for end in (".ipynb", ".md"))
    return {name: path for name, path in named if path.is_file()}


def reading_path(root: Path) -> dict[str, Path]:
    """The pages that are read from front to back, in order, by name."""
    return {name: path for name, path in pages(root).items() if not name.startswith(LOOKED_UP)}


if __name__ == "__main__":
    for name in pages(ROOT):
        count = words_in_sight((ROOT / "_build" / "html" / f"{name}.html").read_text(encoding="utf-8"))
        print(f"{count.words:7,} words {count.minutes:4} min  {name}")

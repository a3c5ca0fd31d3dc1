"""No term before its definition: where the reading path first uses one, the glossary says that it is explained."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import book_site
import build_book
import nbformat
import pytest
from docutils import nodes
from docutils.core import publish_doctree

ROOT = Path(__file__).resolve().parents[2]
# Pages that say what comes: they link the chapters that explain.
IN_SHORT = ("book/introduction", "book/fifteen_minutes", "book/your_facts")
LINK = re.compile(r"\]\((?P<to>[\w./-]+?)\.(?:ipynb|md)")
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\{[\w:]+\}", re.DOTALL)


def linked(text: str, folder: Path) -> set[str]:
    """The pages that a text links, by name, seen from the folder in which it stands."""
    return {(folder / link["to"]).resolve().relative_to(ROOT).as_posix() for link in LINK.finditer(text)}


def entries() -> dict[tuple[str, ...], set[str]]:
    """The names of each term, with the pages to which its entry sends the reader."""
    path = ROOT / "book" / "reference" / "glossary.md"
    body = path.read_text(encoding="utf-8").partition("```{glossary}\n")[2].removesuffix("```\n")
    found = {}
    for entry in body.strip().split("\n\n"):
        names, _, text = entry.partition("\n")
        terms = tuple(name.strip() for name in FORMULA.sub("", names).split(",") if name.strip())
        found[terms] = linked(text, path.parent)
    return found


def paragraphs() -> list[tuple[str, str]]:
    """The prose of the reading path in order: the name of the page, and a paragraph."""
    found = []
    for name, path in build_book.pages(ROOT).items():
        if name not in IN_SHORT and not name.startswith(("book/reference/", "book/package/")):
            cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
            found += [(name, text) for cell in cells for text in cell.split("\n\n")]
    return found


PROSE = paragraphs()


@pytest.mark.parametrize(("terms", "explained"), entries().items())
def test_a_term_is_first_used_where_it_is_explained(terms: tuple[str, ...], explained: set[str]) -> None:
    assert explained, "the entry names no page"
    assert all((ROOT / f"{name}.ipynb").is_file() for name in explained)
    any_name = re.compile("|".join(map(book_site.pattern_of, terms)))
    uses = ((name, text) for name, text in PROSE if any_name.search(FORMULA.sub(" ", text)))
    name, text = next(uses, ("", ""))
    here = not name or name in explained or linked(text, (ROOT / name).parent) & explained
    assert here, f"{name} uses it first, without a link to its explanation: {text[:200]}"


def test_the_first_mention_of_a_term_is_a_link_that_says_what_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = {"Pure head": ("term-Pure-head", "One score near 1."), "Index": ("term-Index", "A task.")}
    monkeypatch.setattr(book_site, "list_terms", lambda _: terms)
    doctree = publish_doctree("Not ``pure head`` nor an index, but two *pure heads*, a pure head and Index.")
    app = SimpleNamespace(
        env=SimpleNamespace(all_docs={book_site.GLOSSARY}),
        builder=SimpleNamespace(get_relative_uri=lambda page, to: "glossary.html"),
    )
    book_site.mark_terms(app, doctree, "book/page")
    assert [(link.astext(), link["refuri"], link["reftitle"]) for link in doctree.findall(nodes.reference)] == [
        ("pure heads", "glossary.html#term-Pure-head", "One score near 1."),
        ("Index", "glossary.html#term-Index", "A task."),
    ]
    assert doctree.astext().endswith("two pure heads, a pure head and Index.")

"""How papers are cited: by tags where they have them, never two alike, and under the titles of the list."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from execute import PACKAGES
from pybtex.database import BibliographyData, parse_file

from posym_companion.claims import G26
from posym_companion.claims.rows import read_rows

ROOT = Path(__file__).resolve().parents[2]
ARXIV = re.compile(r"arxiv(?:\.org/(?:abs|pdf)/|:| )(\d{4}\.\d{4,5})", re.IGNORECASE)


@pytest.fixture(scope="module")
def papers() -> BibliographyData:
    return parse_file(ROOT / "book" / "references.bib")


def texts() -> Iterator[tuple[str, str]]:
    """Pages, code and what stands beside them, by name, with lines joined; of a notebook the sources of its cells."""
    found = [path for folder in ("book", *PACKAGES) for path in (ROOT / folder).rglob("*")]
    for path in (*found, ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CITATION.cff"):
        if path.suffix in {".py", ".md", ".toml", ".ipynb", ".cff"}:
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".ipynb":
                text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
            yield str(path.relative_to(ROOT)), " ".join(text.split())


def titles(papers: BibliographyData) -> set[str]:
    return {re.sub("[{}]", "", entry.fields["title"]) for entry in papers.entries.values()}


def opening(title: str) -> str:
    """The three words by which a title is known."""
    return " ".join(title.split()[:3]).rstrip(":,?!")


def misnamed(text: str, known: set[str]) -> list[str]:
    """Titles in italics or of links that begin as one of the list does, but are not it or its part before a colon."""
    allowed = {name.casefold() for title in known for name in (title, title.partition(":")[0])}
    opened = "|".join(re.escape(opening(title)) for title in known)
    named = re.findall(rf"[*\[]((?:{opened})\b[^*\]]*)[*\]]", text)
    return [title for title in named if title.rstrip(".").casefold() not in allowed]


def test_no_two_papers_are_cited_alike_and_three_have_tags(papers: BibliographyData) -> None:
    entries = papers.entries.values()
    cited = [("".join(entry.persons["author"][0].last_names), entry.fields["year"]) for entry in entries]
    assert not [one for one in cited if cited.count(one) > 1]
    assert {year[-3:] for _, year in cited if not year.isdigit()} >= {"U25", "U26", "G26"}


def test_pages_cite_papers_and_do_not_link_them() -> None:
    linked = {name: re.findall(r"arxiv\.org/\S+", text) for name, text in texts() if name.startswith("book/")}
    assert not {name: links for name, links in linked.items() if links}, "cite an entry of book/references.bib instead"


def test_every_arxiv_number_is_one_of_the_list(papers: BibliographyData) -> None:
    listed = {number for entry in papers.entries.values() for number in ARXIV.findall(" ".join(entry.fields.values()))}
    named = {(number, name) for name, text in texts() for number in ARXIV.findall(text)}
    assert len(named) > 5
    assert not {(number, name) for number, name in named if number not in listed}


def test_papers_are_named_by_their_titles(papers: BibliographyData) -> None:
    wrong = {name: misnamed(text, titles(papers)) for name, text in texts()}
    assert not {name: found for name, found in wrong.items() if found}


def test_the_citation_file_names_papers_as_the_list_does(papers: BibliographyData) -> None:
    listed = {entry.fields["url"]: entry.fields["title"] for entry in papers.entries.values() if "url" in entry.fields}
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    assert {one["title"] for one in references} == {re.sub("[{}]", "", listed[one["url"]]) for one in references}


def test_the_code_of_the_three_papers_is_linked(papers: BibliographyData) -> None:
    pages, notes = dict(texts()), [entry.fields.get("note", "") for entry in papers.entries.values()]
    code = [link for note in notes for link in re.findall(r"code: \\url\{(.*?)\}", note)]
    assert len(code) == 3
    for name in ("README.md", "book/introduction.ipynb"):
        assert not [link for link in code if f"]({link})" not in pages[name]]


def test_rows_on_the_paper_with_two_versions_say_which_they_mean() -> None:
    papers = {row.id: row.at for row in read_rows() if row.paper == G26}
    assert papers
    # The abstract is the same in both.
    assert not {name: at for name, at in papers.items() if "version" not in at and at != "abstract"}

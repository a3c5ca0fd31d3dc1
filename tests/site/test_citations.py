"""How papers are cited: by their tags where they have one, and never two of them alike."""

from __future__ import annotations

from pathlib import Path

import citations
import pytest
from pybtex.database import Entry, Person, parse_file
from pybtex.plugin import find_plugin
from pybtex.style.template import field, join
from sphinxcontrib.bibtex.plugin import find_plugin as find_references

TAGGED = Entry("misc", {"year": "2026", "shorthand": "U25"}, {"author": [Person("Urrutia, Felipe")]})
DATED = Entry("misc", {"year": "2024", "extrayear": "b"}, {"author": [Person("Su, Jianlin")]})


@pytest.mark.parametrize(("entry", "year"), [(TAGGED, "U25"), (DATED, "2024b"), (Entry("misc", {}), "n.d.")])
def test_a_tag_stands_for_the_year(entry: Entry, year: str) -> None:
    node = citations.tag_for_year[join["[", field("year"), "]"]]
    assert str(node.format_data({"entry": entry})) == f"[{year}]"


def test_the_list_has_the_labels_of_the_text(root: Path) -> None:
    assert list(citations.TaggedLabels().format_labels([TAGGED, DATED])) == ["Urrutia, U25", "Su, 2024b"]
    citations.register_styles()
    papers = parse_file(root / "book" / "references.bib")
    chosen = citations.TaggedList().format_bibliography(
        papers, ["urrutia2025decoupling", "vandegeijn2025waves", "han2025position"]
    )
    assert [entry.label for entry in chosen] == ["Han and Ji, 2025", "Urrutia et al., U25", "van de Geijn et al., 2025"]


def test_sphinx_finds_the_styles() -> None:
    citations.register_styles()
    assert find_references("sphinxcontrib.bibtex.style.referencing", citations.NAME) is citations.TaggedReferences
    assert find_plugin("pybtex.style.formatting", citations.NAME).default_label_style == citations.NAME


def test_no_two_papers_are_cited_alike(root: Path) -> None:
    entries = parse_file(root / "book" / "references.bib").entries.values()
    cited = [
        (
            entry.persons["author"][0].last_names,
            len(entry.persons["author"]) > 1,
            entry.fields.get("shorthand", entry.fields["year"] + entry.fields.get("extrayear", "")),
        )
        for entry in entries
    ]
    assert len(cited) > 20
    assert not [one for one in cited if cited.count(one) > 1]
    assert {"U25", "U26", "G26"} == {entry.fields["shorthand"] for entry in entries if "shorthand" in entry.fields}

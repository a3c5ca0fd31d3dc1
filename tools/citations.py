"""How the book cites: the papers that it is about by their tags, U25, U26 and G26, and all others by author and year.

A tag is the field ``shorthand`` of an entry of ``book/references.bib``. It stands in place of the year: two of the
papers have the same first author and the same year. Elsewhere the field ``extrayear`` tells such papers apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels.number import LabelStyle as Numbers
from pybtex.style.template import node
from sphinxcontrib.bibtex.plugin import register_plugin as register_references
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle

NAME = "tagged"


@node
def tag_for_year(children: list[Any], data: dict[str, Any]) -> Any:
    """What is within, with an entry's tag as its year if it has one."""
    entry = data["entry"]
    year = entry.fields.get("year", "n.d.") + entry.fields.get("extrayear", "")
    dated = Entry(entry.type, dict(entry.fields) | {"year": entry.fields.get("shorthand", year)}, entry.persons)
    return children[0].format_data(data | {"entry": dated})


class TaggedReferences(AuthorYearReferenceStyle):
    """Author and tag, or author and year, in the text."""

    def inner(self, role_name: str) -> Any:
        return tag_for_year[super().inner(role_name)]


class TaggedLabels(Numbers):
    """A tag, or a number, in the list."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        entries = list(sorted_entries)
        for entry, number in zip(entries, super().format_labels(entries), strict=True):
            yield entry.fields.get("shorthand", number)


class TaggedList(Unsorted):
    """Entries in the order in which they are cited, under their tags."""

    default_label_style = NAME


def register_styles() -> None:
    """Make the styles known to Sphinx under ``NAME``."""
    register_references("sphinxcontrib.bibtex.style.referencing", NAME, TaggedReferences)
    register_plugin("pybtex.style.labels", NAME, TaggedLabels)
    register_plugin("pybtex.style.formatting", NAME, TaggedList)

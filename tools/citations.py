"""How the book cites: by author and year, and the papers that it is about by author and tag, U25, U26 and G26.

The list of references has the same labels, in alphabetical order. A tag is the field ``shorthand`` of an entry of
``book/references.bib``. It stands in place of the year: two of the papers have the same first author and the same year.
Elsewhere the field ``extrayear`` tells such papers apart. The list links the code of an entry's authors, the field
``code``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.sorting import BaseSortingStyle
from pybtex.style.template import field, href, join, node, optional, sentence, words
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


def label(entry: Entry) -> str:
    """What stands for an entry in the text."""
    style = TaggedReferences()
    said = join(sep=style.author_year_sep)[style.person.author_or_editor_or_title(full=False), field("year")]
    return tag_for_year[said].format_data({"entry": entry, "style": style}).render_as("text")


class TaggedLabels(BaseLabelStyle):
    """The same labels in the list as in the text."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        return map(label, sorted_entries)


class ByLabel(BaseSortingStyle):
    """The list in the order of its labels."""

    def sorting_key(self, entry: Entry) -> str:
        return label(entry).casefold()


class TaggedList(Unsorted):
    """Entries under their labels, with their authors' code."""

    default_label_style = NAME
    default_sorting_style = NAME

    def format_web_refs(self, e: Entry) -> Any:
        code = field("code", raw=True)
        return join(sep=" ")[super().format_web_refs(e), optional[sentence[words["Code:", href(code)[code]]]]]


def register_styles() -> None:
    """Make the styles known to Sphinx under ``NAME``."""
    register_references("sphinxcontrib.bibtex.style.referencing", NAME, TaggedReferences)
    register_plugin("pybtex.style.labels", NAME, TaggedLabels)
    register_plugin("pybtex.style.sorting", NAME, ByLabel)
    register_plugin("pybtex.style.formatting", NAME, TaggedList)

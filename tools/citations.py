"""Labels of the list of references: author and year, as the text cites, in alphabetical order.

The papers that the book is about have their tags, U25, U26 and G26, behind the year in ``book/references.bib``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.sorting import BaseSortingStyle

NAME = "author_year"


def label(entry: Entry) -> str:
    """Return what stands for an entry in the list.

    >>> from pybtex.database import Person
    >>> label(Entry("misc", {"year": "2026, U25"}, {"author": [Person("Urrutia, Felipe"), *[Person("Rojas, C.")] * 2]}))
    'Urrutia et al., 2026, U25'
    """
    names = [" ".join([*who.prelast_names, *who.last_names]) for who in entry.persons["author"]]
    said = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    return f"{said.strip('{}')}, {entry.fields['year']}"


class Labels(BaseLabelStyle):
    """Author and year."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        return map(label, sorted_entries)


class ByLabel(BaseSortingStyle):
    """In the order of the labels."""

    def sorting_key(self, entry: Entry) -> str:
        return label(entry).casefold()


class References(Unsorted):
    """Entries under their labels."""

    default_label_style = NAME
    default_sorting_style = NAME


def register_styles() -> None:
    """Make the style known to Sphinx."""
    register_plugin("pybtex.style.labels", NAME, Labels)
    register_plugin("pybtex.style.sorting", NAME, ByLabel)
    register_plugin("pybtex.style.formatting", NAME, References)

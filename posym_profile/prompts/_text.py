"""English prose that every Python brings along, for losses on running text without a download."""

from __future__ import annotations

import functools
import re
from importlib import import_module


@functools.cache
def read_reference_text() -> str:
    """Read prose of the Python language reference, as ``help()`` shows it: a few hundred thousand characters.

    Topics stand in alphabetical order. Headings, tables, examples and lists are left out: a paragraph stays if it is
    made of sentences. The text differs between versions of Python, so results on it name theirs.
    """
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    paragraphs = (
        paragraph for name in sorted(topics) for paragraph in re.split(r"\n\s*\n", topics[name]) if _is_prose(paragraph)
    )
    # A topic may repeat what another says.
    return "\n".join(dict.fromkeys(" ".join(paragraph.split()) for paragraph in paragraphs))


def _is_prose(paragraph: str) -> bool:
    """Return whether a paragraph begins at the margin like a sentence, ends like one, and is not short."""
    return len(paragraph) > 120 and bool(re.match(r"[A-Z][a-z]* [a-z]", paragraph)) and paragraph.rstrip()[-1] in ".:"

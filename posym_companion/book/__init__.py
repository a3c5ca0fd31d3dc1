"""Tables that cells show, and text behind one line."""

from posym_companion.book.text import Table, fold

__all__ = ["Table", "fold"]

"""What chapters share: text and tables that a cell shows."""

from posym_companion.book.text import Table, described, folded, number, say, span

__all__ = ["Table", "described", "folded", "number", "say", "span"]

"""What chapters share: text and tables that a cell shows, and the trained models that a page runs."""

from posym_companion.book.hop_models import hop_model
from posym_companion.book.text import Table, described, folded, number, say, span, verdict_line

__all__ = ["Table", "described", "folded", "hop_model", "number", "say", "span", "verdict_line"]

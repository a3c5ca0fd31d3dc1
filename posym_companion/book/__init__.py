"""What chapters share: text and tables that a cell shows."""

from posym_companion.book.text import Table, describe_sources, fold, number, say, span
from posym_companion.score_statistics import student_interval

__all__ = [
    "Table",
    "describe_sources",
    "fold",
    "number",
    "say",
    "span",
    "student_interval",
]

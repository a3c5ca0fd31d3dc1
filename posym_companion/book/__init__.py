"""Tables that cells show, text behind one line, and a reader's own runs."""

from posym_companion.book.runs import run_experiment
from posym_companion.book.text import Table, fold

__all__ = ["Table", "fold", "run_experiment"]

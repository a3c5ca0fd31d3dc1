"""The ledger as pages show it: badges of a few rows, a wall of all, and every row whole."""

from posym_companion.ledger.badges import make_badge, show_verdicts, show_wall
from posym_companion.ledger.pages import show_at_a_glance, show_counts, show_experiments, show_rows

__all__ = [
    "make_badge",
    "show_at_a_glance",
    "show_counts",
    "show_experiments",
    "show_rows",
    "show_verdicts",
    "show_wall",
]

"""Claims of later papers: what is run, and what judges it in ``judges``."""

from posym_companion.later.judges.later_claims import influence_ends, sum_correlation

__all__ = [
    "influence_ends",
    "sum_correlation",
]

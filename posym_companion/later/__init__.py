"""Claims of later papers: what is run, and what judges it in ``judges``."""

from posym_companion.later.judges.later_claims import influence_ends, sum_correlation
from posym_companion.later.lost_orders import Inversions, far_preferred, inversions

__all__ = [
    "Inversions",
    "far_preferred",
    "influence_ends",
    "inversions",
    "sum_correlation",
]

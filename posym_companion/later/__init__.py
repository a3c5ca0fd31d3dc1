"""Claims of later papers: what is run, and what judges it in ``judges``."""

from posym_companion.later.binding import OUTCOMES
from posym_companion.later.judges.later_claims import influence_ends, sum_correlation
from posym_companion.later.lost_orders import Inversions, far_preferred, inversions
from posym_companion.later.order import BASES, LENGTHS

__all__ = [
    "BASES",
    "LENGTHS",
    "OUTCOMES",
    "Inversions",
    "far_preferred",
    "influence_ends",
    "inversions",
    "sum_correlation",
]

"""One head on the three canonical tasks: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.one_head.judges.frequency_control import (
    accuracy,
    accuracy_by_position,
    thresholds,
    u_index,
    windows,
)
from posym_companion.one_head.plane_geometry import alignment, coherence, concentration, crest

__all__ = [
    "accuracy",
    "accuracy_by_position",
    "alignment",
    "coherence",
    "concentration",
    "crest",
    "thresholds",
    "u_index",
    "windows",
]

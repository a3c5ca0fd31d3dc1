"""One head on the three canonical tasks: what is run, and what only it needs."""

from posym_companion.one_head.plane_geometry import alignment, coherence, concentration, crest
from posym_companion.one_head.training_figure import StoredRuns, trainer

__all__ = [
    "StoredRuns",
    "alignment",
    "coherence",
    "concentration",
    "crest",
    "trainer",
]

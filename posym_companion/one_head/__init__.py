"""One head on the three canonical tasks: what is run, and what only it needs."""

from posym_companion.one_head.index_retrieval_collisions import (
    make_index_collision,
    make_induction_collisions,
    make_retrieval_collision,
)
from posym_companion.one_head.plane_geometry import alignment, coherence, concentration, crest
from posym_companion.one_head.training_figure import StoredRuns, trainer

__all__ = [
    "StoredRuns",
    "alignment",
    "coherence",
    "concentration",
    "crest",
    "make_index_collision",
    "make_induction_collisions",
    "make_retrieval_collision",
    "trainer",
]

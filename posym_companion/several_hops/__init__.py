"""Models that answer in several hops: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.several_hops.hop_figure import hops
from posym_companion.several_hops.hop_models import hop_model
from posym_companion.several_hops.judges.hop_length import reach
from posym_companion.several_hops.judges.hop_prompts import TABLE_3
from posym_companion.several_hops.judges.hop_seeds import seed_by_seed
from posym_companion.several_hops.judges.multihop import best_checkpoint, kinds, learned_at, mean_scores, written
from posym_companion.several_hops.programs import NONE, candidates
from posym_companion.several_hops.stations import capture_layers, station_scores

__all__ = [
    "NONE",
    "TABLE_3",
    "best_checkpoint",
    "candidates",
    "capture_layers",
    "hop_model",
    "hops",
    "kinds",
    "learned_at",
    "mean_scores",
    "reach",
    "seed_by_seed",
    "station_scores",
    "written",
]

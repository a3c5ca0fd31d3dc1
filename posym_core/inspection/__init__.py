"""Reading and altering running models: capture, rotation planes, profiles, surgery."""

from posym_core.inspection.attention_calls import AttentionCall, UnsupportedModelError
from posym_core.inspection.capture import capture
from posym_core.inspection.heads import LayerHeads
from posym_core.inspection.interventions import ablated, fastest, slowest, stopped
from posym_core.inspection.planes import Planes, find_planes
from posym_core.inspection.pointers import SCORED, pointed_ranks
from posym_core.inspection.profile import Profile, profile, profile_with
from posym_core.inspection.programs import NONE, candidates
from posym_core.inspection.stations import capture_layers, station_scores
from posym_core.inspection.surgery import surgery

__all__ = [
    "NONE",
    "SCORED",
    "AttentionCall",
    "LayerHeads",
    "Planes",
    "Profile",
    "UnsupportedModelError",
    "ablated",
    "candidates",
    "capture",
    "capture_layers",
    "fastest",
    "find_planes",
    "pointed_ranks",
    "profile",
    "profile_with",
    "slowest",
    "station_scores",
    "stopped",
    "surgery",
]

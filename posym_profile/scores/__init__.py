"""Scores of every head of a model on prompts: profiles, the cube of symbol, origin and place, labels."""

from posym_profile.scores.activation_cache import cached_cross_logits, cached_swap_scores
from posym_profile.scores.cubes import Cube, origin_cube
from posym_profile.scores.labels import HeadLabels, measure_head_labels
from posym_profile.scores.layer_heads import LayerHeads
from posym_profile.scores.layer_measurement import map_layers
from posym_profile.scores.profiling import Profile, profile
from posym_profile.scores.supported import Support, find_support, read_supported_decoders
from posym_profile.scores.visibility import HiddenBlocksWarning, LongPromptWarning

__all__ = [
    "Cube",
    "HeadLabels",
    "HiddenBlocksWarning",
    "LayerHeads",
    "LongPromptWarning",
    "Profile",
    "Support",
    "cached_cross_logits",
    "cached_swap_scores",
    "find_support",
    "map_layers",
    "measure_head_labels",
    "origin_cube",
    "profile",
    "read_supported_decoders",
]

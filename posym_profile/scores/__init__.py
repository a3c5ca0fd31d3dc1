"""Scores of every head of a model on prompts: profiles, the cube of symbol, origin and place, labels."""

from posym_profile.scores._cubes import measure_square, origin_cube, split_cube
from posym_profile.scores._head_table import tabulate_heads, top_heads
from posym_profile.scores._head_views import Cuts, average_views, make_head_views
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import map_layers
from posym_profile.scores._profiling import profile
from posym_profile.scores._supported import find_support, read_supported_decoders
from posym_profile.scores._visibility import HiddenBlocksWarning

__all__ = [
    "Cuts",
    "HiddenBlocksWarning",
    "LayerHeads",
    "average_views",
    "find_support",
    "make_head_views",
    "map_layers",
    "measure_head_labels",
    "measure_square",
    "origin_cube",
    "profile",
    "read_supported_decoders",
    "split_cube",
    "tabulate_heads",
    "top_heads",
]

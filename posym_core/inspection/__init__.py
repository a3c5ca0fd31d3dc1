"""Reading and altering running models: capture, rotation planes, profiles, surgery."""

from posym_core.inspection.activation_cache import cached_cross_logits, cached_swap_scores
from posym_core.inspection.attention_calls import AttentionCall
from posym_core.inspection.capturing import capture
from posym_core.inspection.cubes import Cube, origin_cube
from posym_core.inspection.head_patching import (
    changed_outputs,
    head_outputs,
    last_token_replaced,
    patched,
    replaced_everywhere,
    without_heads,
)
from posym_core.inspection.heads import LayerHeads
from posym_core.inspection.labels import HeadLabels, head_labels
from posym_core.inspection.layer_measurement import profile_with
from posym_core.inspection.plane_interventions import ablated, fastest, slowest, stopped
from posym_core.inspection.plane_surgery import surgery
from posym_core.inspection.planes import Planes, find_planes
from posym_core.inspection.profiling import Profile, profile
from posym_core.inspection.prompt_scores import head_scores
from posym_core.inspection.supported import Support, support, supported_decoders
from posym_core.inspection.visibility import HiddenBlocksWarning, LongPromptWarning
from posym_core.inspection.wrappers import unwrapped
from posym_core.models.refusals import UnsupportedModelError

__all__ = [
    "AttentionCall",
    "Cube",
    "HeadLabels",
    "HiddenBlocksWarning",
    "LayerHeads",
    "LongPromptWarning",
    "Planes",
    "Profile",
    "Support",
    "UnsupportedModelError",
    "ablated",
    "cached_cross_logits",
    "cached_swap_scores",
    "capture",
    "changed_outputs",
    "fastest",
    "find_planes",
    "head_labels",
    "head_outputs",
    "head_scores",
    "last_token_replaced",
    "origin_cube",
    "patched",
    "profile",
    "profile_with",
    "replaced_everywhere",
    "slowest",
    "stopped",
    "support",
    "supported_decoders",
    "surgery",
    "unwrapped",
    "without_heads",
]

"""Altering a running model: heads that are replaced, planes that are stopped, removed or turned otherwise."""

from posym_profile.interventions.head_patching import (
    ablate_heads,
    edit_head_outputs,
    patch_heads,
    record_head_outputs,
)
from posym_profile.interventions.plane_interventions import (
    freeze_rotation,
    remove_planes,
    select_fastest,
    select_slowest,
)
from posym_profile.interventions.plane_surgery import edit_rope

__all__ = [
    "ablate_heads",
    "edit_head_outputs",
    "edit_rope",
    "freeze_rotation",
    "patch_heads",
    "record_head_outputs",
    "remove_planes",
    "select_fastest",
    "select_slowest",
]

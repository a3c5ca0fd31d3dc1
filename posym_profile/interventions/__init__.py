"""Altering a running model: heads that are replaced, planes that are stopped, removed or turned otherwise."""

from posym_profile.interventions._head_patching import (
    ablate_heads,
    check_prompts,
    edit_head_outputs,
    find_output_projections,
    patch_heads,
    record_head_outputs,
    require_outputs,
)
from posym_profile.interventions._plane_interventions import (
    Intervention,
    change_base,
    freeze_rotation,
    remove_planes,
    select_by_angle,
    select_by_id,
    select_fastest,
    select_slowest,
)
from posym_profile.interventions._plane_surgery import EditedModel, edit_rope

__all__ = [
    "EditedModel",
    "Intervention",
    "ablate_heads",
    "change_base",
    "check_prompts",
    "edit_head_outputs",
    "edit_rope",
    "find_output_projections",
    "freeze_rotation",
    "patch_heads",
    "record_head_outputs",
    "remove_planes",
    "require_outputs",
    "select_by_angle",
    "select_by_id",
    "select_fastest",
    "select_slowest",
]

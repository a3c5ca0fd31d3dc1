"""Capture what attention layers of a running model are given: queries, keys, angles and masks of a forward pass."""

from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.capture._capturing import capture, find_input_device, forward_with_hook, hook_attention
from posym_profile.capture._routes import Route
from posym_profile.capture._wrappers import unwrap

__all__ = ["AttentionInputs", "Route", "capture", "find_input_device", "forward_with_hook", "hook_attention", "unwrap"]

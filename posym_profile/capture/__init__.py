"""What attention layers of a running model are given: queries, keys, angles and masks of a forward pass."""

from posym_profile.capture.attention_calls import AttentionInputs
from posym_profile.capture.capturing import capture
from posym_profile.capture.wrappers import unwrap

__all__ = [
    "AttentionInputs",
    "capture",
    "unwrap",
]

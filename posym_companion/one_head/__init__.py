"""One head on the three canonical tasks: what is run, and what only it needs. What judges it is in ``judges``."""

from posym_companion.one_head.judges.frequency_control import (
    accuracy,
    accuracy_by_position,
    thresholds,
    u_index,
    windows,
)

__all__ = [
    "accuracy",
    "accuracy_by_position",
    "thresholds",
    "u_index",
    "windows",
]

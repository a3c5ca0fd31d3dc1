"""Models that solve the task they are measured on: what is run, and what only it needs."""

from posym_companion.solvers.areas import detection
from posym_companion.solvers.prompt_roles import answer_pairs, patched_heads, silenced_heads

__all__ = [
    "answer_pairs",
    "detection",
    "patched_heads",
    "silenced_heads",
]

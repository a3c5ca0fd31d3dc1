"""Find prompts that are lists of one repeated frame.

In such a list the blocks' keys differ in how many such sentences came before them, and heads read that. A swap of keys
moves it along with what the block says, so that the symbolic score counts both; see :func:`posym_profile.origin_cube`.
"""

from __future__ import annotations

from posym_profile.prompts._drafts import Prompts


def are_bare_lists(prompts: Prompts) -> bool:
    """True if in every prompt all blocks share half of their tokens, and none of this stands in front."""
    start, length = prompts.start, prompts.block_length
    blocks = prompts.input_ids[:, start : start + prompts.blocks * length].unflatten(1, (prompts.blocks, length))
    shared = (blocks == blocks[:, :1]).all(1)
    repeats = 2 * shared.sum(1) >= length
    if start >= length:
        front = prompts.input_ids[:, start - length : start]
        repeats &= ~((front == blocks[:, 0]) | ~shared).all(1)
    return bool(repeats.all())

"""Find whether a prompt is a list of one repeated frame: what all its blocks share, and how many stand in front.

In such a list the blocks' keys differ in how many such sentences came before them, and heads read that. A swap of keys
moves it along with what the block says, so that the symbolic score counts both; see :func:`posym_profile.origin_cube`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from posym_core.metrics import BlockLayout


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What the blocks of a prompt have in common.

    Attributes:
        offsets: places within a block that hold the same token in every block.
        block_length: tokens of a block.
        lead: how many stretches as long as a block, right in front of the first one, hold these tokens, too.
    """

    offsets: tuple[int, ...]
    block_length: int
    lead: int

    @property
    def repeats(self) -> bool:
        """Return whether blocks share the tokens of at least half of their places: a full stop alone makes no frame."""
        return 2 * len(self.offsets) >= self.block_length


def find_frame(input_ids: Sequence[int], *, start: int, block_length: int, blocks: int) -> Frame:
    """Find the frame that the blocks of one prompt ``[token]`` share, cut as :func:`posym_profile.profile` does.

    >>> find_frame([9, 1, 5, 2, 5, 3, 5, 0], start=3, block_length=2, blocks=2)
    Frame(offsets=(1,), block_length=2, lead=1)
    """
    BlockLayout(start=start, block_length=block_length, blocks=blocks).fit(len(input_ids))
    tokens = torch.as_tensor(input_ids)
    rows = tokens[start : start + blocks * block_length].view(blocks, block_length)
    shared = (rows == rows[0]).all(0)
    # Whole stretches in front, the nearest first.
    room = start // block_length
    front = tokens[start - room * block_length : start].view(room, block_length).flip(0)
    same = ((front == rows[0]) | ~shared).all(1) if bool(shared.any()) else torch.zeros(room, dtype=torch.bool)
    return Frame(
        offsets=tuple(shared.nonzero().flatten().tolist()),
        block_length=block_length,
        lead=int(same.long().cumprod(0).sum()),
    )

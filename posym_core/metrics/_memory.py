"""How much of the arrays of swap scores memory holds at once on a GPU, where larger pieces are faster."""

from __future__ import annotations

import torch

from posym_core.metrics._blocks import BlockLayout
from posym_core.metrics._heads import Heads

# Bytes of all intermediate arrays together.
BUDGET = 2**30
NUMBER = torch.finfo(torch.float64).bits // 8


def find_budget(device: torch.device) -> int:
    """Return the bytes to score with: half of what is free, where that is less."""
    if device.type != "cuda":
        return BUDGET
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(BUDGET, (free + cached) // 2)


def fit_batches(heads: Heads, swaps: BlockLayout) -> tuple[int, int]:
    """Return how many key heads, and rows of one query's pairs ``[block, block]``, to score at a time."""
    (_, group, dim), number, keys = heads.query.shape, swaps.number, heads.keys.shape[-2]
    # Per key head its keys, turned home, and its attention; per row of pairs what the keys of a block draw at all
    # places (three arrays live at once) and what becomes of pairs (twelve).
    fixed = NUMBER * keys * (6 * dim + 4 * group)
    row = NUMBER * group * number * (3 * swaps.block_length + 12)
    most = find_budget(heads.keys.device)
    together = most // (fixed + number * row)
    return max(1, together), number if together else max(1, (most - fixed) // row)

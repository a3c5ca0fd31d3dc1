"""Swap scores in few operations and without a look at any number, as a GPU wants them.

There each operation costs a launch and each number that is read a wait, both dearer than arithmetic. So swaps of all
heads are scored at once, as far as memory allows, and no pair is left out because it weighs nothing: which do would
have to be read. :mod:`posym_core.metrics.pairs` scores the same swaps piece by piece, as a CPU wants them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posym_core.metrics.blocks import Swaps, attention_to_blocks, drawn
from posym_core.metrics.heads import Heads
from posym_core.metrics.pairs import Drawn, every_pair, weighted

# Bytes of all intermediate arrays together.
BUDGET = 2**30
NUMBER = torch.finfo(torch.float64).bits // 8


def score(heads: Heads, swaps: Swaps) -> tuple[Tensor, ...]:
    """Positional and symbolic score, entropy ``[head, group]`` and block means ``[head, group, block]``."""
    (_, group, dim), number, keys = heads.query.shape, swaps.number, heads.keys.shape[-2]
    # Per key head its keys, turned home, and its attention; per row of pairs what the keys of a block draw at all
    # places (three arrays live at once) and what becomes of pairs (twelve).
    fixed = NUMBER * keys * (6 * dim + 4 * group)
    row = NUMBER * group * number * (3 * swaps.block_length + 12)
    most = budget(heads.keys.device)
    together = most // (fixed + number * row)
    rows = number if together else max(1, (most - fixed) // row)
    step = max(1, together)
    parts = [_score(heads.take(slice(first, first + step)), swaps, rows) for first in range(0, len(heads.keys), step)]
    return parts[0] if len(parts) == 1 else tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _score(heads: Heads, swaps: Swaps, rows: int) -> tuple[Tensor, ...]:
    """:func:`score` of heads whose swaps fit into memory ``rows`` rows of pairs at a time."""
    entropy, log_z, mass, outside = attention_to_blocks(heads, swaps)

    def draw(contents: range, slots: range) -> Drawn:
        return Drawn(drawn(heads, swaps, log_z, contents, slots).contiguous(), contents.start, slots.start)

    every = range(swaps.number)
    # Pairs in one band share one table of contents and places; bands make what they need.
    whole = draw(every, every) if rows >= swaps.number else None
    pairs = every_pair(draw if whole is None else lambda *_: whole, mass, outside, step=rows)
    positional, symbolic = weighted(pairs, swaps, mass).unbind(-1)
    return positional, symbolic, entropy, mass / swaps.block_length


def budget(device: torch.device) -> int:
    """Bytes to score with: half of what is free, where that is less."""
    if device.type != "cuda":
        return BUDGET
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return min(BUDGET, (free + cached) // 2)

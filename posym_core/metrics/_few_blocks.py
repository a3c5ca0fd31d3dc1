"""A few blocks, the hubs, that are in every pair which weighs anything in swap scores.

On a CPU it pays to leave out the other pairs of many; on a GPU to ask which these are costs more than to score them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.metrics._blocks import CHUNK, BlockLayout, SwappedPairs, compute_ratios, find_place_turns
from posym_core.metrics._heads import Heads
from posym_core.metrics._rope import multiply_planes, rotate_by, rotate_unchecked

# Operations on the table of all swaps of a key head from which it is worth asking which pairs weigh anything.
WORTH = 2**23
# Weights of exp(-40) of the largest, divided among all pairs, are below the rounding of float64.
NEGLIGIBLE = 40.0
# Of attention, which is at most 1, in float64.
ROUNDING = 1e-15


@dataclass(frozen=True, kw_only=True)
class FewBlocks:
    """A few blocks, the hubs, that are in every pair of non-negligible weight.

    Attributes:
        index: ``[head, group, hub]``; queries that need fewer have more, whose pairs are beyond rounding.
        upper: ``[head, group, 1]``, where the hub is the pair's block with more attention; else the one with less.
    """

    index: Tensor
    upper: Tensor


def group_hubs(
    heads: Heads, swaps: BlockLayout, mass: Float[Tensor, "head group block"]
) -> Iterator[tuple[slice, FewBlocks | None]]:
    """Yield key heads next to each other, with their queries' hubs or None where all pairs are to be scored.

    A pair weighs ``exp((gap - widest) / temperature)`` against the widest. With ``reach`` so large that all pairs with
    a gap below ``widest - reach`` together are beyond rounding, the others have one block within ``reach`` of the
    most attention and one within ``reach`` of the least. The fewer of these are the hubs.
    """
    number, length = swaps.number, swaps.block_length
    table = mass.shape[1] * number * length
    if table * number * (heads.query.shape[-1] + 64) < WORTH:
        yield slice(None), None
        return
    # Whatever the temperature, gaps that are equal but for rounding weigh alike.
    reach = max(length * swaps.tau * (NEGLIGIBLE + 2 * math.log(number)), ROUNDING)
    least, most = torch.aminmax(mass.detach(), dim=-1, keepdim=True)
    high, low = mass >= most - reach, mass <= least + reach
    highs, lows = high.sum(-1), low.sum(-1)
    needed = torch.minimum(highs, lows).amax(-1).tolist()
    bound = min(number // 8, CHUNK // table)
    for few, together in itertools.groupby(range(len(needed)), lambda head: needed[head] <= bound):
        members = list(together)
        run = slice(members[0], members[-1] + 1)
        if few:
            upper = (highs <= lows)[run][..., None]
            first_chosen = (~torch.where(upper, high[run], low[run])).long().argsort(dim=-1, stable=True)
            yield run, FewBlocks(index=first_chosen[..., : max(needed[run])], upper=upper)
        else:
            yield run, None


def list_hub_pairs(
    heads: Heads,
    swaps: BlockLayout,
    log_z: Tensor,
    mass: Float[Tensor, "head group block"],
    outside: Float[Tensor, "head group"],
    hubs: FewBlocks,
) -> SwappedPairs:
    """Return the pairs of hubs with all other blocks, ``hub * block`` of them a query."""
    shape = (swaps.number, swaps.block_length)
    cos, sin = find_place_turns(heads, swaps)
    keys = heads.keys[:, 0, swaps.start : swaps.stop].unflatten(1, shape)
    home = rotate_by(keys, cos[:, :, None], sin[:, :, None], heads.pairing)
    places = -hubs.index.double() * swaps.block_length
    turned = rotate_unchecked(heads.query[:, :, None], places, heads.angles[:, None, None], heads.pairing)
    # Others at the places of hubs, and hubs at the places of others: [head, group, hub, block, offset].
    arriving = turned.flatten(1, 2) @ home.flatten(1, 2).transpose(-1, -2)
    arriving = arriving.unflatten(-1, shape).unflatten(1, hubs.index.shape[1:])
    at_home = home[torch.arange(len(home), device=mass.device)[:, None, None], hubs.index].flatten(2, 3)
    real, imaginary = multiply_planes(heads.query, at_home, heads.pairing)
    leaving = real.transpose(-1, -2) @ cos[:, None].transpose(-1, -2)
    leaving += imaginary.transpose(-1, -2) @ sin[:, None].transpose(-1, -2)
    leaving = leaving.unflatten(2, (-1, shape[1])).transpose(-1, -2)
    at_hubs = hidden = None
    if heads.visible is not None:
        hidden = ~swaps.by_block(heads.visible)[:, :, None]
        at_hubs = hidden.squeeze(2).gather(-2, hubs.index[..., None].expand(-1, -1, -1, shape[1]))[:, :, :, None]
    arriving, leaving = compute_ratios(heads, arriving, log_z, at_hubs), compute_ratios(heads, leaving, log_z, hidden)
    first, second = mass.gather(-1, hubs.index)[..., None], mass[..., None, :]
    # All but the two, summed from before and behind the other, as subtracting them would cancel.
    without = second.expand(-1, -1, first.shape[-2], -1).scatter(-1, hubs.index[..., None], 0)
    zero = torch.zeros_like(without[..., :1])
    before = torch.cat([zero, without[..., :-1].cumsum(-1)], dim=-1)
    after = torch.cat([zero, without[..., 1:].flip(-1).cumsum(-1)], dim=-1).flip(-1)
    swapped_first, swapped_second = arriving.sum(-1), leaving.sum(-1)
    total = before.add_(after).add_(outside[..., None, None]).add_(swapped_first).add_(swapped_second)
    # A pair of two hubs is there twice.
    counted = torch.where(hubs.upper[..., None], first > second, first < second)
    return SwappedPairs(
        first=first.expand_as(total).flatten(-2),
        second=second.expand_as(total).flatten(-2),
        swapped_first=swapped_first.flatten(-2),
        swapped_second=swapped_second.flatten(-2),
        swapped_total=total.flatten(-2),
        counted=counted.flatten(-2),
    )

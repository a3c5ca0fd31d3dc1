"""Every swap of two blocks, scored from one table of what each block's content draws at each block's place.

:func:`posym_core.metrics.swaps.swap_scores` checks inputs and brings them into the shape that is wanted here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_core.metrics.blocks import CHUNK, Swaps, attention_to_blocks, drawn_anywhere, ratios, turns
from posym_core.metrics.heads import Heads
from posym_core.metrics.logit_matrix import plane_contributions
from posym_core.metrics.rope import turn, turn_by

# Numbers in one array of pairs, more of which live at once.
PAIRS = 2**16
# Operations on the table of all swaps of a key head from which it is worth asking which pairs weigh anything.
WORTH = 2**23
# Weights of exp(-40) of the largest, divided among all pairs, are below the rounding of float64.
NEGLIGIBLE = 40.0
# Of attention, which is at most 1, in float64.
ROUNDING = 1e-15


def score(heads: Heads, swaps: Swaps) -> tuple[Tensor, ...]:
    """Positional and symbolic score, entropy ``[head, group]`` and block means ``[head, group, block]``."""
    step = max(1, CHUNK // (heads.query.shape[-2] * swaps.number**2 * swaps.block_length))
    parts = [_score(heads.take(slice(first, first + step)), swaps) for first in range(0, len(heads.keys), step)]
    return parts[0] if len(parts) == 1 else tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _score(heads: Heads, swaps: Swaps) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    entropy, log_z, mass, outside = attention_to_blocks(heads, swaps)
    found: list[Tensor] = []
    for run, hubs in _runs(heads, swaps, mass):
        some, given = heads.take(run), (log_z[run], mass[run], outside[run])
        found.append(_score_all(some, swaps, *given) if hubs is None else _score_hubs(some, swaps, *given, hubs))
    positional, symbolic = (found[0] if len(found) == 1 else torch.cat(found)).unbind(-1)
    return positional, symbolic, entropy, mass / swaps.block_length


def _score_all(heads: Heads, swaps: Swaps, log_z: Tensor, mass: Tensor, outside: Tensor) -> Tensor:
    """Both scores by every pair that attention can reach."""
    table = drawn_anywhere(heads, swaps, log_z)
    unseen = swaps.number - table.shape[-1]
    # One place that draws nothing stands for all that no query sees.
    drawn = Drawn(torch.nn.functional.pad(table, (1, 0)), slot=unseen - 1) if unseen else Drawn(table)
    pairs = every_pair(lambda *_: drawn, mass, outside, step=max(1, PAIRS // mass.numel()), unseen=unseen)
    return weighted(pairs, swaps, mass, unseen * (unseen - 1) // 2)


def weighted(
    pairs: Iterable[SwappedPairs], swaps: Swaps, mass: Tensor, empty: int = 0
) -> Float[Tensor, "head group 2"]:
    """Positional and symbolic score: means over pairs, and over some of two unseen blocks."""
    temperature = swaps.block_length * swaps.tau
    least, most = torch.aminmax(mass, dim=-1, keepdim=True)
    widest = most - least
    sums: list[Tensor] = []
    for some in pairs:
        weight = some.gap.sub_(widest).div_(temperature).exp_()
        if some.counted is not None:
            weight = weight * some.counted
        along, across = some.cosines(swaps.eps * swaps.block_length)
        sums.append(torch.stack([(weight * along).sum(-1), (weight * across).sum(-1), weight.sum(-1)], dim=-1))
    total = sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)
    scores, weights = total[..., :2], total[..., 2:]
    if empty:
        # Pairs of two unseen blocks have no gap and no attention: they weigh, and count 0.
        weights = weights + (-widest / temperature).exp() * empty
    return scores / weights


@dataclass(frozen=True, kw_only=True)
class _Hubs:
    """Blocks ``index [head, group, hub]`` of which every pair that weighs anything has one: its member with more
    attention where ``upper [head, group, 1]``, and that with less elsewhere.

    Where queries need differently many, some have more, whose pairs are beyond rounding all the same.
    """

    index: Tensor
    upper: Tensor


def _runs(heads: Heads, swaps: Swaps, mass: Float[Tensor, "head group block"]) -> Iterator[tuple[slice, _Hubs | None]]:
    """Key heads next to each other, with their queries' hubs or with None where all pairs are to be scored.

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
            yield run, _Hubs(index=first_chosen[..., : max(needed[run])], upper=upper)
        else:
            yield run, None


def _score_hubs(
    heads: Heads,
    swaps: Swaps,
    log_z: Tensor,
    mass: Float[Tensor, "head group block"],
    outside: Float[Tensor, "head group"],
    hubs: _Hubs,
) -> Tensor:
    """Both scores by the pairs ``[head, group, hub, block]`` of hubs with all other blocks; see :func:`every_pair`."""
    shape = (swaps.number, swaps.block_length)
    cos, sin = turns(heads, swaps)
    keys = heads.keys[:, 0, swaps.start : swaps.stop].unflatten(1, shape)
    home = turn_by(keys, cos[:, :, None], sin[:, :, None], heads.pairing)
    places = -hubs.index.double() * swaps.block_length
    own = turn(heads.query[:, :, None], places, heads.angles[:, None, None], heads.pairing)
    # Others at the places of hubs, and hubs at the places of others: [head, group, hub, block, offset].
    arriving = own.flatten(1, 2) @ home.flatten(1, 2).transpose(-1, -2)
    arriving = arriving.unflatten(-1, shape).unflatten(1, hubs.index.shape[1:])
    at_home = home[torch.arange(len(home), device=mass.device)[:, None, None], hubs.index].flatten(2, 3)
    real, imaginary = plane_contributions(heads.query, at_home, heads.pairing)
    leaving = real.transpose(-1, -2) @ cos[:, None].transpose(-1, -2)
    leaving += imaginary.transpose(-1, -2) @ sin[:, None].transpose(-1, -2)
    leaving = leaving.unflatten(2, (-1, shape[1])).transpose(-1, -2)
    at_hubs = hidden = None
    if heads.visible is not None:
        hidden = ~swaps.by_block(heads.visible)[:, :, None]
        at_hubs = hidden.squeeze(2).gather(-2, hubs.index[..., None].expand(-1, -1, -1, shape[1]))[:, :, :, None]
    arriving, leaving = ratios(heads, arriving, log_z, at_hubs), ratios(heads, leaving, log_z, hidden)
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
    pairs = SwappedPairs(
        first=first.expand_as(total).flatten(-2),
        second=second.expand_as(total).flatten(-2),
        swapped_first=swapped_first.flatten(-2),
        swapped_second=swapped_second.flatten(-2),
        swapped_total=total.flatten(-2),
        counted=counted.flatten(-2),
    )
    return weighted([pairs], swaps, mass)


@dataclass(frozen=True, kw_only=True)
class SwappedPairs:
    """Pairs of blocks: attention to both before a swap, and its ratio after it, ``[head, group, pair]``.

    All arrays lie densely in memory, where one operation on numbers that are repeated or apart costs several.
    """

    first: Tensor
    second: Tensor
    swapped_first: Tensor
    swapped_second: Tensor
    swapped_total: Tensor
    counted: Tensor | None = None

    @property
    def gap(self) -> Tensor:
        return (self.first - self.second).abs_()

    def cosines(self, floor: float) -> tuple[Tensor, Tensor]:
        """Cosine of the attention after the swap with that before, in place and exchanged; norms floored."""
        # Both norms are divided out one after the other: their product would underflow before they do. Neither is 0,
        # where a norm has no slope.
        tiny = torch.finfo(self.first.dtype).tiny
        before = torch.hypot(self.first, self.second.clamp_min(tiny)).clamp_min(floor)
        after = torch.hypot(self.swapped_first, self.swapped_second.clamp_min(tiny)).maximum(floor * self.swapped_total)
        first, second = self.first / before, self.second / before
        along = torch.addcmul(first * self.swapped_first, second, self.swapped_second).div_(after)
        across = torch.addcmul(first * self.swapped_second, second, self.swapped_first).div_(after)
        return along, across


@dataclass(frozen=True)
class Drawn:
    """What contents of blocks would draw at blocks' places, from some content and some slot on; nothing before it."""

    values: Float[Tensor, "*head group content slot"]
    content: int = 0
    slot: int = 0

    def at(self, contents: Int[Tensor, " pair"], slots: Int[Tensor, " pair"]) -> Float[Tensor, "*head group pair"]:
        row = self.values.shape[-1]
        index, first = torch.add(slots, contents, alpha=row), self.content * row + self.slot
        return taken(self.values.flatten(-2), index - first if first else index)


def taken(x: Float[Tensor, "*head place"], index: Int[Tensor, " pair"]) -> Float[Tensor, "*head pair"]:
    """Entries of the last dimension, several times faster on a CPU than by an index."""
    return x.gather(-1, index.expand(*x.shape[:-1], -1))


def every_pair(
    drawn: Callable[[range, range], Drawn],
    mass: Float[Tensor, "head group block"],
    outside: Float[Tensor, "head group"],
    *,
    step: int,
    unseen: int = 0,
) -> Iterator[SwappedPairs]:
    """All pairs of which at least one block is not among the first ``unseen``, of ``step`` blocks ``i < j`` at a time.

    ``drawn(contents, slots)`` is asked for what every block's content among the former draws at the latter. The
    normaliser after a swap is the attention outside the pair plus what the pair gets; the former is summed from the
    blocks but ``i`` before ``j`` and those behind it, because subtracting the pair from the whole cancels when the pair
    holds nearly everything.
    """
    blocks, device = mass.shape[-1], mass.device
    behind = torch.cat([mass[..., 1:], outside[..., None]], dim=-1).flip(-1).cumsum(-1).flip(-1)
    for top in range(0, blocks - 1, step):
        rows, columns = range(top, min(top + step, blocks - 1)), range(max(top + 1, unseen), blocks)
        apart = rows.start + 1 - columns.start
        row, column = torch.triu_indices(len(rows), len(columns), apart, device=device)
        i, j = row + rows.start, column + columns.start
        # Up to the block before each column's, whose own row leaves it out.
        before = mass[..., None, columns.start - 1 : -1].expand(*mass.shape[:-1], len(rows), -1)
        itself = torch.eye(len(rows), len(columns) - apart, dtype=torch.bool, device=device)[:, -apart:]
        before = before.masked_fill(itself, 0).cumsum(-1).flatten(-2)
        others = behind if columns.start == 1 else behind + mass[..., : columns.start - 1].sum(-1, keepdim=True)
        total = taken(before, torch.add(column, row, alpha=len(columns))).add_(taken(others, j))
        swapped_first = drawn(columns, rows).at(j, i.clamp_min(unseen - 1) if unseen else i)
        swapped_second = drawn(rows, columns).at(i, j)
        yield SwappedPairs(
            first=taken(mass, i),
            second=taken(mass, j),
            swapped_first=swapped_first,
            swapped_second=swapped_second,
            swapped_total=total.add_(swapped_first).add_(swapped_second),
        )

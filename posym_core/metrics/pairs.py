"""Every swap of two blocks, scored from one table of what each block's content draws at each block's place.

:func:`posym_core.metrics.swaps.swap_scores` checks inputs and brings them into the shape that is wanted here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core.checks import require_count, require_counts, require_floor, require_positive
from posym_core.metrics.logit_matrix import block_cross_logits, plane_contributions
from posym_core.metrics.rope import Pairing, turn

# Largest number of elements of one intermediate array: 16 MB in float64, small enough to stay near the caches.
CHUNK = 2**21
# exp(690) is 1e299: sums of such ratios over blocks still lie within float64.
LARGEST_LOG_RATIO = 690.0
# Operations on the table of all swaps of a key head from which it is worth asking which pairs weigh anything.
WORTH = 2**23
# Weights of exp(-40) of the largest, divided among all pairs, are below the rounding of float64.
NEGLIGIBLE = 40.0
# Of attention, which is at most 1, in float64.
ROUNDING = 1e-15


@dataclass(frozen=True, kw_only=True)
class Swaps:
    """Which blocks of keys change places, and how the changes are weighed; as in :func:`posym_core.swap_scores`."""

    start: int = 0
    block_length: int = 1
    blocks: int | None = None
    tau: float = 1e-4
    eps: float = 1e-8

    def __post_init__(self) -> None:
        require_counts(block_length=(self.block_length, 1), start=(self.start, 0))
        if self.blocks is not None:
            require_count("blocks", self.blocks, 2, "there is nothing to swap otherwise")
        require_positive("tau", self.tau)
        require_floor("eps", self.eps)

    @property
    def number(self) -> int:
        """Number of blocks, once they are :meth:`fitted`."""
        assert self.blocks is not None
        return self.blocks

    @property
    def stop(self) -> int:
        """The key behind the last block."""
        return self.start + self.number * self.block_length

    def fitted(self, keys: int) -> Swaps:
        """With a number of blocks, or an error that says why they do not fit before the last of ``keys`` keys."""
        room = max(0, keys - 1 - self.start)
        fits = room // self.block_length
        if self.blocks is None and fits < 2:
            raise ValueError(
                f"at least two blocks are needed to swap, but {room} keys from start={self.start} to the query's own "
                f"hold {fits} of length {self.block_length}; pass a smaller start or block_length"
            )
        blocks = fits if self.blocks is None else self.blocks
        if blocks > fits:
            raise ValueError(
                f"blocks cover {blocks * self.block_length} keys from start={self.start}, but only {room} precede the "
                f"query's own; pass blocks={fits} or fewer, or a smaller start or block_length"
            )
        return replace(self, blocks=blocks)

    def by_block(self, x: Tensor) -> Tensor:
        """``[..., key]`` as ``[..., block, offset]``."""
        return x[..., self.start : self.stop].unflatten(-1, (self.number, self.block_length))

    def unseen(self, visible: Bool[Tensor, "*head key"] | None) -> int:
        """How many leading blocks no query sees any key of."""
        if visible is None:
            return 0
        seen = self.by_block(visible).any(-1).flatten(0, -2).any(0)
        return int((~seen).long().cumprod(0).sum())


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Key heads with the group of (scaled) queries that each serves; sinks in float64."""

    query: Float[Tensor, "*head group dim"]
    keys: Float[Tensor, "*head key dim"]
    angles: Float[Tensor, "*#head plane"]
    pairing: Pairing
    visible: Bool[Tensor, "*head group key"] | None
    softcap: float | None
    sinks: Float[Tensor, "*head group"] | None

    def take(self, chosen: slice) -> Heads:
        """Some of the heads; angles that all share stay shared."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        shared = {"angles"} if len(self.angles) == 1 else set()
        taken: dict[str, Any] = {
            name: x[chosen] if isinstance(x, Tensor) and name not in shared else x for name, x in parts.items()
        }
        return Heads(**taken)

    def cap(self, logits: Tensor) -> Tensor:
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)

    def logits(self) -> Float[Tensor, "head group key"]:
        """Logit of every key at its own place; ``-inf`` where it is not visible."""
        logits = self.cap((self.query @ self.keys.transpose(-1, -2)).double())
        return logits if self.visible is None else logits.masked_fill(~self.visible, -torch.inf)

    def attention(self, swaps: Swaps) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits of all that takes attention ``[..., key or sink]``, their log-sum-exp, the attention to each block
        ``[..., block]`` and that to all else.
        """
        total = self.logits()
        if self.sinks is not None:
            total = torch.cat([total, self.sinks[..., None]], dim=-1)
        log_z = total.logsumexp(-1)
        attention = (total - log_z[..., None]).exp()
        outside = attention[..., : swaps.start].sum(-1) + attention[..., swaps.stop :].sum(-1)
        return total, log_z, swaps.by_block(attention).sum(-1), outside

    def swapped(self, swaps: Swaps, log_z: Float[Tensor, "*head group"]) -> Float[Tensor, "*head group content slot"]:
        """:meth:`drawn` by all contents, but not at the leading blocks that no query sees (beyond a sliding window)."""
        number, slots = swaps.number, range(swaps.unseen(self.visible), swaps.number)
        step = max(1, CHUNK // (self.query[..., 0].numel() * swaps.block_length * max(1, len(slots))))
        contents = (range(first, min(first + step, number)) for first in range(0, number, step))
        return torch.cat([self.drawn(swaps, log_z, some, slots) for some in contents], dim=-2)

    def drawn(
        self, swaps: Swaps, log_z: Float[Tensor, "*head group"], contents: range, slots: range
    ) -> Float[Tensor, "*head group content slot"]:
        """Attention that blocks' contents would draw at blocks' places, against all attention before the swap.

        Ratios above 1e299 count as that, below 1e-308 they vanish: logits that far apart are beyond float64.
        """
        first, last = (swaps.start + content * swaps.block_length for content in (contents.start, contents.stop))
        places = torch.arange(swaps.number, device=self.keys.device)
        numbers, slot_numbers = (places[some.start : some.stop] for some in (contents, slots))
        part = self.keys[..., first:last, :]
        logits = block_cross_logits(self.query, part, self.angles, numbers, slot_numbers, self.pairing)
        hidden = None
        if self.visible is not None:
            hidden = ~swaps.by_block(self.visible)[..., None, slots.start : slots.stop, :].mT
        ratios = self.ratios(logits, log_z, hidden)  # [..., content, offset, slot]
        return ratios.squeeze(-2) if swaps.block_length == 1 else ratios.sum(-2)

    def ratios(
        self,
        logits: Float[Tensor, "*head group a b c"],
        log_z: Float[Tensor, "*head group"],
        hidden: Bool[Tensor, "*head group #a #b #c"] | None,
    ) -> Tensor:
        """What logits draw, against all attention before the swap; nothing where their place is hidden."""
        log = (self.cap(logits).double() - log_z[..., None, None, None]).clamp_(max=LARGEST_LOG_RATIO)
        # Hidden before the exponential, whose result must stay as it is to be differentiated.
        return (log if hidden is None else log.masked_fill_(hidden, -torch.inf)).exp_()


def score(heads: Heads, swaps: Swaps) -> tuple[Tensor, ...]:
    """Positional and symbolic score, entropy ``[head, group]`` and block means ``[head, group, block]``."""
    step = max(1, CHUNK // (heads.query.shape[-2] * swaps.number**2 * swaps.block_length))
    parts = [_score(heads.take(slice(first, first + step)), swaps) for first in range(0, len(heads.keys), step)]
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _score(heads: Heads, swaps: Swaps) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    total, log_z, mass, outside = heads.attention(swaps)
    scores = torch.empty_like(mass[..., :2])
    for run, hubs in _runs(heads, swaps, mass):
        some, rest = heads.take(run), (mass[run], outside[run])
        if hubs is None:
            table, number = some.swapped(swaps, log_z[run]), swaps.number
            unseen = number - table.shape[-1]
            # Narrow bands of rows keep arrays small and waste little of the half that i < j leaves out.
            step = max(1, min(CHUNK // mass[run].numel(), number if number < 64 else number // 8))
            pairs = every_pair(part_of(table), *rest, step=step, unseen=unseen)
            scores[run] = weighted(pairs, swaps, mass[run], unseen * (unseen - 1) // 2)
        else:
            scores[run] = weighted([_pairs_of_hubs(some, swaps, log_z[run], *rest, hubs)], swaps, mass[run])
    return scores[..., 0], scores[..., 1], normalised_entropy(total, log_z), mass / swaps.block_length


def weighted(
    pairs: Iterable[SwappedPairs], swaps: Swaps, mass: Tensor, empty: int = 0
) -> Float[Tensor, "head group 2"]:
    """Positional and symbolic score: means over pairs, and over some of two unseen blocks."""
    temperature = swaps.block_length * swaps.tau
    widest = mass.amax(-1) - mass.amin(-1)
    # Pairs of two unseen blocks have no gap and no attention: they weigh, and count 0.
    weights = (-widest / temperature).exp() * empty
    positional = symbolic = torch.zeros_like(widest)
    for some in pairs:
        weight = ((some.gap - widest[..., None, None]) / temperature).exp_() * some.counted
        along, across = some.cosines(swaps.eps * swaps.block_length)
        weights = weights + weight.sum((-2, -1))
        positional = positional + (weight * along).sum((-2, -1))
        symbolic = symbolic + (weight * across).sum((-2, -1))
    return torch.stack([positional, symbolic], dim=-1) / weights[..., None]


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
    most, least = mass.amax(-1, keepdim=True), mass.amin(-1, keepdim=True)
    high, low = mass >= most - reach, mass <= least + reach
    upper = high.sum(-1, keepdim=True) <= low.sum(-1, keepdim=True)
    chosen = torch.where(upper, high, low)
    wide = (most - least > reach).squeeze(-1)
    needed = torch.where(wide, chosen.sum(-1), number).amax(-1).tolist()
    bound = min(number // 8, CHUNK // table)
    for few, together in itertools.groupby(range(len(needed)), lambda head: needed[head] <= bound):
        members = list(together)
        run = slice(members[0], members[-1] + 1)
        if few:
            first_chosen = (~chosen[run]).long().argsort(dim=-1, stable=True)
            yield run, _Hubs(index=first_chosen[..., : max(needed[run])], upper=upper[run])
        else:
            yield run, None


def _pairs_of_hubs(
    heads: Heads,
    swaps: Swaps,
    log_z: Tensor,
    mass: Float[Tensor, "head group block"],
    outside: Float[Tensor, "head group"],
    hubs: _Hubs,
) -> SwappedPairs:
    """Pairs ``[head, group, hub, block]`` of hubs with all other blocks; see :func:`every_pair`."""
    shape, angles = (swaps.number, swaps.block_length), heads.angles[..., None, None, :]
    places = torch.arange(swaps.number, device=mass.device)[:, None].double() * swaps.block_length
    keys = heads.keys[:, swaps.start : swaps.stop].unflatten(1, shape)
    home = turn(keys, -places, angles, heads.pairing)
    own = turn(heads.query[:, :, None], -places[hubs.index, 0], angles, heads.pairing)
    # Others at the places of hubs, and hubs at the places of others: [head, group, hub, block, offset].
    arriving = own.flatten(1, 2) @ home.flatten(1, 2).transpose(-1, -2)
    arriving = arriving.unflatten(-1, shape).unflatten(1, hubs.index.shape[1:])
    at_home = home[torch.arange(len(home), device=mass.device)[:, None, None], hubs.index].flatten(2, 3)
    real, imaginary = plane_contributions(heads.query, at_home, heads.pairing)
    phase = angles.transpose(-1, -2) * places.T
    leaving = real.transpose(-1, -2) @ phase.cos().to(real.dtype)
    leaving -= imaginary.transpose(-1, -2) @ phase.sin().to(real.dtype)
    leaving = leaving.unflatten(2, (-1, shape[1])).transpose(-1, -2)
    at_hubs = hidden = None
    if heads.visible is not None:
        hidden = ~swaps.by_block(heads.visible)[:, :, None]
        at_hubs = hidden.squeeze(2).gather(-2, hubs.index[..., None].expand(-1, -1, -1, shape[1]))[:, :, :, None]
    arriving, leaving = heads.ratios(arriving, log_z, at_hubs), heads.ratios(leaving, log_z, hidden)
    first, second = mass.gather(-1, hubs.index)[..., None], mass[..., None, :]
    # All but the two, summed from before and behind the other, as subtracting them would cancel.
    without = second.expand(-1, -1, first.shape[-2], -1).scatter(-1, hubs.index[..., None], 0)
    zero = torch.zeros_like(without[..., :1])
    before = torch.cat([zero, without[..., :-1].cumsum(-1)], dim=-1)
    after = torch.cat([zero, without[..., 1:].flip(-1).cumsum(-1)], dim=-1).flip(-1)
    swapped_first, swapped_second = arriving.sum(-1), leaving.sum(-1)
    return SwappedPairs(
        first=first,
        second=second,
        swapped_first=swapped_first,
        swapped_second=swapped_second,
        swapped_total=before + after + outside[..., None, None] + swapped_first + swapped_second,
        # A pair of two hubs is there twice.
        counted=torch.where(hubs.upper[..., None], first > second, first < second),
    )


@dataclass(frozen=True, kw_only=True)
class SwappedPairs:
    """Pairs ``i < j`` of blocks: attention to both before a swap, and its ratio after it, ``[head, group, i, j]``."""

    first: Tensor
    second: Tensor
    swapped_first: Tensor
    swapped_second: Tensor
    swapped_total: Tensor
    counted: Tensor

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
        along = (first * self.swapped_first + second * self.swapped_second).div_(after)
        across = (first * self.swapped_second + second * self.swapped_first).div_(after)
        return along, across


def part_of(
    table: Float[Tensor, "*head group content slot"],
) -> Callable[[range, range], Float[Tensor, "*head group content slot"]]:
    """Looks up blocks' contents at blocks' places, in a table that lacks the places of some leading blocks."""
    unseen = table.shape[-2] - table.shape[-1]

    def look_up(contents: range, slots: range) -> Tensor:
        return table[..., contents.start : contents.stop, slots.start - unseen : slots.stop - unseen]

    return look_up


def every_pair(
    drawn: Callable[[range, range], Float[Tensor, "head group content slot"]],
    mass: Float[Tensor, "head group block"],
    outside: Float[Tensor, "head group"],
    *,
    step: int,
    unseen: int = 0,
) -> Iterator[SwappedPairs]:
    """All pairs of which at least one block is not among the first ``unseen``, ``step`` rows ``i`` at a time.

    ``drawn(contents, slots)`` is what :meth:`Heads.drawn` gives. The normaliser after a swap is the attention outside
    the pair plus what the pair gets; the former is summed from the blocks before, between and after the two, because
    subtracting the pair from the whole cancels when the pair holds nearly everything.
    """
    blocks, zero = mass.shape[-1], torch.zeros_like(mass[..., :1])
    before = outside[..., None] + torch.cat([zero, mass[..., :-1].cumsum(-1)], dim=-1)
    after = torch.cat([mass[..., 1:].flip(-1).cumsum(-1).flip(-1), zero], dim=-1)
    for top in range(0, unseen, step):
        rows = range(top, min(top + step, unseen))
        gained = drawn(rows, range(unseen, blocks))
        yield SwappedPairs(
            first=mass[..., rows.start : rows.stop, None],
            second=mass[..., None, unseen:],
            swapped_first=torch.zeros_like(gained),
            swapped_second=gained,
            swapped_total=(before + after)[..., None, unseen:] + gained,
            counted=torch.ones((), dtype=torch.bool, device=mass.device),
        )
    for top in range(unseen, blocks - 1, step):
        rows, columns = range(top, min(top + step, blocks - 1)), range(top + 1, blocks)
        i = torch.arange(rows.start, rows.stop, device=mass.device)[:, None]
        j = torch.arange(columns.start, columns.stop, device=mass.device)
        first, second = mass[..., rows.start : rows.stop, None], mass[..., None, columns.start :]
        beyond = torch.where(j > i, second, 0)
        between = torch.cat([zero[..., None].expand(*beyond.shape[:-1], 1), beyond[..., :-1].cumsum(-1)], dim=-1)
        rest = between.add_(before[..., rows.start : rows.stop, None]).add_(after[..., None, columns.start :])
        swapped_first, swapped_second = drawn(columns, rows).mT, drawn(rows, columns)
        yield SwappedPairs(
            first=first,
            second=second,
            swapped_first=swapped_first,
            swapped_second=swapped_second,
            swapped_total=rest.add_(swapped_first).add_(swapped_second),
            counted=j > i,
        )


def normalised_entropy(logits: Float[Tensor, "head group key"], log_z: Tensor) -> Float[Tensor, "head group"]:
    """Entropy of the attention in units of that of uniform attention; 0 where there is no choice."""
    seen = torch.isfinite(logits)
    log_p = torch.where(seen, logits, log_z[..., None]) - log_z[..., None]
    entropy = -(log_p.exp() * log_p).sum(-1)
    return entropy / seen.sum(-1).double().log().clamp_min(torch.finfo(entropy.dtype).tiny)

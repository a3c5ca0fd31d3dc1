"""Blocks of keys that may change places: the attention to them, and what their contents would draw elsewhere.

Everything here takes heads that stand in groups, see :meth:`posym_core.metrics.Heads.group_queries`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core._checks import is_asynchronous, require_count, require_counts, require_floor, require_positive
from posym_core.metrics._heads import Heads
from posym_core.metrics._rope import rotate_by

# Largest number of elements of one intermediate array: 16 MB in float64, small enough to stay near the caches.
CHUNK = 2**21
# exp(690) is 1e299: sums of such ratios over blocks still lie within float64.
LARGEST_LOG_RATIO = 690.0


@dataclass(frozen=True, kw_only=True)
class BlockLayout:
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
        """Number of blocks, once they are :meth:`fit`."""
        assert self.blocks is not None
        return self.blocks

    @property
    def stop(self) -> int:
        """The key behind the last block."""
        return self.start + self.number * self.block_length

    def fit(self, keys: int) -> BlockLayout:
        """Return the layout with a number of blocks; refuse blocks that do not fit before the last of ``keys`` keys."""
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
        return self if blocks == self.blocks else replace(self, blocks=blocks)

    def by_block(self, x: Tensor) -> Tensor:
        """Return ``[..., key]`` as ``[..., block, offset]``."""
        return x[..., self.start : self.stop].unflatten(-1, (self.number, self.block_length))

    def unseen(self, visible: Bool[Tensor, "*head key"] | None) -> int:
        """Count the leading blocks of which no query sees any key."""
        if visible is None:
            return 0
        seen = self.by_block(visible).any(-1).flatten(0, -2).any(0)
        return int((~seen).long().cumprod(0).sum())


def measure_block_attention(
    heads: Heads, swaps: BlockLayout
) -> tuple[
    Float[Tensor, "head group"],
    Float[Tensor, "head group"],
    Float[Tensor, "head group block"],
    Float[Tensor, "head group"],
]:
    """Return entropy over that of uniform attention, log-sum-exp, attention to each block, and to all else."""
    total = heads.cap((heads.query @ heads.keys.squeeze(-3).mT).double())
    if heads.visible is not None:
        total = total.masked_fill(~heads.visible, -torch.inf)
    if heads.sinks is not None:
        total = torch.cat([total, heads.sinks[..., None]], dim=-1)
    # Against the largest, which no sum depends on, and whose slope therefore cancels.
    largest = total.detach().amax(-1, keepdim=True)
    log = total - largest
    attention = log.exp()
    sums = attention.sum(-1, keepdim=True)
    attention = attention / sums
    log_sums = sums.log()
    outside = attention[..., : swaps.start].sum(-1) + attention[..., swaps.stop :].sum(-1)
    if heads.visible is None:
        most = math.log(total.shape[-1])
    else:
        seen = torch.isfinite(log)
        # 0 where there is no choice.
        most = seen.sum(-1).double().log().clamp_min(torch.finfo(log.dtype).tiny)
        log = log.masked_fill(~seen, 0)
    entropy = (log_sums.squeeze(-1) - (attention * log).sum(-1)) / most
    log_z = (log_sums + largest).squeeze(-1)
    return entropy, log_z, swaps.by_block(attention).sum(-1), outside


def fill_block_table(
    heads: Heads, swaps: BlockLayout, log_z: Float[Tensor, "head group"]
) -> Float[Tensor, "head group content slot"]:
    """Tabulate all contents at all places but leading ones that no query sees (beyond a sliding window)."""
    # How many these are would have to be read.
    unseen = 0 if is_asynchronous(heads.keys.device) else swaps.unseen(heads.visible)
    slots = range(unseen, swaps.number)
    step = max(1, CHUNK // (heads.query[..., 0].numel() * swaps.block_length * max(1, len(slots))))
    return slice_block_table(heads, swaps, log_z, range(swaps.number), slots, step)


def slice_block_table(
    heads: Heads, swaps: BlockLayout, log_z: Float[Tensor, "head group"], contents: range, slots: range, step: int = 0
) -> Float[Tensor, "head group content slot"]:
    """Return the attention that blocks' contents would draw at blocks' places, over all attention before the swap.

    A key is turned by as many places as it is moved, and a rotation is orthogonal: so each key is turned back to where
    the first block stands, and the query by as much, once for every place. ``step`` contents are taken at a time, or
    all. Ratios above 1e299 count as that, below 1e-308 they vanish: logits that far apart are beyond float64.
    """
    window = slice(slots.start, slots.stop)
    hidden = None if heads.visible is None else ~swaps.by_block(heads.visible)[..., None, window, :].mT
    logits_at, parts, step = move_block_logits(heads, swaps, slots), [], step or len(contents)
    for top in range(contents.start, contents.stop, step):
        logits = logits_at(slice(top, min(top + step, contents.stop)))
        ratios = compute_ratios(heads, logits, log_z, hidden)
        parts.append(ratios.squeeze(-2) if swaps.block_length == 1 else ratios.sum(-2))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)


def move_block_logits(
    heads: Heads, swaps: BlockLayout, slots: range
) -> Callable[[slice], Float[Tensor, "head group content offset slot"]]:
    """Return what gives the logits of blocks' keys at their offsets in other blocks' places; before any soft-cap."""
    cos, sin = find_place_turns(heads, swaps)
    window, every_key, length = slice(slots.start, slots.stop), heads.keys.squeeze(-3), swaps.block_length
    seen = rotate_by(heads.query[..., None, :], cos[..., None, window, :], sin[..., None, window, :], heads.pairing)

    def logits_of(contents: slice) -> Tensor:
        keys = every_key[..., swaps.start + contents.start * length : swaps.start + contents.stop * length, :]
        keys = keys.unflatten(-2, (-1, length))
        home = rotate_by(keys, cos[..., contents, None, :], sin[..., contents, None, :], heads.pairing)
        logits = home.flatten(-3, -2) @ seen.flatten(-3, -2).transpose(-1, -2)
        return logits.unflatten(-1, seen.shape[-3:-1]).unflatten(-3, home.shape[-3:-1]).movedim(-2, -4)

    return logits_of


def find_place_turns(
    heads: Heads, swaps: BlockLayout
) -> tuple[Float[Tensor, "#head block plane"], Float[Tensor, "#head block plane"]]:
    """Return cosine and sine by which each block's place is turned back to the first's."""
    places = torch.arange(swaps.number, device=heads.keys.device) * -swaps.block_length
    phase = places.double()[:, None] * heads.angles[..., None, :]
    return phase.cos().to(heads.keys.dtype), phase.sin().to(heads.keys.dtype)


def compute_ratios(
    heads: Heads,
    logits: Float[Tensor, "head group a b c"],
    log_z: Float[Tensor, "head group"],
    hidden: Bool[Tensor, "head group #a #b #c"] | None,
) -> Tensor:
    """Return what logits draw, over all attention before the swap; 0 where their place is hidden."""
    log = heads.cap(logits).double().sub_(log_z[..., None, None, None]).clamp_(max=LARGEST_LOG_RATIO)
    # Hidden before the exponential, whose result must stay as it is to be differentiated.
    return (log if hidden is None else log.masked_fill_(hidden, -torch.inf)).exp_()


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

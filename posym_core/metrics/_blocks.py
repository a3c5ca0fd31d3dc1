"""Blocks of keys that may change places: the attention to them, and the logits of their contents at other places.

Everything here takes heads that stand in groups, see :meth:`posym_core.metrics.Heads.group_queries`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from posym_core._checks import require_count, require_counts, require_floor, require_positive
from posym_core.metrics._heads import Heads
from posym_core.metrics._rope import rotate_by

# The logit of what is hidden: nothing is left of it in any softmax, yet differences and slopes of it are numbers.
HIDDEN = torch.finfo(torch.float64).min / 4
# exp(690) is 1e299: sums of such still lie within float64.
LARGEST_LOG = 690.0
# Blocks, as a range of them or as each query's own choice.
Blocks = slice | Int[Tensor, "head group chosen"]


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
        """Return the key behind the last block."""
        return self.start + self.number * self.block_length

    def fit(self, keys: int) -> BlockLayout:
        """Return the layout with a number of blocks; raise if they do not fit before the last of ``keys`` keys."""
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


@dataclass(frozen=True)
class BlockAttention:
    """Attention to blocks before any swap, and to all keys beside them, ``[head, group, ...]``; float64."""

    entropy: Float[Tensor, "head group"]
    log_z: Float[Tensor, "head group"]
    mass: Float[Tensor, "head group block"]
    outside: Float[Tensor, "head group"]
    log_mass: Float[Tensor, "head group block"]
    log_outside: Float[Tensor, "head group"]

    def take(self, heads: slice | Tensor) -> BlockAttention:
        """Return that of some heads."""
        return BlockAttention(*(x[heads] for x in vars(self).values()))


def measure_block_attention(heads: Heads, swaps: BlockLayout) -> BlockAttention:
    """Measure entropy over that of uniform attention, log-sum-exp, and attention to each block and to all else."""
    logits = heads.cap((heads.query @ heads.keys.squeeze(-3).mT).double())
    choices = torch.full_like(logits[..., 0], logits.shape[-1])
    if heads.visible is not None:
        logits, choices = logits.masked_fill(~heads.visible, HIDDEN), heads.visible.sum(-1).double()
    if heads.sinks is not None:
        logits, choices = torch.cat([logits, heads.sinks[..., None]], dim=-1), choices + 1
    largest = logits.detach().amax(-1, keepdim=True)
    log = logits - largest
    attention = log.exp()
    sums = attention.sum(-1, keepdim=True)
    attention, log = attention / sums, log - sums.log()
    # 0 where there is no choice.
    most = choices.log().clamp_min(torch.finfo(choices.dtype).tiny)
    ends = [slice(swaps.start), slice(swaps.stop, None)]
    return BlockAttention(
        entropy=-(attention * log).sum(-1) / most,
        log_z=(sums.log() + largest).squeeze(-1),
        mass=swaps.by_block(attention).sum(-1),
        outside=torch.cat([attention[..., end] for end in ends], dim=-1).sum(-1),
        log_mass=log_sum(swaps.by_block(log)),
        log_outside=log_sum(torch.cat([log[..., end] for end in ends], dim=-1)),
    )


def log_sum(x: Float[Tensor, "*head part"]) -> Float[Tensor, "*head"]:
    """Return the log of the sum of exponentials, in fewer operations than PyTorch's, which takes infinity, too."""
    if x.shape[-1] == 1:
        return x.squeeze(-1)
    largest = x.detach().amax(-1, keepdim=True)
    return (x - largest).exp_().sum(-1).log_().add_(largest.squeeze(-1))


class MovedBlocks:
    """Logits of blocks' contents at blocks' places.

    A key is turned by as many places as it is moved, and a rotation is orthogonal: so each key is turned back to where
    the first block stands, and the query by as much, once for every place.
    """

    def __init__(self, heads: Heads, swaps: BlockLayout) -> None:
        places = torch.arange(swaps.number, device=heads.keys.device).double() * -swaps.block_length
        phase = places[:, None] * heads.angles[..., None, :]
        cos, sin = phase.cos().to(heads.keys.dtype), phase.sin().to(heads.keys.dtype)
        keys = heads.keys[:, 0, swaps.start : swaps.stop].unflatten(1, (swaps.number, swaps.block_length))
        self.heads = heads
        self.home = rotate_by(keys, cos[..., None, :], sin[..., None, :], heads.pairing)
        self.seen = rotate_by(heads.query[:, :, None], cos[:, None], sin[:, None], heads.pairing)
        self.hidden = None if heads.visible is None else ~swaps.by_block(heads.visible)

    def take(self, heads: slice | Tensor) -> MovedBlocks:
        """Return those of some heads."""
        some = copy.copy(self)
        some.home, some.seen = self.home[heads], self.seen[heads]
        some.hidden = None if self.hidden is None else self.hidden[heads]
        return some

    def logits(self, contents: Blocks, places: Blocks) -> Float[Tensor, "head group content offset place"]:
        """Return logits of the contents of some blocks at the places of some, those that are hidden as well."""
        length = self.home.shape[2]
        seen = take_blocks(self.seen, places)
        if isinstance(contents, slice):
            home = self.home[:, contents].flatten(1, 2)
            logits = (home @ seen.flatten(1, 2).mT).unflatten(2, seen.shape[1:3]).transpose(1, 2)
        else:
            own = torch.arange(len(self.home), device=contents.device)[:, None, None]
            logits = self.home[own, contents].flatten(2, 3) @ seen.mT
        return self.heads.cap(logits.unflatten(2, (-1, length)))

    def visible_logits(self, contents: Blocks, places: Blocks) -> Float[Tensor, "head group content offset place"]:
        """Return the same in float64; next to nothing where a place is hidden."""
        logits = self.logits(contents, places).double()
        if self.hidden is None:
            return logits
        return logits.masked_fill_(take_blocks(self.hidden, places).mT[:, :, None], HIDDEN)


def take_blocks(x: Shaped[Tensor, "head group block *rest"], blocks: Blocks) -> Shaped[Tensor, "head group some *rest"]:
    """Return some blocks of each query."""
    if isinstance(blocks, slice):
        return x[:, :, blocks]
    index = blocks.reshape(*blocks.shape, *(1 for _ in x.shape[3:]))
    return x.gather(2, index.expand(*blocks.shape, *x.shape[3:]))

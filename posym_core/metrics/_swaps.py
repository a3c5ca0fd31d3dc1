"""Positional and symbolic scores of attention heads, by swapping blocks of keys.

Urrutia et al. (2026a, section 4; 2026b, Appendix D). Take the attention of the last token over ``m`` blocks of keys,
swap the contents of two blocks, and look where the attention went. If it stayed with the places, the head is
positional on this input; if it followed the contents, the head is symbolic. Each pair of blocks counts by how
differently the head attended to its two members.

Every swap is scored in closed form. Swapping blocks ``i`` and ``j`` changes only their own logits, and these stand in
the cross-logit matrix ``C``: with ``S[c, p]`` the sum of ``exp C`` over block ``c``'s content at block ``p``'s place,
the two block means after the swap are ``S[j, i]`` and ``S[i, j]`` over ``block_length`` times the new normaliser.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core._checks import is_asynchronous
from posym_core.metrics._blocks import (
    HIDDEN,
    LARGEST_LOG,
    BlockAttention,
    BlockLayout,
    Blocks,
    MovedBlocks,
    log_sum,
    measure_block_attention,
)
from posym_core.metrics._heads import Heads
from posym_core.metrics._rope import Pairing

# Numbers in one table of contents and places, a dozen of which live at once: near a CPU's caches, or many on a GPU.
TABLE, LARGE_TABLE = 2**18, 2**23
# Numbers in all tables from which it pays to ask which pairs weigh anything.
WORTH = 2**15
# Weights of exp(-40) of the largest, divided among all pairs, are below the rounding of float64.
NEGLIGIBLE = 40.0
TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True, kw_only=True)
class SwapScores:
    """Scores of heads on inputs; every field has the batch's shape, or ``[..., plane]`` per frequency.

    Attributes:
        positional: ``s_POS`` in [0, 1]; near 1 when attention stays at its places under swaps.
        symbolic: ``s_SYM`` in [0, 1]; near 1 when attention follows the contents.
        entropy: entropy of the attention over all visible keys, divided by its maximum; 1 for uniform attention,
            for which both scores are 1 and tell nothing.
        attention: mean attention to each block before any swap, ``[..., block]`` or ``[..., plane, block]``.
    """

    positional: Tensor
    symbolic: Tensor
    entropy: Tensor
    attention: Tensor


def swap_scores(
    query: Float[Tensor, "*#batch dim"],
    keys: Float[Tensor, "*#batch key dim"],
    angles: Float[Tensor, "*#head plane"],
    *,
    start: int = 0,
    block_length: int = 1,
    blocks: int | None = None,
    tau: float = 1e-4,
    eps: float = 1e-8,
    scale: float = 1.0,
    pairing: Pairing = "halves",
    per_frequency: bool = False,
    visible: Bool[Tensor, "*#batch key"] | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, "*#batch"] | None = None,
    products: torch.dtype = torch.float64,
) -> SwapScores:
    """Swap every pair of key blocks, and score by where the attention of a head went.

    Positional: it stayed with the places. Symbolic: it followed the contents.

    Args:
        query: the last token's query ``[..., dim]``, rotated to its position.
        keys: ``[..., key, dim]``, key ``j`` rotated to position ``j``; the last key is the query's own and is never
            swapped. Leading dimensions broadcast; under grouped query heads give the keys a dimension of 1 there.
        angles: ``[dim / 2]``, or more of them for heads with their own; radians per position, 0 for unrotated planes.
        start: first key of the first block.
        block_length: keys per block.
        blocks: number of blocks, at least 2; by default as many as fit between ``start`` and the last key.
        tau: temperature of the weights over pairs, ``softmax(|d_i - d_j| / tau)``. 1e-4 is the default of the code
            released with Urrutia et al. (2026b); towards 0 the most unequal pair decides alone, towards infinity all
            pairs count the same.
        eps: floor of the norms in the cosine. A pair whose block means both fall below it, before or after the swap,
            counts as (nearly) 0 in both scores. With ``eps=0`` only vanishing vectors do.
        scale: what the head multiplies its dot products with.
        pairing: ``"halves"`` or ``"neighbours"``.
        per_frequency: score each rotation plane as a two-dimensional head of its own.
        visible: which keys the query sees, ``[..., key]``; visibility belongs to the place, not to the content.
            The default is all.
        softcap: logits are ``softcap * tanh(logit / softcap)``; with ``per_frequency`` each plane's are.
        sinks: logit of an attention sink per head, which takes attention but is no key.
        products: dtype in which queries and keys are multiplied. float64 gives the scores of the inputs as they
            are; float32 halves the cost of long inputs and adds rounding of the size that a float32 model's own
            queries and keys already carry. All that follows the products is in float64.

    Returns:
        :class:`SwapScores`, in the inputs' dtype. They can be differentiated with respect to query, keys and sinks.

    A head without rotation follows its contents:

    >>> keys = torch.tensor([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    >>> scores = swap_scores(torch.tensor([1.0, 0.0]), keys, torch.zeros(1))
    >>> scores.symbolic, scores.positional < 0.1
    (tensor(1.), tensor(True))
    """
    heads = Heads(
        query=query,
        keys=keys,
        angles=angles,
        scale=scale,
        visible=visible,
        softcap=softcap,
        sinks=sinks,
        pairing=pairing,
    )
    swaps = BlockLayout(start=start, block_length=block_length, blocks=blocks, tau=tau, eps=eps)
    return score_swaps(heads, swaps, per_frequency=per_frequency, products=products)


def score_swaps(
    heads: Heads, swaps: BlockLayout, *, per_frequency: bool = False, products: torch.dtype = torch.float64
) -> SwapScores:
    """Score heads as :func:`posym_core.swap_scores` does."""
    if products not in (torch.float32, torch.float64):
        raise ValueError(f"products must be torch.float32 or torch.float64; got {products}")
    swaps = swaps.fit(heads.keys.shape[-2])
    heads.check_values(products)
    groups = heads.group_queries(products, per_frequency=per_frequency)
    if heads.visible is not None and not is_asynchronous(heads.keys.device) and heads.visible.all():
        # What hides nothing need not be looked at again and again.
        groups = replace(groups, visible=None)
    scores = _score_groups(groups, swaps)
    positional, symbolic, entropy, attention = (
        heads.ungroup(x, per_frequency=per_frequency).to(heads.keys.dtype) for x in scores
    )
    return SwapScores(positional=positional, symbolic=symbolic, entropy=entropy, attention=attention)


def _score_groups(heads: Heads, swaps: BlockLayout) -> tuple[Tensor, ...]:
    """Return scores and entropy ``[head, group]`` and block means ``[head, group, block]``, some heads at a time."""
    attention = measure_block_attention(heads, swaps)
    scores, moved = torch.empty_like(attention.mass[..., :2]), MovedBlocks(heads, swaps)
    for chosen, rows in _choose_rows(attention, swaps, heads.query.shape[-1]):
        blocks, its = moved.take(chosen), attention.take(chosen)
        if rows < swaps.number:
            total = _sum_pairs(blocks, swaps, its, its.mass.topk(rows).indices, slice(0, swaps.number))
        else:
            # Parts of one table do some work twice, so they are larger.
            step = max(1, 4 * _find_room(its.mass) // (its.mass.numel() * swaps.block_length))
            bands = [slice(top, min(top + step, swaps.number)) for top in range(0, swaps.number, step)]
            sums = [_sum_pairs(blocks, swaps, its, band, slice(band.start, swaps.number)) for band in bands]
            total = sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)
        scores[chosen] = total[..., :2] / total[..., 2:]
    return *scores.unbind(-1), attention.entropy, attention.mass / swaps.block_length


def _find_room(x: Tensor) -> int:
    """Return how many numbers to put into one table."""
    return LARGE_TABLE if is_asynchronous(x.device) else TABLE


def _choose_rows(attention: BlockAttention, swaps: BlockLayout, dim: int) -> Iterator[tuple[slice | Tensor, int]]:
    """Yield some key heads at a time, with how many blocks of most attention are in every pair that weighs anything.

    Where these are few, no other pairs are scored. How many they are is read, so on a GPU, which would wait, all blocks
    are taken.
    """
    heads, group, number = attention.mass.shape
    size = group * number * swaps.block_length
    kinds: dict[int, list[int]] = {number: [*range(heads)]}
    if not is_asynchronous(attention.mass.device) and heads * size * number > WORTH:
        # Whatever the temperature, gaps that are equal but for rounding weigh alike.
        reach = max(swaps.block_length * swaps.tau * (NEGLIGIBLE + 2 * math.log(number)), 1e-15)
        near = attention.mass.detach() >= attention.mass.detach().amax(-1, keepdim=True) - reach
        kinds = {}
        for head, needed in enumerate(near.sum(-1).amax(-1).tolist()):
            # Rows to the next power of four, and at least four, are scored together.
            rows = 4 ** max(1, (needed - 1).bit_length() + 1 >> 1)
            kinds.setdefault(rows if rows <= number // 3 else number, []).append(head)
        for rows, more in itertools.pairwise(sorted(kinds)):
            # Too few to be scored on their own.
            if len(kinds[rows]) * size * (more - rows) < WORTH:
                kinds[more] += kinds.pop(rows)
    for rows, members in kinds.items():
        step = max(1, _find_room(attention.mass) // (size * max(rows, dim // 4)))
        for first in range(0, len(members), step):
            # All of a kind are a view.
            yield slice(first, first + step) if len(kinds) == 1 else torch.tensor(members[first : first + step]), rows


def _sum_pairs(
    blocks: MovedBlocks, swaps: BlockLayout, attention: BlockAttention, rows: Blocks, columns: slice
) -> Float[Tensor, "head group 3"]:
    """Return the weighted sums of both cosines, and of weights, over the pairs of some blocks with some blocks.

    Attention after a swap is in units of the most that a key of either block draws then, so that it vanishes nowhere,
    however far apart logits are.
    """
    mass, floor = attention.mass, swaps.eps * swaps.block_length
    leaving = blocks.visible_logits(rows, columns)
    # What all blocks draw at all places is one table, read both ways.
    square = isinstance(rows, slice) and rows == columns
    arriving = leaving if square else blocks.visible_logits(columns, rows)
    unit = torch.maximum(leaving.detach().amax(-2), arriving.detach().amax(-2).mT)
    there = leaving.sub_(unit[..., None, :]).exp_().sum(-2)
    here = there if square else arriving.sub_(unit.mT[..., None, :]).exp_().sum(-2)
    # Pairs by row and column of these tables, and by numbers of blocks.
    count, length = unit.shape[-2:]
    if isinstance(rows, slice):
        row, column = torch.triu_indices(count, length, 1, device=mass.device)
        first, second = row + rows.start, column + columns.start
    else:
        row, column = torch.arange(count).repeat_interleave(length), torch.arange(length).repeat(count)
        first, second = rows.repeat_interleave(length, dim=-1), column
    at = row * length + column
    here, there = take_pairs(here.flatten(-2), column * count + row), take_pairs(there.flatten(-2), at)
    unit = take_pairs((unit - attention.log_z[..., None, None]).flatten(-2), at)
    this, other = take_pairs(mass, first), take_pairs(mass, second)
    top, log_rest = _measure_rest(attention)
    rest = (1 - this - other).clamp_min_(TINY).log_()
    rest = torch.where(second == top, take_pairs(log_rest, first), rest)
    rest = torch.where(first == top, take_pairs(log_rest, second), rest)
    rest = (rest - unit).clamp_(max=LARGEST_LOG).exp_()
    after = torch.hypot(here, there).maximum((rest + here + there) * floor)
    before = torch.hypot(this, other.clamp_min(TINY)).clamp_min(floor)
    least, most = torch.aminmax(mass, dim=-1, keepdim=True)
    weight = (this - other).abs_().sub_(most - least).div_(swaps.block_length * swaps.tau).exp_()
    if not isinstance(rows, slice):
        # A pair of two rows stands there twice, and one of a block with itself is none.
        twice = torch.ones_like(mass).scatter(-1, rows, 2.0)
        weight = (weight / take_pairs(twice, second)).masked_fill(first == second, 0)
    # The norm before is divided out first: where it is next to nothing, so are both, and have slopes.
    this, other, share = this / before, other / before, weight / after
    along = (share * torch.addcmul(this * here, other, there)).sum(-1)
    across = (share * torch.addcmul(this * there, other, here)).sum(-1)
    return torch.stack([along, across, weight.sum(-1)], dim=-1)


def take_pairs(x: Float[Tensor, "head group block"], index: Tensor) -> Float[Tensor, "head group pair"]:
    """Return entries of the last dimension, several times faster on a CPU than by an index."""
    return x.gather(-1, index.expand(*x.shape[:-1], -1))


def _measure_rest(attention: BlockAttention) -> tuple[Tensor, Float[Tensor, "head group block"]]:
    """Return the block of most attention, and the log of attention to all but it and each other block.

    Nothing is subtracted that holds nearly all: the sum of what is beside both would be lost in rounding.
    """
    top = attention.log_mass.argmax(-1, keepdim=True)
    others = torch.cat([attention.log_mass.scatter(-1, top, HIDDEN), attention.log_outside[..., None]], dim=-1)
    largest = others.detach().amax(-1, keepdim=True)
    drawn = (others - largest).exp()
    without = (drawn.sum(-1, keepdim=True) - drawn).clamp_min(TINY).log() + largest
    next_ = others[..., :-1].argmax(-1, keepdim=True)
    last = log_sum(others.scatter(-1, next_, HIDDEN))[..., None]
    return top, without.scatter(-1, next_, last)[..., :-1]

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

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posym_core._checks import is_asynchronous
from posym_core.metrics._blocks import (
    CHUNK,
    BlockLayout,
    SwappedPairs,
    fill_block_table,
    measure_block_attention,
    slice_block_table,
)
from posym_core.metrics._few_blocks import group_hubs, list_hub_pairs
from posym_core.metrics._heads import Heads
from posym_core.metrics._memory import fit_batches
from posym_core.metrics._rope import Pairing

# Numbers in one array of pairs on a CPU, more of which live at once.
PAIRS = 2**16


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


def average_cosines(
    pairs: Iterable[SwappedPairs], swaps: BlockLayout, mass: Float[Tensor, "head group block"], empty: int = 0
) -> Float[Tensor, "head group 2"]:
    """Return positional and symbolic score, means over pairs weighing ``exp(|d_i - d_j| / tau)`` by block means ``d``.

    ``empty`` pairs of two blocks that no query sees are there beside those given.
    """
    temperature = swaps.block_length * swaps.tau
    least, most = torch.aminmax(mass, dim=-1, keepdim=True)
    widest = most - least
    sums: list[Tensor] = []
    for some in pairs:
        weight = some.gap.sub_(widest).div_(temperature).exp_()
        if some.counted is not None:
            weight = weight * some.counted
        along, across = compare_attention(some, swaps.eps * swaps.block_length)
        sums.append(torch.stack([(weight * along).sum(-1), (weight * across).sum(-1), weight.sum(-1)], dim=-1))
    total = sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)
    scores, weights = total[..., :2], total[..., 2:]
    if empty:
        # They have no gap and no attention: they weigh, and count 0.
        weights = weights + (-widest / temperature).exp() * empty
    return scores / weights


def compare_attention(
    pairs: SwappedPairs, floor: float
) -> tuple[Float[Tensor, "head group pair"], Float[Tensor, "head group pair"]]:
    """Return cosines of ``(d_i, d_j)`` after a swap with it before, as it was and exchanged; norms floored."""
    # Both norms are divided out one after the other: their product would underflow before they do. Neither is 0,
    # where a norm has no slope.
    tiny = torch.finfo(pairs.first.dtype).tiny
    before = torch.hypot(pairs.first, pairs.second.clamp_min(tiny)).clamp_min(floor)
    after = torch.hypot(pairs.swapped_first, pairs.swapped_second.clamp_min(tiny)).maximum(floor * pairs.swapped_total)
    first, second = pairs.first / before, pairs.second / before
    along = torch.addcmul(first * pairs.swapped_first, second, pairs.swapped_second).div_(after)
    across = torch.addcmul(first * pairs.swapped_second, second, pairs.swapped_first).div_(after)
    return along, across


def _score_groups(heads: Heads, swaps: BlockLayout) -> tuple[Tensor, ...]:
    """Return scores and entropy ``[head, group]`` and block means ``[head, group, block]``, some heads at a time."""
    in_few_operations, rows = is_asynchronous(heads.keys.device), 0
    if in_few_operations:
        step, rows = fit_batches(heads, swaps)
    else:
        step = max(1, CHUNK // (heads.query.shape[-2] * swaps.number**2 * swaps.block_length))
    parts = []
    for first in range(0, len(heads.keys), step):
        some = heads.take(slice(first, first + step))
        entropy, log_z, mass, outside = measure_block_attention(some, swaps)
        if in_few_operations:
            scores = _in_few_operations(some, swaps, log_z, mass, outside, rows)
        else:
            scores = _piece_by_piece(some, swaps, log_z, mass, outside)
        parts.append((*scores.unbind(-1), entropy, mass / swaps.block_length))
    return parts[0] if len(parts) == 1 else tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _in_few_operations(
    heads: Heads, swaps: BlockLayout, log_z: Tensor, mass: Tensor, outside: Tensor, rows: int
) -> Float[Tensor, "head group 2"]:
    """Score as a GPU wants it: each operation costs a launch there, and each number that is looked at a wait.

    So no pair is left out because it weighs nothing: which do would have to be looked at.
    """

    def slice_table(contents: range, slots: range) -> Tensor:
        return slice_block_table(heads, swaps, log_z, contents, slots)

    every = range(swaps.number)
    # Pairs in one band share one table of contents and places; bands make what they need.
    table = _cut(slice_table(every, every)) if rows >= swaps.number else slice_table
    return average_cosines(score_every_pair(table, mass, outside, step=rows), swaps, mass)


def _piece_by_piece(
    heads: Heads, swaps: BlockLayout, log_z: Tensor, mass: Tensor, outside: Tensor
) -> Float[Tensor, "head group 2"]:
    """Score as a CPU wants it: what weighs nothing is left out, and arrays stay near the caches."""
    scores: list[Tensor] = []
    for run, hubs in group_hubs(heads, swaps, mass):
        some, given = heads.take(run), (log_z[run], mass[run], outside[run])
        if hubs is None:
            scores.append(_by_all_pairs(some, swaps, *given))
        else:
            scores.append(average_cosines([list_hub_pairs(some, swaps, *given, hubs)], swaps, mass[run]))
    return scores[0] if len(scores) == 1 else torch.cat(scores)


def _by_all_pairs(
    heads: Heads, swaps: BlockLayout, log_z: Tensor, mass: Tensor, outside: Tensor
) -> Float[Tensor, "head group 2"]:
    """Score every pair that attention can reach."""
    table = fill_block_table(heads, swaps, log_z)
    unseen = swaps.number - table.shape[-1]
    # Nothing is drawn at the places of leading blocks that no query sees, nor do two of them differ.
    whole = _cut(torch.nn.functional.pad(table, (unseen, 0)) if unseen else table)
    pairs = score_every_pair(whole, mass, outside, step=max(1, PAIRS // mass.numel()), unseen=unseen)
    return average_cosines(pairs, swaps, mass, unseen * (unseen - 1) // 2)


# Gives what the contents of some blocks draw at the places of some blocks, [head, group, content, slot].
SliceTable = Callable[[range, range], Tensor]


def _cut(table: Float[Tensor, "head group content slot"]) -> SliceTable:
    return lambda contents, slots: table[..., contents.start : contents.stop, slots.start : slots.stop]


def score_every_pair(
    slice_table: SliceTable,
    mass: Float[Tensor, "head group block"],
    outside: Float[Tensor, "head group"],
    *,
    step: int,
    unseen: int = 0,
) -> Iterator[SwappedPairs]:
    """Yield all pairs of which at least one block is not among the first ``unseen``, ``step`` blocks ``i < j`` at a
    time.
    """
    blocks, device = mass.shape[-1], mass.device
    for top in range(0, blocks - 1, step):
        rows, columns = range(top, min(top + step, blocks - 1)), range(max(top + 1, unseen), blocks)
        row, column = torch.triu_indices(len(rows), len(columns), rows.start + 1 - columns.start, device=device)
        by_row, by_column = row * len(columns) + column, column * len(rows) + row
        swapped_first = take_entries(slice_table(columns, rows).flatten(-2), by_column)
        swapped_second = take_entries(slice_table(rows, columns).flatten(-2), by_row)
        total = sum_others(mass, outside, rows, columns, row, column)
        yield SwappedPairs(
            first=take_entries(mass, row + rows.start),
            second=take_entries(mass, column + columns.start),
            swapped_first=swapped_first,
            swapped_second=swapped_second,
            swapped_total=total.add_(swapped_first).add_(swapped_second),
        )


def sum_others(
    mass: Float[Tensor, "head group block"],
    outside: Float[Tensor, "head group"],
    rows: range,
    columns: range,
    row: Int[Tensor, " pair"],
    column: Int[Tensor, " pair"],
) -> Float[Tensor, "head group pair"]:
    """Return the attention outside of each pair of blocks, ``rows[row]`` and ``columns[column]``.

    It is summed from the blocks before the second, but for the first, and from all behind: to subtract the pair from
    the whole would cancel where the pair holds nearly everything.
    """
    gap = columns.start - rows.start - 1
    before = mass[..., None, columns.start - 1 : -1].expand(*mass.shape[:-1], len(rows), -1)
    is_first = torch.eye(len(rows), len(columns) + gap, dtype=torch.bool, device=mass.device)[:, gap:]
    before = before.masked_fill(is_first, 0).cumsum(-1).flatten(-2)
    behind = torch.cat([mass[..., 1:], outside[..., None]], dim=-1).flip(-1).cumsum(-1).flip(-1)
    if columns.start > 1:
        behind = behind + mass[..., : columns.start - 1].sum(-1, keepdim=True)
    total = take_entries(before, row * len(columns) + column)
    return total.add_(take_entries(behind, column + columns.start))


def take_entries(x: Float[Tensor, "*head place"], index: Int[Tensor, " pair"]) -> Float[Tensor, "*head pair"]:
    """Return entries of the last dimension, several times faster on a CPU than by an index."""
    return x.gather(-1, index.expand(*x.shape[:-1], -1))

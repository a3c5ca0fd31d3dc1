"""Scores from any permutations of blocks, inside a head or by running the permuted prompt.

Swap scores look at swaps. The same question can be put to a permutation that moves many blocks: did attention stay with
the places or follow the contents? With ``d`` the mean attention to each block, ``order`` saying which content stands at
which place, and ``d'`` the means afterwards, the two cosines compare ``d'`` with ``d`` (stayed) and with ``d[order]``
(followed), over the places whose content changed. A permutation weighs
``softmax(gap / tau)`` with ``gap = |d - d[order]| / sqrt(2)``, which for a swap is ``|d_i - d_j|``. So on all swaps
these are the scores of Urrutia et al. (2026a, section 4); on other permutations they are this project's own.

Inside a head every permutation reads its attention off one table of block sums. For a permutation of the prompt itself
the attention comes from a second forward pass, and is scored in the same way. :func:`score_cross_logits` does the same
for a ``C`` that comes from an encoding that is not rotary, or is written down by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_core._checks import (
    Checks,
    is_asynchronous,
    require,
    require_count,
    require_counts,
    require_floating,
    require_floor,
    require_positive,
)
from posym_core.metrics._blocks import LARGEST_LOG, BlockLayout, measure_block_attention
from posym_core.metrics._cube_parts import compute_block_logits
from posym_core.metrics._heads import Heads


@dataclass(frozen=True, kw_only=True)
class BlockTable:
    """All that permutations of blocks can do to a head's attention, in units of the normaliser before any of them.

    Attributes:
        logs: logarithm of the attention that a block's content would draw at a block's place, ``[..., content,
            place]``; float64, ``-inf`` where it would draw none. What stays bounded is taken of them after a
            permutation: one that moves the largest logit away changes the normaliser by any factor.
        log_outside: logarithm of the attention to all that is in no block, ``[...]``.
        block_length: keys per block.
    """

    logs: Float[Tensor, "*batch content place"]
    log_outside: Float[Tensor, "*batch"]
    block_length: int

    @property
    def sums(self) -> Float[Tensor, "*batch content place"]:
        """Return ``S[..., content, place]``, the attention itself, cut off at 1e299."""
        return self.logs.clamp(max=LARGEST_LOG).exp()

    def attention(
        self, orders: Int[Tensor, "permutation place"] | None = None
    ) -> Float[Tensor, "*batch permutation place"] | Float[Tensor, "*batch place"]:
        """Return mean attention to places that hold contents ``orders[permutation, place]``, by default their own."""
        if orders is None:
            drawn, outside = self.logs.diagonal(dim1=-2, dim2=-1), self.log_outside
        else:
            places = torch.arange(self.logs.shape[-1], device=self.logs.device)
            orders = _check_orders(orders, len(places)).to(places.device)
            drawn, outside = self.logs[..., orders, places], self.log_outside[..., None]
        every = torch.cat([drawn, outside[..., None].expand(*drawn.shape[:-1], 1)], -1)
        return every.softmax(-1)[..., :-1] / self.block_length


@dataclass(frozen=True, kw_only=True)
class PermutationScores:
    """Scores over permutations, float64; every field has the batch's shape.

    Attributes:
        positional: cosine with the attention before, averaged with weights ``softmax(gap / tau)``.
        symbolic: cosine with that attention carried along by the contents, averaged in the same way.
    """

    positional: Tensor
    symbolic: Tensor


def tabulate_blocks(heads: Heads, swaps: BlockLayout) -> BlockTable:
    """Return the table of block sums of heads.

    Args:
        heads: their last tokens' queries, keys and angles.
        swaps: which blocks of keys may change places; its ``tau`` and ``eps`` play no part.

    >>> heads = Heads(query=torch.zeros(2), keys=torch.zeros(4, 2), angles=torch.ones(1))
    >>> tabulate_blocks(heads, BlockLayout()).attention(torch.tensor([[2, 0, 1]]))
    tensor([[0.2500, 0.2500, 0.2500]], dtype=torch.float64)
    """
    logits = compute_block_logits(heads, swaps)
    attention = measure_block_attention(heads.group_queries(torch.float64), swaps.fit(heads.keys.shape[-2]))
    log_z, log_outside = heads.ungroup(attention.log_z), heads.ungroup(attention.log_outside)
    return BlockTable(logs=logits - log_z[..., None, None], log_outside=log_outside, block_length=swaps.block_length)


def score_permutations(
    before: Float[Tensor, "*batch place"],
    after: Float[Tensor, "*batch permutation place"],
    orders: Int[Tensor, "permutation place"],
    *,
    tau: float = 1e-4,
    eps: float = 1e-8,
) -> PermutationScores:
    """Score attention before and after permutations of blocks.

    Args:
        before: mean attention to each block.
        after: the same after each permutation, from :meth:`BlockTable.attention` or from a run of the permuted prompt.
        orders: which block's content stands at each place after each permutation; none may leave all in place.
        tau: temperature of the weights over permutations.
        eps: floor of the norms in the cosine.

    Attention that followed a rotation of three contents:

    >>> before = torch.tensor([0.5, 0.3, 0.1])
    >>> scores = score_permutations(before, before[[1, 2, 0]][None], torch.tensor([[1, 2, 0]]))
    >>> round(float(scores.symbolic), 6), round(float(scores.positional), 2)
    (1.0, 0.66)
    """
    require_floating("before", before)
    require_floating("after", after)
    require_positive("tau", tau)
    require_floor("eps", eps)
    with Checks() as check:
        check.finite("before", before)
        check.finite("after", after)
        orders = _check_orders(orders, before.shape[-1]).to(before.device)
        if tuple(after.shape[-2:]) != tuple(orders.shape):
            raise ValueError(
                f"after must have shape [..., {orders.shape[0]}, {orders.shape[1]}]; got {tuple(after.shape)}"
            )
        moved = orders != torch.arange(before.shape[-1], device=before.device)
        unmoved = (~moved.any(-1)).sum()
        check(unmoved == 0, lambda: f"every order must move a block, but {int(unmoved)} of {len(orders)} move none")
    before = before.double()
    stayed, followed = before[..., None, :] * moved, before[..., orders] * moved
    after = after.double() * moved
    gap = (stayed - followed).norm(dim=-1) / math.sqrt(2)
    weights = ((gap - gap.amax(-1, keepdim=True)) / tau).softmax(-1)
    along, across = ((weights * _cosine(after, x, eps)).sum(-1) for x in (stayed, followed))
    return PermutationScores(positional=along, symbolic=across)


def list_swap_orders(blocks: int) -> Int[Tensor, "pair place"]:
    """Return every swap of two of ``blocks`` blocks, in the order of ``torch.triu_indices``."""
    require_count("blocks", blocks, 2)
    first, second = torch.triu_indices(blocks, blocks, 1)
    orders = torch.arange(blocks).repeat(len(first), 1)
    row = torch.arange(len(first))
    orders[row, first], orders[row, second] = second, first
    return orders


def draw_orders(blocks: int, count: int, generator: torch.Generator) -> Int[Tensor, "permutation place"]:
    """Draw ``count`` permutations of ``blocks`` blocks, each evenly from all that move something."""
    require_counts(blocks=(blocks, 2), count=(count, 1))
    drawn, unmoved = [], torch.arange(blocks)
    while len(drawn) < count:
        order = torch.randperm(blocks, generator=generator)
        if not torch.equal(order, unmoved):
            drawn.append(order)
    return torch.stack(drawn)


def permute_blocks(
    input_ids: Int[Tensor, "*batch token"], orders: Int[Tensor, "permutation place"], *, start: int, block_length: int
) -> Int[Tensor, "*batch permutation token"]:
    """Permute the blocks of prompts: place ``p`` holds the tokens of block ``orders[permutation, p]``."""
    blocks = orders.shape[-1]
    orders = _check_orders(orders, blocks)
    tokens = input_ids.shape[-1]
    stop = start + blocks * block_length
    if start < 0 or stop > tokens - 1:
        raise ValueError(
            f"blocks cover tokens {start} to {stop - 1}, but the last of {tokens} tokens is the query; "
            "pass fewer blocks"
        )
    orders = orders.to(input_ids.device)
    index = torch.arange(tokens, device=orders.device).repeat(len(orders), 1)
    inside = start + orders[..., None] * block_length + torch.arange(block_length, device=orders.device)
    index[:, start:stop] = inside.flatten(1)
    return input_ids[..., index]


def _cosine(x: Tensor, y: Tensor, eps: float) -> Tensor:
    """Return the cosine along the last dimension with floored norms; 0 where one vanishes."""
    floor = max(eps, torch.finfo(torch.float64).tiny)
    x, y = (z / z.norm(dim=-1, keepdim=True).clamp_min(floor) for z in (x, y))
    return (x * y).sum(-1)


def _check_orders(orders: Tensor, blocks: int) -> Tensor:
    if orders.ndim != 2 or orders.shape[1] != blocks or orders.shape[0] == 0:
        raise ValueError(
            f"orders must have shape [permutation, {blocks}], one place per block; got {tuple(orders.shape)}"
        )
    if orders.is_floating_point() or orders.dtype == torch.bool:
        raise TypeError(f"orders must be whole numbers; got {orders.dtype}")
    require(
        (orders.sort(-1).values == torch.arange(blocks, device=orders.device)).all(),
        f"every order must hold each of the numbers 0 to {blocks - 1} once",
    )
    # A number out of range would end a GPU's work before the flags are looked at.
    return orders.clamp(0, blocks - 1) if is_asynchronous(orders.device) else orders


def score_cross_logits(
    C: Float[Tensor, "*batch content position"],
    *,
    outside: Float[Tensor, "*batch other"] | None = None,
    tau: float = 1e-4,
    eps: float = 1e-8,
) -> PermutationScores:
    """Return scores of heads on all swaps of two single keys.

    Args:
        C: cross-logits of the keys that may be swapped, at least two.
        outside: logits of keys that take attention but are never swapped, such as the query's own; of every head.
        tau: temperature of the weights over pairs.
        eps: floor of the norms in the cosine.

    Returns:
        :class:`posym_core.metrics.PermutationScores`, float64.

    >>> scores = score_cross_logits(torch.tensor([[5.0, 5.0], [0.0, 0.0]]))
    >>> round(float(scores.symbolic), 4), round(float(scores.positional), 4)
    (1.0, 0.0135)
    """
    require_floating("C", C)
    if C.ndim < 2 or C.shape[-1] != C.shape[-2] or C.shape[-1] < 2:
        raise ValueError(
            f"C must have shape [..., content, position] with as many contents as positions, at least two; got "
            f"{tuple(C.shape)}"
        )
    with Checks() as check:
        check.finite("C", C)
        unmoved = C.double().diagonal(dim1=-2, dim2=-1)
        others = unmoved[..., :0] if outside is None else outside.double()
        check.finite("outside", others)
        log_z = torch.cat([unmoved, others], dim=-1).logsumexp(-1, keepdim=True)
        logs, log_outside = C.double() - log_z[..., None], (others - log_z).logsumexp(-1)
        table = BlockTable(logs=logs, log_outside=log_outside, block_length=1)
        orders = list_swap_orders(C.shape[-1])
        return score_permutations(table.attention(), table.attention(orders), orders, tau=tau, eps=eps)

"""Symbol, origin and place: which part of a head's logits follows which.

A key swap moves two things. The key at a place was computed there, behind what stands before it; so whoever moves it
takes along its *symbol*, what the block says, and its *origin*, the place where the key was computed. One prompt cannot
tell them apart, since each symbol has one origin in it. A Latin square of prompts can: it puts every symbol at every
origin once. Of each prompt the cross-logits are known in closed form, and together they are a cube
``C[symbol, origin, place]``, whose variance has seven parts. The two factors of Urrutia et al. (2026a, section 4) are
place and the two others together; to take these apart is this project's own. Song and Zhong (2023, arXiv 2310.04861)
take mean effects of position and context of hidden states apart in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posym_core._checks import require_count, require_floating
from posym_core.metrics._blocks import BlockLayout, MovedBlocks
from posym_core.metrics._heads import Heads

# Most numbers in one table of contents and places.
CHUNK = 2**21
AXES = ("symbol", "origin", "place")
# The seven parts, by the axes on which they depend.
PARTS: Mapping[tuple[int, ...], str] = {
    (0,): "symbol",
    (1,): "origin",
    (2,): "place",
    (0, 1): "symbol_origin",
    (0, 2): "symbol_place",
    (1, 2): "origin_place",
    (0, 1, 2): "all_three",
}
# Deviations below this many units in the last place of the largest logit are rounding.
ROUNDING = 16


def draw_latin_square(blocks: int, generator: torch.Generator) -> Int[Tensor, "prompt place"]:
    """Draw a Latin square: which symbol stands at each place of each prompt, every symbol once at every place.

    Rows, columns and symbols of the cyclic square in random order, so that what precedes a symbol varies.

    >>> draw_latin_square(3, torch.Generator().manual_seed(0)).sum(0)
    tensor([3, 3, 3])
    """
    require_count("blocks", blocks, 2, "there is nothing to swap otherwise")
    rows, columns, symbols = (torch.randperm(blocks, generator=generator) for _ in range(3))
    return symbols[(rows[:, None] + columns) % blocks]


def compute_block_logits(
    heads: Heads, swaps: BlockLayout, *, read: int | None = None, products: torch.dtype = torch.float64
) -> Float[Tensor, "*batch content place"]:
    """Return the cross-logit matrix of blocks: the logit of each block's content at each block's place.

    Args:
        heads: their queries and keys.
        swaps: which blocks.
        read: offset of the one key of a block that counts; by default the log-sum-exp over all its keys.
        products: type in which keys are turned, multiplied with queries and summed.

    Returns:
        Of the type of ``products``, soft-capped, ``-inf`` where the query sees no key of the place.
    """
    check_read(read, swaps.block_length)
    swaps = swaps.fit(heads.keys.shape[-2])
    heads.check_values(products)
    groups = heads.group_queries(products)
    hidden = None if groups.visible is None else ~swaps.by_block(groups.visible)[..., None, :, :].mT
    blocks, places = MovedBlocks(groups, swaps), slice(0, swaps.number)
    step = max(1, CHUNK // (groups.query[..., 0].numel() * swaps.block_length * swaps.number))
    parts = []
    for top in range(0, swaps.number, step):
        logits = blocks.logits(slice(top, top + step), places)
        if hidden is not None:
            logits = logits.masked_fill(hidden, -torch.inf)
        parts.append(logits.logsumexp(-2) if read is None else logits[..., read, :])
    return heads.ungroup(torch.cat(parts, dim=-2))


def check_read(read: int | None, block_length: int) -> None:
    """Raise if an offset is not within a block."""
    if read is not None and require_count("read", read, 0) >= block_length:
        raise ValueError(
            f"read is the offset of a key within its block of {block_length}; got {read}. Pass 0 to {block_length - 1}"
        )


def arrange_cube(
    logits: Float[Tensor, "prompt *head content place"], orders: Int[Tensor, "prompt place"]
) -> Float[Tensor, "*head symbol origin place"]:
    """Arrange the cross-logits of a Latin square's prompts by symbol and origin, in place of prompt and content."""
    logits, symbols = logits.movedim(0, -3), orders.to(logits.device)
    by_symbol = symbols.argsort(0)  # the prompt in which each symbol stands at each place
    origins = torch.arange(symbols.shape[1], device=logits.device)
    return logits[..., by_symbol, origins, :]


def split_variance(
    logits: Float[Tensor, "*head symbol origin place"],
    seen: Bool[Tensor, "*#head place"] | None = None,
    *,
    rounding: float = torch.finfo(torch.float64).eps,
) -> dict[str, Float[Tensor, "*head"]]:
    """Split the variance of a cube into its seven parts: main effects and interactions, all entries weighed alike.

    Args:
        logits: one head's cube, or many; ``[..., symbol, origin, place]``.
        seen: places that count; by default all. The logits of others may be anything.
        rounding: relative error of the logits; a variance that errors of this size would make counts as none.

    Returns:
        By the names of :data:`PARTS`, ``[...]``, float64; NaN where nothing varies, or no place counts.

    >>> parts = split_variance(torch.tensor([0.0, 2.0])[:, None, None].expand(2, 2, 2))
    >>> float(parts["symbol"]), float(parts["origin"])
    (1.0, 0.0)
    """
    require_floating("logits", logits)
    if logits.ndim < 3:
        raise ValueError(f"logits must have shape [..., symbol, origin, place]; got {tuple(logits.shape)}")
    cube = logits.double()
    if seen is None:
        seen = torch.ones(cube.shape[-1], dtype=torch.bool, device=cube.device)
    weights = seen.expand(*cube.shape[:-3], cube.shape[-1]).double()
    weights = (weights / weights.sum(-1, keepdim=True))[..., None, None, :]
    cube = cube.masked_fill(weights == 0, 0)
    effects: dict[tuple[int, ...], Tensor] = {(): _mean_but((), cube, weights)}
    rest = cube - effects[()]
    largest = cube.abs().amax((-3, -2, -1))
    for axes in (axes for size in (1, 2) for axes in combinations(range(3), size)):
        below = sum(effects[part] for size in range(len(axes)) for part in combinations(axes, size))
        effects[axes] = _mean_but(axes, cube, weights) - below
        rest = rest - effects[axes]
    effects[0, 1, 2] = rest
    sizes = {name: (effects[axes] ** 2 * weights).sum(-1).mean((-1, -2)) for axes, name in PARTS.items()}
    total = sum(sizes.values(), torch.zeros_like(largest))
    varies = total > (ROUNDING * rounding * largest) ** 2
    return {name: torch.where(varies, size, torch.nan) for name, size in sizes.items()}


def measure_prompt_variance(
    logits: Float[Tensor, "*head symbol origin place"],
    orders: Int[Tensor, "prompt place"],
    seen: Bool[Tensor, "*#head place"],
) -> Float[Tensor, "*head"]:
    """Return the variance over a Latin square's prompts of the mean of each prompt's cross-logit matrix.

    Of one prompt the symbolic part is the variance of the row means of its matrix. Its mean over the prompts is
    ``symbol + origin + symbol_origin`` less this: who sees one prompt sees nothing of what all its entries share.
    """
    weights = seen.to(logits.device).double()
    rows = (logits.double().masked_fill(~seen[..., None, None, :], 0) * weights[..., None, None, :]).sum(-1)
    rows = rows / weights.sum(-1)[..., None, None]
    origins = torch.arange(orders.shape[1], device=logits.device)
    return rows[..., orders.to(logits.device), origins].mean(-1).var(-1, correction=0)


def normalize_parts(parts: Mapping[str, Tensor], among: tuple[str, ...] = tuple(PARTS.values())) -> dict[str, Tensor]:
    """Return some parts of the variance, by default all, as shares of their sum."""
    total = sum((parts[name] for name in among), torch.zeros(()))
    return {name: parts[name] / total for name in among}


def _mean_but(axes: tuple[int, ...], cube: Tensor, weights: Tensor) -> Tensor:
    """Return the mean over all axes but these."""
    if 2 not in axes:
        # Where no place counts, the weights are NaN and so is the mean.
        cube = (cube * weights).sum(-1, keepdim=True)
    over = [axis - 3 for axis in (0, 1) if axis not in axes]
    return cube.mean(over, keepdim=True) if over else cube

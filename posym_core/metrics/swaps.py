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

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core.checks import require_count, require_counts, require_finite, require_floor, require_positive
from posym_core.metrics.cross_logits import block_cross_logits, check_head, check_logits
from posym_core.metrics.rope import Pairing, split_planes

# Largest number of elements of one intermediate array: 16 MB in float64, small enough to stay near the caches.
CHUNK = 2**21
# exp(690) is 1e299: sums of such ratios over blocks still lie within float64.
LARGEST_LOG_RATIO = 690.0


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
    angles: Float[Tensor, " plane"],
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
    """Score heads on the swaps of every pair of key blocks.

    Args:
        query: the last token's query ``[..., dim]``, rotated to its position.
        keys: ``[..., key, dim]``, key ``j`` rotated to position ``j``; the last key is the query's own and is never
            swapped. Leading dimensions broadcast; under grouped query heads give the keys a dimension of 1 there.
        angles: ``[dim / 2]``, radians per position; 0 for unrotated planes.
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
        :class:`SwapScores`, in the inputs' dtype.

    Raises:
        ValueError: if shapes do not fit, blocks do not fit between ``start`` and the last key, there are fewer than
            two blocks, ``tau``, ``eps`` or ``softcap`` is out of range, or an input is NaN, infinite or so large that
            logits could be.

    A head without rotation follows its contents:

    >>> keys = torch.tensor([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    >>> scores = swap_scores(torch.tensor([1.0, 0.0]), keys, torch.zeros(1))
    >>> scores.symbolic, scores.positional < 0.1
    (tensor(1.), tensor(True))
    """
    angles = check_head(query, keys, angles, scale, pairing)
    blocks = check_blocks(keys.shape[-2], start, block_length, blocks)
    require_positive("tau", tau)
    require_floor("eps", eps)
    if softcap is not None:
        require_positive("softcap", softcap)
        require_finite("softcap", torch.as_tensor(softcap, dtype=torch.float64))
    if products not in (torch.float32, torch.float64):
        raise ValueError(f"products must be torch.float32 or torch.float64; got {products}")
    check_logits(query, keys, scale, products)
    batch = torch.broadcast_shapes(query.shape[:-1], keys.shape[:-2])

    # Queries that share their keys form a group, so that the keys are turned once for all of them.
    shared = query.ndim > 1 and keys.ndim > 2 and keys.shape[-3] == 1
    keys = keys.squeeze(-3) if shared else keys
    dtype = keys.dtype
    query = (query if shared else query[..., None, :]).to(products) * scale
    lead, group, dim = batch[:-1] if shared else batch, query.shape[-2], query.shape[-1]
    query = query.expand(*lead, group, dim)
    keys = keys.to(products).expand(*lead, *keys.shape[-2:])
    if per_frequency:
        query, keys = _planes_as_heads(query, pairing), _planes_as_heads(keys, pairing)
        lead, angles, dim, pairing = query.shape[:-2], angles[:, None], 2, "halves"
    angles = angles.expand(*lead, angles.shape[-1]).reshape(-1, angles.shape[-1])

    def per_query(x: Tensor | None, *last: int) -> Tensor | None:
        """``[*batch, *last]`` as ``[head, group, *last]``."""
        if x is None:
            return None
        x = x.broadcast_to((*batch, *last))
        x = x if shared else x.unsqueeze(len(batch))
        if per_frequency:
            x = x.unsqueeze(len(lead) - 1).broadcast_to((*lead, group, *last))
        return x.reshape(-1, group, *last)

    heads = _Heads(
        query=query.reshape(-1, group, dim),
        keys=keys.reshape(-1, keys.shape[-2], dim),
        angles=angles,
        pairing=pairing,
        visible=per_query(_check_visible(visible, batch, keys.shape[-2]), keys.shape[-2]),
        softcap=softcap,
        sinks=per_query(_check_sinks(sinks, batch)),
    )
    layout = _Blocks(start=start, length=block_length, number=blocks)
    size = group * layout.keys * blocks
    step = max(1, CHUNK // size)
    parts = [_score(heads.take(first, first + step), layout, tau, eps) for first in range(0, len(angles), step)]

    def to_batch(x: Tensor) -> Tensor:
        x = x.unflatten(0, lead) if lead else x.squeeze(0)
        if per_frequency:
            x = x.transpose(len(lead) - 1, len(lead))
        return (x if shared else x.squeeze(len(lead) - 1 if per_frequency else len(lead))).to(dtype)

    positional, symbolic, entropy, attention = (to_batch(torch.cat(part)) for part in zip(*parts, strict=True))
    return SwapScores(positional=positional, symbolic=symbolic, entropy=entropy, attention=attention)


def check_blocks(keys: int, start: int, block_length: int, blocks: int | None) -> int:
    """The number of blocks, or an error that says why they do not fit before the last of ``keys`` keys."""
    require_counts(block_length=(block_length, 1), start=(start, 0))
    room = keys - 1 - start
    if blocks is None:
        blocks = max(0, room) // block_length
        if blocks < 2:
            raise ValueError(
                f"at least two blocks are needed to swap, but {max(0, room)} keys from start={start} to the query's "
                f"own hold {blocks} of length {block_length}; pass a smaller start or block_length"
            )
    blocks = require_count("blocks", blocks, 2, "there is nothing to swap otherwise")
    if blocks * block_length > room:
        raise ValueError(
            f"blocks cover {blocks * block_length} keys from start={start}, but only {max(0, room)} precede the "
            f"query's own; pass blocks={max(0, room) // block_length} or fewer, or a smaller start or block_length"
        )
    return blocks


def _check_visible(visible: Tensor | None, batch: tuple[int, ...], keys: int) -> Tensor | None:
    if visible is None:
        return None
    if visible.dtype != torch.bool:
        raise TypeError(f"visible must be a bool tensor; got {visible.dtype}. Compare with > 0")
    try:
        visible = visible.broadcast_to((*batch, keys))
    except RuntimeError:
        raise ValueError(
            f"visible must broadcast to {(*batch, keys)}, one entry per key; got {tuple(visible.shape)}"
        ) from None
    if not visible.any(-1).all():
        raise ValueError("visible must leave every query at least one key to see; one sees none")
    return visible


def _check_sinks(sinks: Tensor | None, batch: tuple[int, ...]) -> Tensor | None:
    if sinks is None:
        return None
    require_finite("sinks", sinks)
    try:
        return sinks.broadcast_to(batch)
    except RuntimeError:
        raise ValueError(f"sinks must broadcast to {tuple(batch)}, one per head; got {tuple(sinks.shape)}") from None


def _planes_as_heads(x: Float[Tensor, "*#batch row dim"], pairing: Pairing) -> Float[Tensor, "*#batch plane row 2"]:
    """Each rotation plane as a head of two dimensions."""
    return torch.stack(split_planes(x, pairing), dim=-1).transpose(-2, -3)


@dataclass(frozen=True, kw_only=True)
class _Blocks:
    start: int
    length: int
    number: int

    @property
    def keys(self) -> int:
        return self.length * self.number

    @property
    def stop(self) -> int:
        return self.start + self.keys

    def unseen(self, visible: Bool[Tensor, "head group key"]) -> int:
        """How many leading blocks no query sees any key of."""
        seen = (
            visible[..., self.start : self.stop].flatten(0, 1).any(0).unflatten(0, (self.number, self.length)).any(-1)
        )
        return int((~seen).long().cumprod(0).sum())


@dataclass(frozen=True, kw_only=True)
class _Heads:
    """Key heads with the group of (scaled) queries that each serves."""

    query: Float[Tensor, "head group dim"]
    keys: Float[Tensor, "head key dim"]
    angles: Float[Tensor, "head plane"]
    pairing: Pairing
    visible: Bool[Tensor, "head group key"] | None
    softcap: float | None
    sinks: Float[Tensor, "head group"] | None

    def take(self, first: int, stop: int) -> _Heads:
        return _Heads(
            query=self.query[first:stop],
            keys=self.keys[first:stop],
            angles=self.angles[first:stop],
            pairing=self.pairing,
            visible=None if self.visible is None else self.visible[first:stop],
            softcap=self.softcap,
            sinks=None if self.sinks is None else self.sinks[first:stop].double(),
        )

    def cap(self, logits: Tensor) -> Tensor:
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)

    def logits(self) -> Float[Tensor, "head group key"]:
        """Logit of every key at its own place; ``-inf`` where it is not visible."""
        logits = self.cap((self.query @ self.keys.transpose(-1, -2)).double())
        return logits if self.visible is None else logits.masked_fill(~self.visible, -torch.inf)

    def swapped(self, layout: _Blocks, log_z: Float[Tensor, "head group"]) -> Float[Tensor, "head group content slot"]:
        """Attention each block's content would draw at each block's place, against all attention before the swap.

        The leading blocks that no query sees (beyond a sliding window) are left out of the slots. Ratios above 1e299
        count as that, below 1e-308 they vanish: logits that far apart are beyond float64.
        """
        keys = self.keys[:, layout.start : layout.stop]
        slots, hidden = torch.arange(layout.number, device=keys.device), None
        if self.visible is not None:
            hidden = ~self.visible[..., layout.start : layout.stop].unflatten(-1, (layout.number, layout.length))
            slots = slots[layout.unseen(self.visible) :]
        sums = []
        step = max(1, CHUNK // (self.query[..., 0].numel() * layout.length * max(1, len(slots))))
        for contents in torch.arange(layout.number, device=keys.device).split(step):
            part = keys[:, contents[0] * layout.length : (contents[-1] + 1) * layout.length]
            logits = self.cap(block_cross_logits(self.query, part, self.angles, contents, slots, self.pairing))
            ratios = (logits.double() - log_z[..., None, None, None]).clamp_(max=LARGEST_LOG_RATIO).exp_()
            if hidden is not None:
                ratios.masked_fill_(hidden[:, :, None, slots].transpose(-1, -2), 0)
            sums.append(ratios.squeeze(-2) if layout.length == 1 else ratios.sum(-2))
        return torch.cat(sums, dim=-2)


def _score(heads: _Heads, layout: _Blocks, tau: float, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Positional and symbolic score, entropy ``[head, group]`` and block means ``[head, group, block]``."""
    logits = heads.logits()
    total = logits if heads.sinks is None else torch.cat([logits, heads.sinks[..., None]], dim=-1)
    log_z = total.logsumexp(-1)
    attention = (total - log_z[..., None]).exp()
    # Attention to each block, and to all that is in no block.
    mass = attention[..., layout.start : layout.stop].unflatten(-1, (layout.number, layout.length)).sum(-1)
    outside = attention[..., : layout.start].sum(-1) + attention[..., layout.stop :].sum(-1)

    widest = mass.amax(-1) - mass.amin(-1)
    weights = positional = symbolic = torch.zeros_like(widest)
    for pairs in _pairs(heads.swapped(layout, log_z), mass, outside):
        weight = ((pairs.gap - widest[..., None, None]) / (layout.length * tau)).exp_() * pairs.counted
        along, across = pairs.cosines(eps * layout.length)
        weights = weights + weight.sum((-2, -1))
        positional = positional + (weight * along).sum((-2, -1))
        symbolic = symbolic + (weight * across).sum((-2, -1))
    unseen = 0 if heads.visible is None else layout.unseen(heads.visible)
    # Pairs of two unseen blocks have no gap and no attention: they weigh, and count 0.
    weights = weights + (-widest / (layout.length * tau)).exp() * (unseen * (unseen - 1) // 2)
    return positional / weights, symbolic / weights, _normalised_entropy(total, log_z), mass / layout.length


@dataclass(frozen=True, kw_only=True)
class _Pairs:
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
        # Both norms are divided out one after the other: their product would underflow before they do.
        tiny = torch.finfo(self.first.dtype).tiny
        before = torch.hypot(self.first, self.second).clamp_min_(max(floor, tiny))
        after = torch.hypot(self.swapped_first, self.swapped_second).maximum(floor * self.swapped_total)
        after.clamp_min_(tiny)
        first, second = self.first / before, self.second / before
        along = (first * self.swapped_first + second * self.swapped_second).div_(after)
        across = (first * self.swapped_second + second * self.swapped_first).div_(after)
        return along, across


def _pairs(
    swapped: Float[Tensor, "head group content slot"],
    mass: Float[Tensor, "head group block"],
    outside: Float[Tensor, "head group"],
) -> Iterator[_Pairs]:
    """All pairs of which at least one block is seen, some rows ``i`` at a time.

    The normaliser after a swap is the attention outside the pair plus what the pair gets; the former is summed from
    the blocks before, between and after the two, because subtracting the pair from the whole cancels when the pair
    holds nearly everything.
    """
    blocks, zero = mass.shape[-1], torch.zeros_like(mass[..., :1])
    unseen = blocks - swapped.shape[-1]
    before = outside[..., None] + torch.cat([zero, mass[..., :-1].cumsum(-1)], dim=-1)
    after = torch.cat([mass[..., 1:].flip(-1).cumsum(-1).flip(-1), zero], dim=-1)
    # Narrow bands of rows keep arrays small and waste little of the half that i < j leaves out.
    step = max(1, min(CHUNK // mass.numel(), blocks if blocks < 64 else blocks // 8))
    for top in range(0, unseen, step):
        rows = slice(top, min(top + step, unseen))
        gained = swapped[..., rows, :]
        yield _Pairs(
            first=mass[..., rows, None],
            second=mass[..., None, unseen:],
            swapped_first=torch.zeros_like(gained),
            swapped_second=gained,
            swapped_total=(before + after)[..., None, unseen:] + gained,
            counted=torch.ones((), dtype=torch.bool, device=mass.device),
        )
    for top in range(unseen, blocks - 1, step):
        rows, columns = slice(top, min(top + step, blocks - 1)), slice(top + 1, blocks)
        i = torch.arange(rows.start, rows.stop, device=mass.device)[:, None]
        j = torch.arange(columns.start, columns.stop, device=mass.device)
        beyond = torch.where(j > i, mass[..., None, columns], 0)
        between = torch.cat([zero[..., None].expand(*beyond.shape[:-1], 1), beyond[..., :-1].cumsum(-1)], dim=-1)
        swapped_first = swapped[..., columns, rows.start - unseen : rows.stop - unseen].transpose(-1, -2)
        swapped_second = swapped[..., rows, columns.start - unseen :]
        rest = between.add_(before[..., rows, None]).add_(after[..., None, columns])
        yield _Pairs(
            first=mass[..., rows, None],
            second=mass[..., None, columns],
            swapped_first=swapped_first,
            swapped_second=swapped_second,
            swapped_total=rest.add_(swapped_first).add_(swapped_second),
            counted=j > i,
        )


def _normalised_entropy(logits: Float[Tensor, "head group key"], log_z: Tensor) -> Float[Tensor, "head group"]:
    """Entropy of the attention in units of that of uniform attention; 0 where there is no choice."""
    seen = torch.isfinite(logits)
    log_p = torch.where(seen, logits, log_z[..., None]) - log_z[..., None]
    entropy = -(log_p.exp() * log_p).sum(-1)
    return entropy / seen.sum(-1).double().log().clamp_min(torch.finfo(entropy.dtype).tiny)

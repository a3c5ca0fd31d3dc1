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

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core.checks import require_finite, require_positive
from posym_core.metrics import few_operations, pairs
from posym_core.metrics.logit_matrix import broadcast_shapes, check_logits, check_numbers, fit_head
from posym_core.metrics.pairs import Heads, Swaps
from posym_core.metrics.rope import Pairing, split_planes


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

    On a CPU heads are scored piece by piece, and pairs that weigh nothing are left out. On any other device, and
    everywhere if the environment variable ``POSYM_SCORING`` is ``device``, they are scored in few operations, and the
    only numbers looked at are flags of bad ones, at the end. Both give the same up to rounding.

    Returns:
        :class:`SwapScores`, in the inputs' dtype. They can be differentiated with respect to query, keys and sinks.

    Raises:
        ValueError: if shapes do not fit, as many queries as keys share these without ``visible`` (which would let each
            see those behind it), blocks do not fit between ``start`` and the last key, there are fewer than two blocks,
            ``tau``, ``eps`` or ``softcap`` is out of range, or an input is NaN, infinite or so large that logits could
            be.

    A head without rotation follows its contents:

    >>> keys = torch.tensor([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    >>> scores = swap_scores(torch.tensor([1.0, 0.0]), keys, torch.zeros(1))
    >>> scores.symbolic, scores.positional < 0.1
    (tensor(1.), tensor(True))
    """
    swaps = Swaps(start=start, block_length=block_length, blocks=blocks, tau=tau, eps=eps)
    angles = fit_head(query, keys, angles, pairing)
    check_last_token(query, keys, visible)
    swaps = swaps.fitted(keys.shape[-2])
    check_softcap(softcap)
    if products not in (torch.float32, torch.float64):
        raise ValueError(f"products must be torch.float32 or torch.float64; got {products}")
    batch = broadcast_shapes(query.shape[:-1], keys.shape[:-2])
    numbers = (query, keys, angles, scale, products, visible, sinks)
    visible, sinks = fit_visible(visible, batch, keys.shape[-2]), fit_sinks(sinks, batch)
    in_few_operations = few_operations.preferred(keys.device)
    if not in_few_operations:
        if not few_operations.sound(*numbers):
            check_values(*numbers)
        # What hides nothing need not be asked again and again.
        visible = None if visible is None or visible.all() else visible

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
        lead, dim, pairing = query.shape[:-2], 2, "halves"
        angles = angles.expand(lead)
    angles = angles.reshape(-1, dim // 2)

    def per_query(x: Tensor | None, *last: int) -> Tensor | None:
        """``[*batch, *last]`` as ``[head, group, *last]``."""
        if x is None:
            return None
        x = x.broadcast_to((*batch, *last))
        x = x if shared else x.unsqueeze(len(batch))
        if per_frequency:
            x = x.unsqueeze(len(lead) - 1).broadcast_to((*lead, group, *last))
        return x.reshape(-1, group, *last)

    heads = Heads(
        query=query.reshape(-1, group, dim),
        keys=keys.reshape(-1, keys.shape[-2], dim),
        angles=angles,
        pairing=pairing,
        visible=per_query(visible, keys.shape[-2]),
        softcap=softcap,
        sinks=per_query(sinks),
    )

    def to_batch(x: Tensor) -> Tensor:
        x = x.unflatten(0, lead) if lead else x.squeeze(0)
        if per_frequency:
            x = x.transpose(len(lead) - 1, len(lead))
        return (x if shared else x.squeeze(len(lead) - 1 if per_frequency else len(lead))).to(dtype)

    found = (few_operations if in_few_operations else pairs).score(heads, swaps)
    if in_few_operations and not few_operations.sound(*numbers):
        check_values(*numbers)
    positional, symbolic, entropy, attention = (to_batch(x) for x in found)
    return SwapScores(positional=positional, symbolic=symbolic, entropy=entropy, attention=attention)


def check_softcap(softcap: float | None) -> None:
    """Refuse a cap that is not a positive finite number."""
    if softcap is not None:
        require_positive("softcap", softcap)
        if softcap == math.inf:
            raise ValueError("softcap must be finite; got inf. Pass None for no cap")


def check_values(
    query: Tensor,
    keys: Tensor,
    angles: Tensor,
    scale: float,
    products: torch.dtype,
    visible: Tensor | None,
    sinks: Tensor | None,
) -> None:
    """Refuse NaN, infinity, numbers whose logits could be, and queries that see no key."""
    check_numbers(query, keys, angles, scale)
    check_logits(query, keys, scale, products)
    if visible is not None and not visible.any(-1).all():
        raise ValueError("visible must leave every query at least one key to see; one sees none")
    if sinks is not None:
        require_finite("sinks", sinks)


def check_last_token(query: Tensor, keys: Tensor, visible: Tensor | None) -> None:
    """Refuse the queries of all tokens, each of which would be given the keys behind it."""
    tokens = keys.shape[-2]
    if visible is None and 1 < query.ndim >= keys.ndim and query.shape[-2] == tokens > 1:
        raise ValueError(
            f"a query is that of the last token, which sees all keys; got query {tuple(query.shape)} and keys "
            f"{tuple(keys.shape)}, {tokens} queries of the same {tokens} keys. Pass one query, query[..., -1, :], or "
            "visible, [..., key], for tokens in between; heads that share their keys have a dimension of 1 in them, "
            "keys[..., None, :, :]"
        )


def fit_visible(visible: Tensor | None, batch: tuple[int, ...], keys: int) -> Tensor | None:
    """``visible`` as ``[*batch, key]``, or an error that says what does not fit."""
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
    return visible


def fit_sinks(sinks: Tensor | None, batch: tuple[int, ...]) -> Tensor | None:
    """``sinks`` as float64 ``[*batch]``, or an error that says what does not fit."""
    if sinks is None:
        return None
    try:
        return sinks.double().broadcast_to(batch)
    except RuntimeError:
        raise ValueError(f"sinks must broadcast to {tuple(batch)}, one per head; got {tuple(sinks.shape)}") from None


def _planes_as_heads(x: Float[Tensor, "*#batch row dim"], pairing: Pairing) -> Float[Tensor, "*#batch plane row 2"]:
    """Each rotation plane as a head of two dimensions."""
    return torch.stack(split_planes(x, pairing), dim=-1).transpose(-2, -3)

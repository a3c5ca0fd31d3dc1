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

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core.checks import flags_together, waits
from posym_core.metrics import few_operations, pairs
from posym_core.metrics.blocks import Swaps
from posym_core.metrics.heads import Heads
from posym_core.metrics.rope import Pairing


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
    heads = Heads.of(query, keys, angles, scale=scale, visible=visible, softcap=softcap, sinks=sinks, pairing=pairing)
    swaps = Swaps(start=start, block_length=block_length, blocks=blocks, tau=tau, eps=eps).fitted(keys.shape[-2])
    return score_swaps(heads, swaps, per_frequency=per_frequency, products=products)


def score_swaps(
    heads: Heads, swaps: Swaps, *, per_frequency: bool = False, products: torch.dtype = torch.float64
) -> SwapScores:
    """:func:`swap_scores` of heads, on swaps that were fitted to their keys."""
    if products not in (torch.float32, torch.float64):
        raise ValueError(f"products must be torch.float32 or torch.float64; got {products}")
    device, dtype = heads.keys.device, heads.keys.dtype
    with flags_together(device):
        heads.check_values(products)
        if heads.visible is not None and not waits(device) and heads.visible.all():
            # What hides nothing need not be asked again and again.
            heads = replace(heads, visible=None)
        groups, back = heads.in_groups(products, per_frequency=per_frequency)
        found = (few_operations if waits(device) else pairs).score(groups, swaps)
    positional, symbolic, entropy, attention = (back(x).to(dtype) for x in found)
    return SwapScores(positional=positional, symbolic=symbolic, entropy=entropy, attention=attention)

"""Where in the positional-symbolic plane a head can lie at all.

For one pair of blocks write the attention before the swap as ``(cos p, sin p)`` up to its size, and after it as
``(cos q, sin q)``, with both angles in the first quadrant because attention is positive. With ``x = p - pi/4`` and
``y = q - pi/4`` the two cosines are ``cos(y - x)`` and ``cos(y + x)``, so that

    s_POS + s_SYM = 2 cos(x) cos(y) >= 1:

no head can score low on both, and averaging over pairs keeps that. (Only the floor ``eps`` can lead below.) A negative
correlation over heads is therefore partly geometry. This project's own.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def score_pair(
    before: Float[Tensor, "*#pair"], after: Float[Tensor, "*#pair"]
) -> tuple[Float[Tensor, "*#pair"], Float[Tensor, "*#pair"]]:
    """Score one pair of blocks, positional and symbolic, from two angles, each in [0, pi/2].

    Args:
        before: angle of the pair's attention before the swap, ``atan2(d_j, d_i)``.
        after: the same after the swap.
    """
    return (after - before).cos(), (after + before - math.pi / 2).cos()


def score_exchange(
    C: Float[Tensor, "*batch content position"], first: Int64[Tensor, "*batch"], second: Int64[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Score the exchange of two single keys, positional and symbolic, from cross-logits and without a floor.

    Args:
        C: see :func:`posym_core.cross_logits`.
        first: place of one key.
        second: place of the other; where both are one place nothing is exchanged, and both scores are 1.
    """
    for name, x in (("first", first), ("second", second)):
        if x.shape != C.shape[:-2]:
            raise ValueError(
                f"{name} must be one place for each {tuple(C.shape[:-2])} of C's heads; got shape {tuple(x.shape)}. "
                f"Repeat by {name}.expand a place that all share"
            )

    def ratio(this: Tensor, other: Tensor, at: Tensor, at_other: Tensor) -> Tensor:
        index = [x[..., None, None].expand(*x.shape, 1, C.shape[-1]) for x in (this, other)]
        row, other_row = (C.gather(-2, i)[..., 0, :] for i in index)
        return other_row.gather(-1, at_other[..., None])[..., 0] - row.gather(-1, at[..., None])[..., 0]

    before, after = ratio(first, second, first, second), ratio(second, first, first, second)
    one = torch.ones((), dtype=torch.float64, device=C.device)
    return score_pair(torch.atan2(before.double().exp(), one), torch.atan2(after.double().exp(), one))


def classify_purity(
    positional: Float[Tensor, "*batch"], symbolic: Float[Tensor, "*batch"], gamma: float = 0.1
) -> Int64[Tensor, "*batch"]:
    """Return 1 for pure positional heads, -1 for pure symbolic ones, 0 for all else, NaN included.

    Pure means one score above ``1 - gamma`` and the other below ``gamma`` (Urrutia et al. 2026b).

    >>> classify_purity(torch.tensor([0.99, 0.02, 0.99]), torch.tensor([0.01, 0.95, 0.99])).tolist()
    [1, -1, 0]
    """
    if not 0 < gamma <= 0.5:
        raise ValueError(f"gamma must lie in (0, 0.5], so that a head is pure in one way at most; got {gamma}")
    pure_positional = (positional > 1 - gamma) & (symbolic < gamma)
    pure_symbolic = (symbolic > 1 - gamma) & (positional < gamma)
    return pure_positional.long() - pure_symbolic.long()

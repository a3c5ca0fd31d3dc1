"""Positional and symbolic scores of a head of any encoding, read off its ``C``.

:func:`posym_core.swap_scores` makes the part of ``C`` that it needs from rotary queries and keys. Where ``C`` comes
from another encoding, or is written down by hand, it is scored here, in the same way.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.checks import require_finite, require_floating
from posym_core.permutation_scores import BlockTable, PermutationScores, permutation_scores, swap_orders
from posym_core.scores import LARGEST_LOG_RATIO


def cross_scores(
    C: Float[Tensor, "*batch content position"],
    *,
    outside: Float[Tensor, "*batch other"] | None = None,
    tau: float = 1e-4,
    eps: float = 1e-8,
) -> PermutationScores:
    """Scores of heads on all swaps of two single keys.

    Args:
        C: cross-logits of the keys that may be swapped, at least two.
        outside: logits of keys that take attention but are never swapped, such as the query's own.
        tau: temperature of the weights over pairs.
        eps: floor of the norms in the cosine.

    Returns:
        :class:`posym_core.permutation_scores.PermutationScores`, float64.

    Raises:
        ValueError: if ``C`` is not square or holds NaN or infinity, or a number is out of range.

    >>> scores = cross_scores(torch.tensor([[5.0, 5.0], [0.0, 0.0]]))
    >>> round(float(scores.symbolic), 4), round(float(scores.positional), 4)
    (1.0, 0.0135)
    """
    table = cross_table(C, outside=outside)
    orders = swap_orders(C.shape[-1])
    return permutation_scores(table.attention(), table.attention(orders), orders, tau=tau, eps=eps)


def cross_table(
    C: Float[Tensor, "*batch content position"], *, outside: Float[Tensor, "*batch other"] | None = None
) -> BlockTable:
    """What permutations of single keys can do to the attention of heads with these cross-logits."""
    require_floating("C", C)
    if C.ndim < 2 or C.shape[-1] != C.shape[-2] or C.shape[-1] < 2:
        raise ValueError(
            f"C must have shape [..., content, position] with as many contents as positions, at least two; got "
            f"{tuple(C.shape)}"
        )
    require_finite("C", C)
    wide = C.double()
    own = wide.diagonal(dim1=-2, dim2=-1)
    others = own[..., :0] if outside is None else outside.double()
    require_finite("outside", others)
    log_z = torch.cat([own, others], dim=-1).logsumexp(-1)
    return BlockTable(
        sums=(wide - log_z[..., None, None]).clamp(max=LARGEST_LOG_RATIO).exp(),
        outside=(others - log_z[..., None]).exp().sum(-1),
        block_length=1,
    )

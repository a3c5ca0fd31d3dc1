"""The cross-logit matrix ``C[content, position]`` of a query.

``C[a, b]`` is the logit that the key with content ``a`` would get if it stood at position ``b``; the ordinary
logits are its diagonal. Urrutia et al. (2026a, section 3) define positional and symbolic heads by permuting keys,
and every such permutation reads its logits off ``C``.

For a rotary head no key has to be moved to know them: taking content ``a`` from ``a`` to ``b`` turns it by
``angles * (b - a)``, and because rotations are orthogonal the same logit arises when the key is turned back by
``a`` and the query by ``b``. Both turns are made once per vector, and the whole of ``C`` is one matrix product.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.metrics._heads import check_heads
from posym_core.metrics._rope import Pairing, rotate_unchecked, split_planes


def cross_logits(
    query: Float[Tensor, "*#batch dim"],
    keys: Float[Tensor, "*#batch key dim"],
    angles: Float[Tensor, " plane"],
    *,
    scale: float = 1.0,
    pairing: Pairing = "halves",
    per_frequency: bool = False,
) -> Float[Tensor, "*#batch content position"] | Float[Tensor, "*#batch plane content position"]:
    """Return the logit of every content at every position, ``C[a, b] = L(x_i, i, x_a, b)``.

    Args:
        query: one query per head ``[..., dim]``, already rotated to its own position.
        keys: ``[..., key, dim]``, key ``j`` already rotated to position ``j``. Leading dimensions broadcast
            against the query's (grouped query heads: give the keys a dimension of 1).
        angles: ``[dim / 2]``, radians per position; 0 for unrotated planes.
        scale: what the head multiplies its dot products with, for example ``dim ** -0.5``.
        pairing: ``"halves"`` or ``"neighbours"``, see :func:`posym_core.rotate`.
        per_frequency: give the part of each rotation plane; the planes sum to the whole.

    Returns:
        ``[..., content, position]``, or ``[..., plane, content, position]``; the inputs' dtype.

    A head without rotation is symbolic: every row is constant.

    >>> query, keys = torch.tensor([1.0, 0.0]), torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    >>> cross_logits(query, keys, torch.zeros(1))
    tensor([[1., 1.],
            [3., 3.]])
    """
    angles = check_heads(query, keys, angles, scale, pairing)
    positions = torch.arange(keys.shape[-2], dtype=torch.float64, device=keys.device)
    home = rotate_unchecked(keys, -positions, angles, pairing)
    seen = rotate_unchecked(query[..., None, :] * scale, -positions, angles, pairing)
    if not per_frequency:
        return home @ seen.transpose(-1, -2)
    home_first, home_second = (part.transpose(-1, -2) for part in split_planes(home, pairing))
    seen_first, seen_second = (part.transpose(-1, -2) for part in split_planes(seen, pairing))
    return home_first[..., :, None] * seen_first[..., None, :] + home_second[..., :, None] * seen_second[..., None, :]

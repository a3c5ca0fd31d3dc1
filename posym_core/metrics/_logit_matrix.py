"""The cross-logit matrix ``C[content, position]`` of a query.

``C[a, b]`` is the logit that the key with content ``a`` would get if it stood at position ``b``; the ordinary
logits are its diagonal. Urrutia et al. (2026a, section 3) define positional and symbolic heads by permuting keys,
and every such permutation reads its logits off ``C``.

For a rotary head no key has to be moved to know them: taking content ``a`` from ``a`` to ``b`` turns it by
``angles * (b - a)``, and because rotations are orthogonal the same logit arises when the key is turned back by
``a`` and the query by ``b``. Both turns are made once per vector, and the whole of ``C`` is one matrix product.
"""

from __future__ import annotations

import functools
import math

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core._checks import (
    deferring_checks,
    require,
    require_finite_magnitude,
    require_floating,
    require_phases,
    require_room,
)
from posym_core.metrics._rope import Pairing, fit_angles, rotate_unchecked, split_planes

# Asked for the same shapes layer by layer; torch takes as long for it as for several operations.
broadcast_shapes = functools.lru_cache(torch.broadcast_shapes)


@deferring_checks
def cross_logits(
    query: Float[Tensor, "*#batch dim"],
    keys: Float[Tensor, "*#batch key dim"],
    angles: Float[Tensor, " plane"],
    *,
    scale: float = 1.0,
    pairing: Pairing = "halves",
    per_frequency: bool = False,
) -> Float[Tensor, "*#batch content position"] | Float[Tensor, "*#batch plane content position"]:
    """Logit of every content at every position, ``C[a, b] = L(x_i, i, x_a, b)``.

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

    Raises:
        ValueError: if shapes do not fit, or an input is NaN, infinite or so large that logits could be.

    A head without rotation is symbolic: every row is constant.

    >>> query, keys = torch.tensor([1.0, 0.0]), torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    >>> cross_logits(query, keys, torch.zeros(1))
    tensor([[1., 1.],
            [3., 3.]])
    """
    angles = check_head(query, keys, angles, scale, pairing)
    positions = torch.arange(keys.shape[-2], dtype=torch.float64, device=keys.device)
    home = rotate_unchecked(keys, -positions, angles, pairing)
    seen = rotate_unchecked(query[..., None, :] * scale, -positions, angles, pairing)
    if not per_frequency:
        return home @ seen.transpose(-1, -2)
    home_first, home_second = (part.transpose(-1, -2) for part in split_planes(home, pairing))
    seen_first, seen_second = (part.transpose(-1, -2) for part in split_planes(seen, pairing))
    return home_first[..., :, None] * seen_first[..., None, :] + home_second[..., :, None] * seen_second[..., None, :]


def plane_contributions(
    query: Float[Tensor, "*#batch dim"],
    keys: Float[Tensor, "*#batch key dim"],
    pairing: Pairing,
) -> tuple[Float[Tensor, "*#batch plane key"], Float[Tensor, "*#batch plane key"]]:
    """Real and imaginary part of ``z[a, f] = conj(q_f) k_{a, f}``: a plane's logit and what rotation mixes in.

    Moving content ``a`` by ``D`` positions turns its plane ``f``: the plane's logit becomes
    ``Re(z[a, f] exp(i angle_f D))``.
    """
    query_first, query_second = (part[..., None] for part in split_planes(query, pairing))
    key_first, key_second = (part.transpose(-1, -2) for part in split_planes(keys, pairing))
    return (
        query_first * key_first + query_second * key_second,
        query_first * key_second - query_second * key_first,
    )


def check_head(
    query: Tensor, keys: Tensor, angles: Tensor, scale: float, pairing: str, power: int = 1
) -> Float[Tensor, " plane"]:
    """The angles in float64 on the keys' device, or an error that says what does not fit, or which numbers do not."""
    angles = fit_head(query, keys, angles, pairing)
    check_numbers(query, keys, angles, scale, keys.dtype, power)
    return angles


def fit_head(query: Tensor, keys: Tensor, angles: Tensor, pairing: str) -> Float[Tensor, " plane"]:
    """The angles in float64 on the keys' device, or an error that says what does not fit; no number is looked at."""
    require_floating("query", query)
    require_floating("keys", keys)
    if query.ndim < 1 or keys.ndim < 2:
        raise ValueError(
            f"query must have shape [..., dim] and keys [..., key, dim]; got {tuple(query.shape)} and "
            f"{tuple(keys.shape)}"
        )
    if query.dtype != keys.dtype or query.device != keys.device:
        raise ValueError(
            f"query and keys must share dtype and device; got {query.dtype} on {query.device} and {keys.dtype} on "
            f"{keys.device}. Move one with .to(other)"
        )
    if query.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"query and keys must have the same last dimension; got {query.shape[-1]} and {keys.shape[-1]}"
        )
    if keys.shape[-2] == 0:
        raise ValueError("keys must hold at least one key; got 0")
    try:
        broadcast_shapes(query.shape[:-1], keys.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"leading dimensions must broadcast; query has {tuple(query.shape[:-1])}, keys have "
            f"{tuple(keys.shape[:-2])}. Add dimensions of 1 where they should be shared"
        ) from None
    return fit_angles(angles, keys.shape[-1], pairing).to(keys.device)


def check_numbers(
    query: Tensor, keys: Tensor, angles: Tensor, scale: float, dtype: torch.dtype, power: int = 1
) -> None:
    """Refuse NaN and infinity, and heads whose phases, or logits to a power in ``dtype``, could be infinite."""
    size, other = require_finite_magnitude("query", query), require_finite_magnitude("keys", keys)
    require(math.isfinite(scale), lambda: ValueError("scale must be finite; 1 of its 1 entries are NaN or infinite"))
    require_phases(float(keys.shape[-2]), require_finite_magnitude("angles", angles))
    require_room("the scaled query", size * max(1.0, abs(scale)), dtype)
    require_room("scale", abs(scale), dtype)  # 0 times what a dtype takes for infinity is NaN
    require_room("keys", other, dtype)
    logit = size * abs(scale) * other * query.shape[-1]
    # Of float32 numbers even squares of logits fit into a Python float; of others they may be infinite.
    require_room("logits" if power == 1 else "squares of logits", logit if power == 1 else logit * logit, dtype)

"""Rotary position encoding (RoPE): angles, rotation planes and rotations.

Su et al., *RoFormer* (2021); angles as in Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior
in Transformers*, section 2: ``theta_k = base ** (-2 (k - 1) / dim)``, ``k = 1 .. dim / 2``. The paper's *frequency
ID* is ``k``: a low ID is a fast plane.
"""

from __future__ import annotations

import functools
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core._checks import Checks, measure_magnitude, require_finite, require_floating

Pairing = Literal["halves", "neighbours"]
PAIRINGS = ("halves", "neighbours")


def rope_angles(dim: int, base: float = 10000.0) -> Float[Tensor, " plane"]:
    """Return the angles by which rotation planes turn per position, fastest first.

    Args:
        dim: number of rotated dimensions of a head; even.
        base: ratio that sets the slowest plane; 10,000 in RoFormer, 1e6 in Gemma 3's global layers.

    Returns:
        float64 ``[dim / 2]``, radians per position, from 1 down to ``base ** (-1 + 2 / dim)``.

    >>> rope_angles(4)
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    if not 2 <= dim < float("inf") or dim % 2:
        raise ValueError(f"dim must be a positive even number, one plane per two dimensions; got {dim}")
    if not 0 < base < float("inf"):
        raise ValueError(f"base must be a positive finite number; got {base}")
    exponent = -torch.arange(0, int(dim), 2, dtype=torch.float64) / int(dim)
    angles = torch.as_tensor(base, dtype=torch.float64) ** exponent
    if base < torch.finfo(torch.float64).tiny:  # no other base has a plane too fast for float64
        require_finite(f"angles of base {base}", angles)
    return angles


def rotate(
    x: Float[Tensor, "*batch dim"],
    positions: Tensor | float,
    angles: Float[Tensor, " plane"],
    *,
    pairing: Pairing = "halves",
) -> Float[Tensor, "*batch dim"]:
    """Turn every plane of ``x`` by ``positions * angles``: what RoPE does to a query or key.

    The inverse is ``rotate(x, -positions, angles)``, and rotations compose: turning by ``a`` and then by ``b`` is
    turning by ``a + b``. Phases are formed in float64 and cast last, so that long positions keep their precision.

    Args:
        x: queries or keys ``[..., dim]``.
        positions: a number or a tensor that broadcasts to ``x``'s shape without its last dimension.
        angles: ``[dim / 2]``, radians per position; an angle of 0 leaves its plane alone (partial rotary).
        pairing: which dimensions form plane ``i``: ``"halves"`` (``i`` with ``i + dim / 2``, as in Llama and
            Gemma) or ``"neighbours"`` (``2 i`` with ``2 i + 1``, as in RoFormer and GPT-J).

    Returns:
        ``x`` turned, same shape and dtype.

    >>> rotate(torch.tensor([1.0, 0.0]), 1, torch.tensor([0.5]))
    tensor([0.8776, 0.4794])
    """
    require_floating("x", x)
    angles = fit_angles(angles, x.shape[-1] if x.ndim else 0, pairing)
    positions = torch.as_tensor(positions, dtype=torch.float64, device=x.device)
    with Checks() as check:
        check.finite("angles", angles)
        furthest = check.finite_magnitude("positions", positions)
        check.room("the turned x", check.finite_magnitude("x", x), x.dtype)
        check.room("positions times angles", furthest * measure_magnitude(angles), torch.float64)
    return rotate_unchecked(x, positions.expand(x.shape[:-1]), angles.to(x.device), pairing)


def rotate_unchecked(x: Tensor, positions: Tensor, angles: Tensor, pairing: Pairing) -> Tensor:
    """Turn as :func:`rotate`, for callers that have made its checks."""
    phase = positions[..., None] * angles
    return rotate_by(x, phase.cos().to(x.dtype), phase.sin().to(x.dtype), pairing)


def rotate_by(
    x: Float[Tensor, "*#batch dim"], cos: Float[Tensor, "*#batch plane"], sin: Tensor, pairing: Pairing
) -> Float[Tensor, "*batch dim"]:
    """Turn every plane of ``x`` by the phase of this cosine and sine."""
    first, second = split_planes(x, pairing)
    turned = x * join_planes(cos, cos, pairing)
    turned_first, turned_second = split_planes(turned, pairing)
    turned_first.addcmul_(second, sin, value=-1)
    turned_second.addcmul_(first, sin)
    return turned


def split_planes(x: Float[Tensor, "*batch dim"], pairing: Pairing) -> tuple[Tensor, Tensor]:
    """Return first and second coordinate of every plane, each ``[..., plane]``."""
    if pairing == "halves":
        return x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x[..., 0::2], x[..., 1::2]


def join_planes(first: Tensor, second: Tensor, pairing: Pairing) -> Float[Tensor, "*batch dim"]:
    """Undo :func:`split_planes`."""
    if pairing == "halves":
        return torch.cat([first, second], dim=-1)
    return torch.stack([first, second], dim=-1).flatten(-2)


def multiply_planes(
    query: Float[Tensor, "*#batch dim"], keys: Float[Tensor, "*#batch key dim"], pairing: Pairing
) -> tuple[Float[Tensor, "*#batch plane key"], Float[Tensor, "*#batch plane key"]]:
    """Return real and imaginary part of ``z[a, f] = conj(q_f) k_{a, f}``: a plane's logit, and what turning mixes in.

    Moving content ``a`` by ``D`` positions turns its plane ``f``: the plane's logit becomes
    ``Re(z[a, f] exp(i angle_f D))``.
    """
    query_first, query_second = (part[..., None] for part in split_planes(query, pairing))
    key_first, key_second = (part.transpose(-1, -2) for part in split_planes(keys, pairing))
    return (
        query_first * key_first + query_second * key_second,
        query_first * key_second - query_second * key_first,
    )


def fit_angles(angles: Tensor, dim: int, pairing: str, heads: tuple[int, ...] = ()) -> Float[Tensor, "*head plane"]:
    """Return ``angles`` in float64, or refuse what does not fit heads of ``dim`` dimensions.

    Leading dimensions must broadcast to those of ``heads``; by default there must be none.
    """
    if pairing not in PAIRINGS:
        raise ValueError(f"pairing must be one of {', '.join(map(repr, PAIRINGS))}; got {pairing!r}")
    angles = torch.as_tensor(angles).to(torch.float64)
    if dim < 2 or dim % 2:
        raise ValueError(f"the last dimension must be even, two dimensions per rotation plane; got {dim}")
    if angles.shape[-1:] != (dim // 2,) or not does_broadcast(angles.shape[:-1], heads):
        raise ValueError(
            f"angles must have shape [{dim // 2}], one per plane of {dim} dimensions; got {tuple(angles.shape)}. "
            "For partial rotary give the unrotated planes the angle 0"
        )
    return angles


@functools.lru_cache
def does_broadcast(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Return whether a shape broadcasts to another; asked for the same shapes layer by layer."""
    try:
        return torch.broadcast_shapes(shape, to) == to
    except RuntimeError:
        return False

"""Contribution of each rotation plane of a head: variance shares in closed form, energy, and frequency use.

One plane's cross-logit matrix is ``C[a, b] = Re(u_a exp(i angle b))`` with ``u_a = z_a exp(-i angle a)``. Write
``u_a = mean(u) + v_a`` and ``exp(i angle b) = D + w_b``, where ``D`` is the mean of the phases over the positions (the
Dirichlet kernel). The four products are the four parts of a two-way analysis of variance:

    mean(u) D   the grand mean            mean(u) w_b   the position's part
    v_a D       the symbol's part         v_a w_b       the interaction

so ``|D|`` decides what a plane can be: it falls from 1 (slow planes, ``angle * m`` small: no position) to near 0 once
the phases have gone around (fast planes: no symbol).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core._checks import require_count
from posym_core.metrics._heads import check_heads
from posym_core.metrics._rope import Pairing, multiply_planes


@dataclass(frozen=True, kw_only=True)
class FrequencyShares:
    """Variance shares and energy of each plane's own cross-logit matrix; every field is ``[..., plane]``.

    Attributes:
        positional_share: part of the plane's variance that depends on the position alone.
        symbolic_share: part that depends on the content alone.
        interaction_share: the rest; the three add up to 1. NaN for dead planes, whose matrix is constant.
        energy: variance of the plane's matrix over contents and positions; 0 for dead planes. A constant added to
            all logits changes no attention, so the mean does not count.
    """

    positional_share: Tensor
    symbolic_share: Tensor
    interaction_share: Tensor
    energy: Tensor


def frequency_shares(
    query: Float[Tensor, "*#batch dim"],
    keys: Float[Tensor, "*#batch key dim"],
    angles: Float[Tensor, " plane"],
    *,
    scale: float = 1.0,
    pairing: Pairing = "halves",
) -> FrequencyShares:
    """Return :func:`posym_core.exclusion`'s shares of every plane's own cross-logit matrix, at ``O(keys)`` a plane.

    Args:
        query: ``[..., dim]``, rotated to its position.
        keys: ``[..., key, dim]``, key ``j`` rotated to position ``j``: those that take part in permutations, so without
            the query's own. Leading dimensions broadcast.
        angles: ``[dim / 2]``, radians per position.
        scale: what the head multiplies its dot products with.
        pairing: ``"halves"`` or ``"neighbours"``.

    Returns:
        :class:`FrequencyShares`, ``[..., plane]``, in the inputs' dtype; sums are formed in float64.

    >>> keys = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    >>> frequency_shares(torch.tensor([1.0, 0.0]), keys, torch.zeros(1)).symbolic_share
    tensor([1.])
    """
    angles = check_heads(query, keys, angles, scale, pairing, power=2)
    dtype, slots = keys.dtype, keys.shape[-2]
    real, imaginary = multiply_planes(query.double() * scale, keys.double(), pairing)
    largest = torch.hypot(real, imaginary).amax(-1)
    # Shares do not depend on units; a power of 2 costs no rounding, and squares of small numbers do not vanish.
    unit = torch.where(largest > 0, largest / torch.frexp(largest).mantissa, 1)
    real, imaginary = real / unit[..., None], imaginary / unit[..., None]
    phase = angles[:, None] * torch.arange(slots, dtype=torch.float64, device=keys.device)
    cos, sin = phase.cos(), phase.sin()
    content_real, content_imaginary = real * cos + imaginary * sin, imaginary * cos - real * sin

    mean_real, mean_imaginary = content_real.mean(-1, keepdim=True), content_imaginary.mean(-1, keepdim=True)
    kernel_real, kernel_imaginary = cos.mean(-1, keepdim=True), sin.mean(-1, keepdim=True)
    v_real, v_imaginary = content_real - mean_real, content_imaginary - mean_imaginary
    w_real, w_imaginary = cos - kernel_real, sin - kernel_imaginary

    position = (mean_real * w_real - mean_imaginary * w_imaginary).square().mean(-1)
    symbol = (v_real * kernel_real - v_imaginary * kernel_imaginary).square().mean(-1)
    interaction = (
        v_real.square().mean(-1) * w_real.square().mean(-1)
        + v_imaginary.square().mean(-1) * w_imaginary.square().mean(-1)
        - 2 * (v_real * v_imaginary).mean(-1) * (w_real * w_imaginary).mean(-1)
    ).clamp_min(0)

    energy = position + symbol + interaction
    # A plane whose contribution varies by less than the inputs' own rounding is dead.
    dead = energy.sqrt() <= 4 * torch.finfo(dtype).eps * largest / unit
    total = torch.where(dead, torch.nan, energy)
    return FrequencyShares(
        positional_share=(position / total).to(dtype),
        symbolic_share=(symbol / total).to(dtype),
        interaction_share=(interaction / total).to(dtype),
        energy=torch.where(dead, 0, energy * unit * unit).to(dtype),
    )


def frequency_use(
    query: Float[Tensor, "*#batch dim"],
    keys: Float[Tensor, "*#batch key dim"],
    angles: Float[Tensor, " plane"],
    *,
    scale: float = 1.0,
    pairing: Pairing = "halves",
) -> Float[Tensor, "*#batch plane"]:
    """Return the largest logit that each plane contributes on an input (Urrutia et al. 2026b, figure 8).

    Takes what :func:`frequency_shares` takes; returns ``[..., plane]`` in the inputs' dtype.

    >>> frequency_use(torch.tensor([1.0, 0.0]), torch.tensor([[1.0, 0.0], [3.0, 0.0]]), torch.zeros(1))
    tensor([3.])
    """
    check_heads(query, keys, angles, scale, pairing)
    real, _ = multiply_planes(query.double() * scale, keys.double(), pairing)
    return real.amax(-1).to(keys.dtype)


def dirichlet_kernel(angles: Float[Tensor, "*angle"], positions: int) -> Float[Tensor, "*angle"]:
    """Return ``|mean_b exp(i angle b)|`` over so many positions: how much of a plane can be symbol.

    It is 1 at angle 0, first 0 at ``angle * positions = 2 pi``, and at most about ``1 / positions`` of the way around
    afterwards (multiples of ``2 pi`` apart).
    """
    require_count("positions", positions, 1)
    phase = angles.double()[..., None] * torch.arange(positions, dtype=torch.float64, device=angles.device)
    return torch.hypot(phase.cos().mean(-1), phase.sin().mean(-1))


def mean_frequency(use: Float[Tensor, "*batch plane"]) -> Float[Tensor, "*batch"]:
    """Average frequency IDs, 1 for the fastest plane, with their use as weights; negative use counts as none.

    >>> mean_frequency(torch.tensor([3.0, 1.0, -2.0]))
    tensor(1.2500)
    """
    weight = use.clamp_min(0)
    number = torch.arange(1, use.shape[-1] + 1, dtype=use.dtype, device=use.device)
    return (weight * number).sum(-1) / weight.sum(-1)

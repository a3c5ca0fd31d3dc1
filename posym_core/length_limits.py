"""What length costs: the temperature that Index needs at any angle, with one plane or many, and what confuses it.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), Theorem 3.2 and section 5, explain by logits that
draw together why Number does not generalise to long sequences. The limits here and their proofs are ours; lengths
count tokens, the query included, angles are radians per position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_core.head_limits import smallest
from posym_core.hop_limits import TIE


def planes_smallest_beta(length: int, angles: Sequence[float] | Float[Tensor, " plane"]) -> float:
    """Infimum of the inverse temperatures at which an ``IndexHead`` with several planes works.

    ``beta`` is shared evenly: a key at distance ``d`` from the target has the logit ``beta`` times the mean over planes
    of ``cos(d angle)``, so that numbers of planes compare at equal lengths of queries and keys. With ``loss(d)`` 1
    minus that mean, ``sum over k != j of exp(-beta loss(k - j)) < 1`` for every target ``j``, as in
    :func:`posym_core.hop_limits.index_smallest_beta`; infinite where all planes return at once.
    """
    _check_length(length)
    angles = torch.as_tensor(angles, dtype=torch.float64)
    if angles.ndim != 1 or len(angles) == 0:
        raise ValueError(f"angles must be one row with a plane or more; got shape {tuple(angles.shape)}")
    if length < 2:
        return 0.0
    distance = torch.arange(1, length, dtype=torch.float64)
    loss = 2 * ((distance[:, None] * angles / 2).sin() ** 2).mean(1)
    least = float(loss.min())
    if least <= TIE:
        return math.inf
    if length == 2:
        return 0.0

    def works(beta: float) -> bool:
        # Rivals on one side of a target, by how many there are.
        side = torch.cat([torch.zeros(1, dtype=torch.float64), (-beta * loss).exp().cumsum(0)])
        return bool((side + side.flip(0)).max() < 1)

    return smallest(works, math.log(length) / least)


def index_price(length: int, planes: int = 1) -> float:
    """Temperature below which Index fails on some input whatever the angles of its ``planes`` are.

    A working head has ``1 + S(j) < 2`` for every target, where ``S(j)`` sums over its rivals, so the mean over targets
    is below 2. That mean is ``1 / length`` times the sum over all pairs of positions of ``exp(b (cos(x) - 1))``, ``b =
    beta / planes``, multiplied over planes, ``x`` the angle between two keys. The function's Fourier coefficients
    ``exp(-b) I_m(b)`` are positive, so the sum over pairs is at least ``length^2`` times the coefficient of order 0,
    wherever the keys lie: rotation is not used. Hence ``length (exp(-b) I_0(b))^planes < 2``, whose left side falls in
    ``b``. For one plane and long sequences that is ``beta > length^2 / (8 pi)``, and the angle ``2 pi / length``
    comes as near to it as one likes. With planes in number it nears ``log(length / 2)``.

    >>> round(index_price(1000) / (1000**2 / (8 * math.pi)), 4)
    1.0
    """
    _check_length(length)
    if planes < 1 or planes != int(planes):
        raise ValueError(f"planes must be 1 or more; got {planes}")
    if length <= 2:
        return 0.0

    def is_open(beta: float) -> bool:
        share = torch.special.i0e(torch.tensor(beta / planes, dtype=torch.float64))
        return length * float(share) ** planes < 2

    enough = 1.0
    while not is_open(enough):
        enough *= 2
    return smallest(is_open, enough)


@dataclass(frozen=True, kw_only=True)
class Returns:
    """Distances at which a plane comes closer to where it started than at all shorter ones.

    Attributes:
        distance: in positions.
        gap: what remains to the nearest whole number of turns, radians; below 0 where it falls short of them.
    """

    distance: Int64[Tensor, " record"]
    gap: Float[Tensor, " record"]


def closest_returns(length: int, angle: float) -> Returns:
    """Records of return within ``length`` tokens; the last one is the pair that Index confuses most.

    For angles up to half a turn these are the denominators of the continued fraction of ``angle / (2 pi)``, since
    its convergents are the best approximations (Lagrange).

    >>> closest_returns(40, 1.0).distance.tolist()
    [1, 6, 19, 25]
    """
    _check_length(length)
    phase = torch.arange(1, length, dtype=torch.float64) * angle
    gap = phase - 2 * math.pi * (phase / (2 * math.pi)).round()
    if not len(gap):
        return Returns(distance=torch.zeros(0, dtype=torch.long), gap=gap)
    before = torch.cat([torch.full((1,), math.inf, dtype=torch.float64), gap.abs().cummin(0).values[:-1]])
    record = gap.abs() < before
    return Returns(distance=1 + record.nonzero()[:, 0], gap=gap[record])


def _check_length(length: int) -> None:
    if length < 1 or length != int(length):
        raise ValueError(f"length counts tokens, the query included, and must be 1 or more; got {length}")

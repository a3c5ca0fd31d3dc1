"""Where the heads of one hop work, how far their logits stand apart, and what length costs them.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), Theorems 3.1 and 3.2 and Lemma F.1. The paper
shows that some inverse temperature works, bounds the discrepancy and explains by logits that draw together why Number
does not generalise to long sequences (section 5); exact values, limits at any length and their proofs are ours. Lengths
count tokens, the query included. *Works* means: the right token's score is strictly the highest for every valid last
token (:func:`posym_core.tasks.is_valid`) of every sequence of that length. A shorter sequence is never harder, so
sequences up to that length work as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_companion.theory._index_retrieval_limits import find_positional_beta, find_smallest, one_minus_cos
from posym_core._checks import require_count

# Logits that differ by less are a tie: float64 cosines cannot tell them apart.
TIE = 1e-15


def find_index_beta(length: int, angle: float) -> float:
    """Return the infimum of inverse temperatures at which ``IndexHead`` works on sequences of ``length`` tokens.

    An integer at the last position ``n = length - 1`` that points at a letter must give it more than half of its
    attention: then its score, twice that, exceeds the 1 of the integer itself, and no other letter can have as much.
    Less does not do when no other token is that letter. An integer that points at an integer and a letter that asks
    for itself need less: what the target and the query's own token draw counts for them. So the condition is
    ``sum over k != j of exp(beta (cos((k - j) angle) - 1)) < 1`` for every target ``j < n``, and because the sum is the
    same for the first and the last position, for every ``j``: that of the canonical Index head.

    Infinite where some distance below ``length`` is a whole number of turns.
    """
    require_count("length", length, 1, "it counts the query as well")
    least = find_positional_beta(length, angle) if length > 1 else 0.0
    # One rival loses at any temperature above 0, which a bisection only nears.
    return 0.0 if length < 3 and math.isfinite(least) else least


def find_reflexive_beta(length: int, angle: float) -> float:
    """Return the infimum of inverse temperatures for ``ReflexiveHead``, and for the ends of ``RetrievalHead``.

    All earlier tokens may agree on one other token (for an end: with the same left letter), so ``sum over
    1 <= d < length of exp(beta (cos(d angle) - 1)) < 1``; it falls in ``beta``, so it is bisected.
    """
    require_count("length", length, 1, "it counts the query as well")
    distance = torch.arange(1, length, dtype=torch.float64)
    return _smallest_beta(one_minus_cos(distance * angle)[None]) if length > 1 else 0.0


def find_retrieval_beta(length: int, symbols: int, angle: float) -> float:
    """Return the infimum of inverse temperatures at which ``RetrievalHead`` works for pairs of letters.

    The match at distance ``D`` has the logit ``cos(D angle)`` and a token at distance ``d`` whose left letter is ``k``
    letters off has ``cos(d angle - k omega)``, ``omega = 2 pi / symbols``. All other tokens, the query included, may be
    one and the same token, so ``sum over d != D of exp(beta (cos(d angle - k omega) - cos(D angle))) < 1`` for every
    ``1 <= D < length`` and every ``k``. Infinite where some exponent is not below 0: from
    :func:`find_retrieval_limit` on.
    """
    require_count("length", length, 1, "it counts the query as well")
    require_count("symbols", symbols, 2)
    if length < 2:
        return 0.0
    distance = torch.arange(length, dtype=torch.float64) * angle
    turned = distance - _letters(symbols)[:, None]  # [letter, distance]
    match = distance[1:, None, None]
    # cos(match) - cos(turned), in the form that keeps its precision for small phases
    loss = 2 * ((turned + match) / 2).sin() * ((turned - match) / 2).sin()  # [match, letter, distance]
    matching = torch.eye(length, dtype=torch.bool)[1:, None]
    return _smallest_beta(loss.masked_fill(matching, math.inf).flatten(0, 1))


def find_retrieval_limit(length: int, symbols: int) -> float:
    """Return the angle from which ``RetrievalHead`` works at no temperature: ``omega / (2 length - 3)``.

    The closest call is between the match at one end, ``n = length - 1`` tokens back, and the neighbouring letter at
    ``n - 1``, or the other way round: ``cos(n angle) > cos(omega - (n - 1) angle)`` if ``(2 n - 1) angle < omega``, and
    for no other angle up to half a turn. The paper asks for ``angle < omega / (2 n)``, which suffices.
    """
    require_count("length", length, 1, "it counts the query as well")
    return 2 * math.pi / (symbols * (2 * length - 3)) if length > 1 else math.inf


@dataclass(frozen=True, kw_only=True)
class Discrepancy:
    """How far the right logit stands above the next, over all inputs with ``n`` tokens before the query.

    Logits are cosines, ``beta = 1``. Where the right logit is the largest, this is the largest minus the
    second-largest.

    Attributes:
        least: on the worst input; a head with any ``beta`` errs on some input where this is not above 0.
        greatest: on the best input.
        bounds: Theorem 3.2's upper bounds.
    """

    least: float
    greatest: float
    bounds: tuple[float, ...]


def compute_index_discrepancy(n: int, angle: float) -> Discrepancy:
    """Return the discrepancy of Index for a query at position ``n``, that is with ``n`` tokens before it.

    The logit at distance ``d`` from the target is ``cos(d angle)`` whatever the tokens are, and a target at position
    ``j`` has others at all distances up to ``max(j, n - j)``. So ``1 - cos(d angle)``, least over these ``d``, is
    least for the first position, where ``d`` goes to ``n``, and greatest for the middle, where it goes to
    ``ceil(n / 2)``.

    Theorem 3.2's bounds are ``1 - cos(angle)`` and ``2 pi^2 / n^2``. The first holds on every input. The second bounds
    :attr:`~Discrepancy.least`: of ``n + 1`` multiples of ``angle`` on a circle two are at most ``2 pi / (n + 1)``
    apart, so some ``d <= n`` has that phase or less. A target in the middle sees half of these distances and can
    exceed it.

    >>> round(compute_index_discrepancy(1, torch.pi / 2).least, 12)
    1.0
    """
    require_count("n", n, 1, "it counts the tokens before the query")
    gap = one_minus_cos(torch.arange(1, n + 1, dtype=torch.float64) * angle)
    return Discrepancy(
        least=float(gap.min()),
        greatest=float(gap[: (n + 1) // 2].min()),
        bounds=(1 - math.cos(angle), 2 * math.pi**2 / n**2),
    )


def compute_retrieval_discrepancy(n: int, angle: float, symbols: int) -> Discrepancy:
    """Return the discrepancy of Retrieval for a pair of letters at position ``n``.

    With the match at distance ``D`` the tokens at all other distances ``d`` from 0 to ``n`` have left letters of their
    own choice but the asked one: logits ``cos(d angle - k omega)``, ``k != 0``, ``omega = 2 pi / symbols``. Each can be
    as large, or as small, as any ``k`` makes it, so the least discrepancy is the least over ``D`` of ``cos(D angle)``
    minus the largest over ``d != D`` and ``k``, and the greatest is the greatest over ``D`` of ``cos(D angle)`` minus
    the largest over ``d != D`` of the smallest over ``k``. Negative where another key draws more than the match.

    Theorem 3.2's bound ``1 - cos(omega - n angle)`` holds on inputs whose first token has the letter next to the asked
    one, whose logit is ``cos(n angle - omega)``. From ``n = 2`` on there are such, so it bounds
    :attr:`~Discrepancy.least`; inputs whose other letters all lie across the circle exceed it.
    """
    require_count("n", n, 1, "it counts the tokens before the query")
    require_count("symbols", symbols, 2)
    distance = torch.arange(n + 1, dtype=torch.float64) * angle
    rival = (distance - _letters(symbols)[:, None]).cos()
    match = distance.cos()[1:]
    matching = torch.eye(n + 1, dtype=torch.bool)[1:]

    def margin(rivals: Tensor) -> Tensor:
        return match - rivals.expand(n, -1).masked_fill(matching, -math.inf).amax(1)

    return Discrepancy(
        least=float(margin(rival.amax(0)).min()),
        greatest=float(margin(rival.amin(0)).max()),
        bounds=(1 - math.cos(2 * math.pi / symbols - n * angle),),
    )


def _letters(symbols: int) -> Float[Tensor, " letter"]:
    """Return the directions of all letters but the asked one, seen from it."""
    return torch.arange(1, symbols, dtype=torch.float64) * (2 * math.pi / symbols)


def _smallest_beta(loss: Float[Tensor, "case rival"]) -> float:
    """Return the infimum of ``beta`` with ``sum over rivals of exp(-beta loss) < 1`` in every case."""
    least = float(loss.min())
    if least <= TIE:
        return math.inf
    if int(loss.isfinite().sum(1).max()) == 1:
        return 0.0

    def works(beta: float) -> bool:
        return bool((-beta * loss).exp().sum(1).max() < 1)

    return find_smallest(works, math.log(loss.shape[1] + 1) / least)


def find_planes_beta(length: int, angles: Sequence[float] | Float[Tensor, " plane"]) -> float:
    """Return the infimum of inverse temperatures at which an ``IndexHead`` with several planes works.

    ``beta`` is shared evenly: a key at distance ``d`` from the target has the logit ``beta`` times the mean over planes
    of ``cos(d angle)``, so that numbers of planes compare at equal lengths of queries and keys. With ``loss(d)`` 1
    minus that mean, ``sum over k != j of exp(-beta loss(k - j)) < 1`` for every target ``j``, as in
    :func:`find_index_beta`; infinite where all planes return at once.
    """
    require_count("length", length, 1, "it counts the query as well")
    angles = torch.as_tensor(angles, dtype=torch.float64)
    if angles.ndim != 1 or len(angles) == 0:
        raise ValueError(f"angles must be one row with a plane or more; got shape {tuple(angles.shape)}")
    if length < 2:
        return 0.0
    distance = torch.arange(1, length, dtype=torch.float64)
    loss = one_minus_cos(distance[:, None] * angles).mean(1)
    least = float(loss.min())
    if least <= TIE:
        return math.inf
    if length == 2:
        return 0.0

    def works(beta: float) -> bool:
        # Rivals on one side of a target, by how many there are.
        side = torch.cat([torch.zeros(1, dtype=torch.float64), (-beta * loss).exp().cumsum(0)])
        return bool((side + side.flip(0)).max() < 1)

    return find_smallest(works, math.log(length) / least)


def compute_index_price(length: int, planes: int = 1) -> float:
    """Return the temperature below which Index fails on some input whatever the angles of its ``planes`` are.

    A working head has ``1 + S(j) < 2`` for every target, where ``S(j)`` sums over its rivals, so the mean over targets
    is below 2. That mean is ``1 / length`` times the sum over all pairs of positions of ``exp(b (cos(x) - 1))``, ``b =
    beta / planes``, multiplied over planes, ``x`` the angle between two keys. The function's Fourier coefficients
    ``exp(-b) I_m(b)`` are positive, so the sum over pairs is at least ``length^2`` times the coefficient of order 0,
    wherever the keys lie: rotation is not used. Hence ``length (exp(-b) I_0(b))^planes < 2``, whose left side falls in
    ``b``. For one plane and long sequences that is ``beta > length^2 / (8 pi)``, and the angle ``2 pi / length``
    comes as near to it as one likes. With planes in number it nears ``log(length / 2)``.

    >>> round(compute_index_price(1000) / (1000**2 / (8 * math.pi)), 4)
    1.0
    """
    require_count("length", length, 1, "it counts the query as well")
    require_count("planes", planes, 1)
    if length <= 2:
        return 0.0

    def is_open(beta: float) -> bool:
        share = torch.special.i0e(torch.tensor(beta / planes, dtype=torch.float64))
        return length * float(share) ** planes < 2

    enough = 1.0
    while not is_open(enough):
        enough *= 2
    return find_smallest(is_open, enough)


@dataclass(frozen=True, kw_only=True)
class Returns:
    """Distances at which a plane comes closer to where it started than at all shorter ones.

    Attributes:
        distance: in positions.
        gap: what remains to the nearest whole number of turns, radians; below 0 where it falls short of them.
    """

    distance: Int64[Tensor, " record"]
    gap: Float[Tensor, " record"]


def list_closest_returns(length: int, angle: float) -> Returns:
    """List records of return within ``length`` tokens; the last one is the pair that Index confuses most.

    For angles up to half a turn these are the denominators of the continued fraction of ``angle / (2 pi)``, since
    its convergents are the best approximations (Lagrange).

    >>> list_closest_returns(40, 1.0).distance.tolist()
    [1, 6, 19, 25]
    """
    require_count("length", length, 1, "it counts the query as well")
    phase = torch.arange(1, length, dtype=torch.float64) * angle
    gap = phase - 2 * math.pi * (phase / (2 * math.pi)).round()
    if not len(gap):
        return Returns(distance=torch.zeros(0, dtype=torch.long), gap=gap)
    before = torch.cat([torch.full((1,), math.inf, dtype=torch.float64), gap.abs().cummin(0).values[:-1]])
    record = gap.abs() < before
    return Returns(distance=1 + record.nonzero()[:, 0], gap=gap[record])

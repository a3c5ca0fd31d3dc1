"""Where constructed heads work: exact limits on angles and strengths, and closed forms of their attention.

Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*, Theorems 3, 5, 6 and 7. The
paper shows that some angle and strength works; the exact ranges below and their proofs are ours. *Works* means: the
answer's score is strictly the highest on every input of the task, as ``_index_retrieval_heads`` defines scores. Lengths
count the context's tokens, angles are radians per position, positions count from 0, and strengths are positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

# A phase this close to a whole turn counts as one: float64 angles cannot tell it from a tie.
WHOLE_TURN = 1e-9
BISECTIONS = 200


# Theorem 3


def find_index_gap(length: int, angle: float) -> float:
    """Return the smallest distance of ``D * angle``, ``1 <= D < length``, to a multiple of a whole turn, in radians.

    Theorem 3's condition is that this is not 0: then position ``j`` alone has the largest logit. While ``length *
    angle`` is below a turn the gap is ``angle`` itself or the rest of the turn; a fast angle can come near a turn at
    some distance and confuse positions that far apart.

    >>> round(find_index_gap(32, 0.1), 6)
    0.1
    >>> find_index_gap(5, torch.pi / 2)
    0.0
    """
    phase = torch.arange(1, length, dtype=torch.float64) * angle
    gap = float((phase - 2 * math.pi * (phase / (2 * math.pi)).round()).abs().min())
    return 0.0 if gap < WHOLE_TURN else gap


def find_positional_beta(length: int, angle: float) -> float:
    """Return the infimum of inverse temperatures at which ``PositionalIndexHead`` is right on every input.

    Right on all inputs means ``sum over k != j of exp(beta (cos((k - j) angle) - 1)) < 1`` for every target ``j``.
    The sum falls in ``beta`` from ``length - 1`` to the number of ties, so the largest over ``j`` is bisected;
    infinite where :func:`find_index_gap` is 0.
    """
    gap = find_index_gap(length, angle)
    if gap == 0.0:
        return math.inf
    position = torch.arange(length, dtype=torch.float64)
    loss = one_minus_cos((position[:, None] - position) * angle)
    other = ~torch.eye(length, dtype=torch.bool)

    def works(beta: float) -> bool:
        return bool(((-beta * loss).exp() * other).sum(1).max() < 1)

    return find_smallest(works, math.log(length) / (2 * math.sin(gap / 2) ** 2))


# Theorem 5 of Urrutia et al. (2026a) and the second half of their Theorem 7


def find_symbolic_beta(length: int, angle: float = 0.0) -> float:
    """Return the infimum of inverse temperatures at which a centred ``SymbolicRetrievalHead`` is always right.

    The match at position ``j`` must outweigh ``length - 1`` logits of 0: ``beta cos((j - centre) angle) >
    log(length - 1)``. Without rotation ``log(length - 1)``; infinite from ``(length - 1) angle >= pi`` on, where a
    match at the ends lowers the logit.

    >>> find_symbolic_beta(2)
    0.0
    """
    half_turn = (length - 1) * angle / 2
    if half_turn >= math.pi / 2 - WHOLE_TURN:
        return math.inf
    return math.log(length - 1) / math.cos(half_turn)


def find_planar_retrieval_limit(length: int, symbols: int) -> float:
    """Return the angle below which a centred ``PlanarRetrievalHead`` with large ``beta`` is always right. (Ours.)

    The asked symbol at ``j`` must score above its neighbour at ``k`` wherever they stand, ``cos((j - c) angle) >
    cos(2 pi / symbols - |k - c| angle)``. Both positions can be ends of the context, so ``(length - 1) angle <
    2 pi / symbols``; two symbols meet from both sides at once, so no phase of the query does better.
    """
    return 2 * math.pi / (symbols * (length - 1))


# Theorem 6


def find_recency_limit(length: int) -> float:
    """Return the angle from which ``cos(D angle)`` no longer falls over the distances ``D = 1 .. length``.

    ``cos(D a) - cos((D + 1) a) = 2 sin((2 D + 1) a / 2) sin(a / 2)`` is positive for all ``D < length`` exactly for
    ``0 < a < 2 pi / (2 length - 1)``; beyond, some earlier occurrence beats a later one at any strength.
    """
    return 2 * math.pi / (2 * length - 1)


def find_smallest_recency(length: int, angle: float) -> float:
    """Return the infimum of ``recency`` with which some ``match`` makes ``PartialInductionHead`` always right.

    The latest occurrence at distance ``D`` must outweigh occurrences at all larger distances:
    ``rho_D = sum over D' > D of exp(recency (cos(D' angle) - cos(D angle))) < 1`` for every ``D``. Each term falls with
    ``recency``, so the largest is bisected. Infinite outside ``0 < angle < find_recency_limit(length)``.
    """
    if not WHOLE_TURN < angle < find_recency_limit(length):
        return math.inf
    gain = recency_gain(length, angle)
    if length == 1:
        return 0.0
    step = float((-gain.diagonal(1)).min())

    def works(recency: float) -> bool:
        return bool(earlier_weight(gain, recency).max() < 1)

    return find_smallest(works, math.log(length) / step)


def find_smallest_match(length: int, angle: float, recency: float) -> float:
    """Return the infimum of ``match`` with which ``PartialInductionHead`` is always right, given ``recency``.

    The latest occurrence at distance ``D`` must outweigh tokens of other symbols at all smaller distances and earlier
    occurrences at all larger ones: ``exp(match) (1 - rho_D) > sum over D' < D of exp(recency (cos(D' angle) -
    cos(D angle)))``. Infinite unless ``recency > find_smallest_recency(length, angle)``.

    Convex in ``recency``: a logarithm of a sum of exponentials, minus the logarithm of 1 minus another such sum. So the
    recencies with which a given ``match`` works form an interval.
    """
    gain = recency_gain(length, angle)
    room = 1 - earlier_weight(gain, recency)
    if not 0 < angle < find_recency_limit(length) or not bool((room > 0).all()):
        return math.inf
    later = torch.tril(torch.ones_like(gain), diagonal=-1).log()
    needed = (recency * gain + later).logsumexp(1) - room.log()
    return max(0.0, float(needed[1:].max())) if length > 1 else 0.0


def recency_gain(length: int, angle: float) -> Float[Tensor, "distance other"]:
    """Return ``cos(D' angle) - cos(D angle)`` for distances ``D`` (rows) and ``D'`` from 1 to ``length``."""
    distance = torch.arange(1, length + 1, dtype=torch.float64)
    total, difference = distance[:, None] + distance, distance[:, None] - distance
    return 2 * (total * angle / 2).sin() * (difference * angle / 2).sin()


def earlier_weight(gain: Float[Tensor, "distance other"], recency: float) -> Float[Tensor, " distance"]:
    """Return ``rho_D``: attention to the context before distance ``D``, in units of the attention at ``D``."""
    return torch.triu((recency * gain).exp(), diagonal=1).sum(1)


# Theorem 7


def compute_positional_peak(length: int, angle: float, beta: float) -> Float[Tensor, " target"]:
    """Return the positional head's attention to its target, by position: U-shaped if ``length * angle <= pi``.

    ``w(j) = 1 / S(j)``, ``S(j) = sum over k of g(|k - j|)``, ``g(t) = exp(beta (cos(t angle) - 1))``, over the context.
    ``S(j + 1) - S(j) = g(j + 1) - g(length - 1 - j)`` (positions from 0) and ``g`` falls on ``[0, pi / angle]``, so
    ``S`` rises to the middle and falls after it.
    """
    position = torch.arange(length, dtype=torch.float64)
    difference = (position[:, None] - position) * angle
    return 1 / (-beta * one_minus_cos(difference)).exp().sum(1)


def compute_symbolic_peak(
    length: int, angle: float, beta: float, centre: float | None = None
) -> Float[Tensor, " target"]:
    """Return the simplified symbolic head's attention to its target: inverse-U if ``length * angle <= pi``.

    ``w(j) = 1 / (1 + (length - 1) exp(-beta cos((j - centre) angle)))``, over the context: the match has the logit
    ``beta cos((j - centre) angle)`` and all else 0. The best worst case puts ``centre`` in the middle.
    """
    centre = (length - 1) / 2 if centre is None else centre
    position = torch.arange(length, dtype=torch.float64)
    return 1 / (1 + (length - 1) * (-beta * ((position - centre) * angle).cos()).exp())


def one_minus_cos(phase: Tensor) -> Tensor:
    """Return ``1 - cos`` in the form that keeps its precision for small phases."""
    return 2 * (phase / 2).sin() ** 2


def find_smallest(works: Callable[[float], bool], enough: float) -> float:
    """Find the infimum of positive numbers that work, for a property that holds from there up to ``enough``."""
    low, high = 0.0, enough
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if works(middle) else (middle, high)
    return high

"""Heads built by hand that solve the canonical tasks, with the parameters that the proofs name.

Urrutia et al., *Decoupling Positional and Symbolic Attention in Transformers*, Theorems 3, 5, 6 and 7. Statements
follow the paper; the exact admissible ranges and their proofs are ours.

All heads share one form. The last token queries every token, itself included; queries and keys live in rotation
planes; values are one-hot tokens and the read-out ``F`` projects them onto the classes, so a class's score is the
attention to the tokens that carry it, and attention to the query's own token reaches no class. A class wins if its
score is strictly the highest. With so many tokens of other classes that all agree on *one* wrong class, the answer
wins exactly if its tokens draw more attention than all others of the context together: that is the worst case in
every derivation below, and :func:`worst_inputs` builds it.

Positions count from 0; the query of ``n`` context tokens stands at position ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from posym_core.rope import join_planes, rotate
from posym_core.tasks.canonical import IndexTask, PartialInductionTask, RetrievalTask, Task, TaskBatch, pair_batch

# A phase this close to a whole turn counts as one: float64 angles cannot tell it from a tie.
WHOLE_TURN = 1e-9
BISECTIONS = 200


class ConstructedHead(nn.Module):
    """A head whose queries, keys and values are formulas; subclasses give the unrotated ones.

    Attributes:
        task: the task it is built for.
        angles: ``[plane]``, float64.
    """

    def __init__(self, task: Task, angles: Float[Tensor, " plane"]):
        super().__init__()
        self.task = task
        self.register_buffer("angles", angles.to(torch.float64))
        self.angles: Tensor

    def plain_query(self, asked: Int64[Tensor, " input"]) -> Float[Tensor, "input dim"]:
        """Unrotated query of query tokens, numbered from 0."""
        raise NotImplementedError

    def plain_keys(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input token dim"]:
        """Unrotated keys of all tokens."""
        raise NotImplementedError

    def query(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input dim"]:
        """Query of the last token, rotated to its position: what the core's functions take."""
        plain = self.plain_query(tokens[:, -1] - self.task.context_vocabulary)
        return rotate(plain, tokens.shape[1] - 1, self.angles)

    def keys(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input token dim"]:
        """Keys of all tokens, rotated to their positions."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return rotate(self.plain_keys(tokens), positions, self.angles)

    def logits(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input token"]:
        """Logit of the last token's query against all tokens."""
        return (self.keys(tokens) @ self.query(tokens)[..., None])[..., 0]

    def attention(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input token"]:
        """Attention of the last token to all tokens."""
        return self.logits(tokens).softmax(-1)

    def forward(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input class"]:
        """Score of every class: the attention to the context tokens that carry it, of that to the whole context."""
        context = tokens[:, :-1]
        carried = context if isinstance(self.task, IndexTask) else context % self.task.attributes
        # The query's own token reaches no class and can hold all but 1e-300 of the attention: leave it out before
        # the softmax, which scales all scores alike.
        attention = self.logits(tokens)[:, :-1].softmax(-1)
        return attention.new_zeros(len(tokens), self.task.classes).scatter_add(1, carried, attention)


class PositionalIndexHead(ConstructedHead):
    """Theorem 3: a purely positional head with one angle does Index.

    Every key is ``v = (1, 0)``; the query of index ``j`` is ``v`` times ``beta``, turned so that after rotation it
    points where a key at position ``j`` points. The logit of position ``k`` is ``beta cos((j - k) angle)``.

    Works exactly for ``beta`` above :func:`positional_smallest_beta`.
    """

    def __init__(self, task: IndexTask, *, angle: float, beta: float):
        super().__init__(task, torch.tensor([angle], dtype=torch.float64))
        self.angle, self.beta = angle, beta

    def plain_query(self, asked: Tensor) -> Tensor:
        phase = (asked - self.task.length).double() * self.angle
        return self.beta * torch.stack([phase.cos(), phase.sin()], dim=-1)

    def plain_keys(self, tokens: Tensor) -> Tensor:
        keys = torch.zeros(*tokens.shape, 2, dtype=torch.float64, device=tokens.device)
        keys[..., 0] = 1.0
        return keys


class SymbolicRetrievalHead(ConstructedHead):
    """Theorem 5 (``angle = 0``): a symbolic head without position does Retrieval. Theorem 7 for ``angle > 0``.

    One plane per symbol, all with the same angle. The key of a pair is the unit vector of its symbol's plane; the
    query is the asked symbol's times ``beta``, turned so that it points where a key at position ``centre`` points. The
    logit at position ``k`` is ``beta cos((k - centre) angle)`` for the asked symbol and 0 for every other.

    Works exactly for ``beta`` above :func:`symbolic_smallest_beta`.

    Args:
        task: Retrieval.
        beta: inverse temperature.
        angle: radians per position.
        centre: position at which a match counts most; the middle of the context by default, which has the best
            worst case.
    """

    def __init__(self, task: RetrievalTask, *, beta: float, angle: float = 0.0, centre: float | None = None):
        super().__init__(task, torch.full((task.symbols,), angle, dtype=torch.float64))
        self.angle, self.beta = angle, beta
        self.centre = (task.length - 1) / 2 if centre is None else centre

    def plain_query(self, asked: Tensor) -> Tensor:
        match = one_hot(asked, self.angles.numel())
        phase = (self.centre - self.task.length) * self.angle
        return self.beta * join_planes(match * math.cos(phase), match * math.sin(phase), "halves")

    def plain_keys(self, tokens: Tensor) -> Tensor:
        match = one_hot(symbols_of(self.task, tokens), self.angles.numel())
        return join_planes(match, torch.zeros_like(match), "halves")


class PlanarRetrievalHead(ConstructedHead):
    """Retrieval in a single plane: symbols are directions ``2 pi s / symbols`` on one circle. (Ours.)

    This is what a trained head with one angle has to work with. The logit of symbol ``s'`` at position ``k`` is
    ``beta cos(2 pi (s' - s) / symbols + (k - centre) angle)``: turning by position mixes up neighbouring symbols.

    Some ``beta`` works exactly for ``angle < planar_retrieval_limit(length, symbols)``.
    """

    def __init__(self, task: RetrievalTask, *, beta: float, angle: float, centre: float | None = None):
        super().__init__(task, torch.tensor([angle], dtype=torch.float64))
        self.angle, self.beta = angle, beta
        self.centre = (task.length - 1) / 2 if centre is None else centre

    def plain_query(self, asked: Tensor) -> Tensor:
        phase = asked.double() * (2 * math.pi / self.task.symbols) + (self.centre - self.task.length) * self.angle
        return self.beta * torch.stack([phase.cos(), phase.sin()], dim=-1)

    def plain_keys(self, tokens: Tensor) -> Tensor:
        phase = symbols_of(self.task, tokens).double() * (2 * math.pi / self.task.symbols)
        return torch.stack([phase.cos(), phase.sin()], dim=-1)


class PartialInductionHead(ConstructedHead):
    """Theorem 6: a head with the angles ``theta_1 = 0`` and ``theta_2 = angle`` does Partial induction.

    Planes with angle 0 add ``match`` to the logit of tokens with the asked symbol; one plane with all keys equal adds
    ``recency * cos(D angle)`` to the token ``D`` positions before the query, which breaks ties towards the latest.

    Works exactly inside the ranges of :func:`recency_angle_limit`, :func:`smallest_recency` and
    :func:`smallest_match`.
    """

    def __init__(self, task: PartialInductionTask, *, angle: float, match: float, recency: float):
        self.matching = (task.symbols + 1) // 2  # planes, two symbols each
        angles = torch.zeros(self.matching + 1, dtype=torch.float64)
        angles[-1] = angle
        super().__init__(task, angles)
        self.angle, self.match, self.recency = angle, match, recency

    def plain_query(self, asked: Tensor) -> Tensor:
        return self._planes(self.match * one_hot(asked, 2 * self.matching), self.recency)

    def plain_keys(self, tokens: Tensor) -> Tensor:
        return self._planes(one_hot(symbols_of(self.task, tokens), 2 * self.matching), 1.0)

    def _planes(self, symbol: Tensor, position: float) -> Tensor:
        first, second = symbol.chunk(2, dim=-1)
        latest = torch.full_like(first[..., :1], position)
        return join_planes(
            torch.cat([first, latest], dim=-1), torch.cat([second, torch.zeros_like(latest)], dim=-1), "halves"
        )


def one_hot(number: Int64[Tensor, "*batch"], size: int) -> Float[Tensor, "*batch size"]:
    """float64 unit vectors."""
    return nn.functional.one_hot(number, size).double()


def symbols_of(task: Task, tokens: Int64[Tensor, "*batch"]) -> Int64[Tensor, "*batch"]:
    """Symbol of (symbol, attribute) tokens and of queries."""
    assert not isinstance(task, IndexTask)
    pairs = task.context_vocabulary
    return torch.where(tokens < pairs, tokens // task.attributes, tokens - pairs)


# Theorem 3


def index_gap(length: int, angle: float) -> float:
    """Smallest distance of ``D * angle``, ``1 <= D < length``, to a multiple of a whole turn, in radians.

    Theorem 3's condition is that this is not 0: then position ``j`` alone has the largest logit. While ``length *
    angle`` is below a turn the gap is ``angle`` itself or the rest of the turn; a fast angle can come near a turn at
    some distance and confuse positions that far apart.

    >>> round(index_gap(32, 0.1), 6)
    0.1
    >>> index_gap(5, torch.pi / 2)
    0.0
    """
    phase = torch.arange(1, length, dtype=torch.float64) * angle
    gap = float((phase - 2 * math.pi * (phase / (2 * math.pi)).round()).abs().min())
    return 0.0 if gap < WHOLE_TURN else gap


def positional_smallest_beta(length: int, angle: float) -> float:
    """Infimum of the inverse temperatures at which :class:`PositionalIndexHead` is right on every input.

    Right on all inputs means ``sum over k != j of exp(beta (cos((k - j) angle) - 1)) < 1`` for every target ``j``.
    The sum falls in ``beta`` from ``length - 1`` to the number of ties, so the largest over ``j`` is bisected;
    infinite where :func:`index_gap` is 0.
    """
    gap = index_gap(length, angle)
    if gap == 0.0:
        return math.inf
    position = torch.arange(length, dtype=torch.float64)
    # 1 - cos in the form that keeps its precision for small phases
    loss = 2 * ((position[:, None] - position) * angle / 2).sin() ** 2
    other = ~torch.eye(length, dtype=torch.bool)

    def works(beta: float) -> bool:
        return bool(((-beta * loss).exp() * other).sum(1).max() < 1)

    return smallest(works, math.log(length) / (2 * math.sin(gap / 2) ** 2))


# Theorem 5 and the second half of Theorem 7


def symbolic_smallest_beta(length: int, angle: float = 0.0) -> float:
    """Infimum of the inverse temperatures at which a centred :class:`SymbolicRetrievalHead` is right on every input.

    The match at position ``j`` must outweigh ``length - 1`` logits of 0: ``beta cos((j - centre) angle) >
    log(length - 1)``. Without rotation ``log(length - 1)``; infinite from ``(length - 1) angle >= pi`` on, where a
    match at the ends lowers the logit.

    >>> symbolic_smallest_beta(2)
    0.0
    """
    half_turn = (length - 1) * angle / 2
    if half_turn >= math.pi / 2 - WHOLE_TURN:
        return math.inf
    return math.log(length - 1) / math.cos(half_turn)


def planar_retrieval_limit(length: int, symbols: int) -> float:
    """Angle below which a centred :class:`PlanarRetrievalHead` with large ``beta`` is right on every input. (Ours.)

    The asked symbol at ``j`` must score above its neighbour at ``k`` wherever they stand, ``cos((j - c) angle) >
    cos(2 pi / symbols - |k - c| angle)``. Both positions can be ends of the context, so ``(length - 1) angle <
    2 pi / symbols``; two symbols meet from both sides at once, so no phase of the query does better.
    """
    return 2 * math.pi / (symbols * (length - 1))


# Theorem 6


def recency_angle_limit(length: int) -> float:
    """Angle from which ``cos(D angle)`` no longer falls over the distances ``D = 1 .. length``.

    ``cos(D a) - cos((D + 1) a) = 2 sin((2 D + 1) a / 2) sin(a / 2)`` is positive for all ``D < length`` exactly for
    ``0 < a < 2 pi / (2 length - 1)``; beyond, some earlier occurrence beats a later one at any strength.
    """
    return 2 * math.pi / (2 * length - 1)


def smallest_recency(length: int, angle: float) -> float:
    """Infimum of ``recency`` with which some ``match`` makes :class:`PartialInductionHead` right on every input.

    The latest occurrence at distance ``D`` must outweigh occurrences at all larger distances:
    ``rho_D = sum over D' > D of exp(recency (cos(D' angle) - cos(D angle))) < 1`` for every ``D``. Each term falls with
    ``recency``, so the largest is bisected. Infinite outside ``0 < angle < recency_angle_limit(length)``.
    """
    if not WHOLE_TURN < angle < recency_angle_limit(length):
        return math.inf
    gain = recency_gain(length, angle)
    if length == 1:
        return 0.0
    step = float((-gain.diagonal(1)).min())

    def works(recency: float) -> bool:
        return bool(earlier_weight(gain, recency).max() < 1)

    return smallest(works, math.log(length) / step)


def smallest_match(length: int, angle: float, recency: float) -> float:
    """Infimum of ``match`` with which :class:`PartialInductionHead` is right on every input, given ``recency``.

    The latest occurrence at distance ``D`` must outweigh tokens of other symbols at all smaller distances and earlier
    occurrences at all larger ones: ``exp(match) (1 - rho_D) > sum over D' < D of exp(recency (cos(D' angle) -
    cos(D angle)))``. Infinite unless ``recency > smallest_recency(length, angle)``.
    """
    gain = recency_gain(length, angle)
    room = 1 - earlier_weight(gain, recency)
    if not 0 < angle < recency_angle_limit(length) or not bool((room > 0).all()):
        return math.inf
    later = torch.tril(torch.ones_like(gain), diagonal=-1).log()
    needed = (recency * gain + later).logsumexp(1) - room.log()
    return max(0.0, float(needed[1:].max())) if length > 1 else 0.0


def admissible_angles(length: int, match: float, recency: float) -> tuple[float, float]:
    """Range of ``theta_2`` in which :class:`PartialInductionHead` of these strengths is right on every input.

    Too small and the latest occurrence does not stand out; too large and recency outweighs the match, or turns back.
    A grid finds the angles that work and bisection refines the two ends around the first and last of them.

    Raises:
        ValueError: if these strengths work at no angle.
    """

    def works(angle: float) -> bool:
        return match > smallest_match(length, angle, recency)

    limit = recency_angle_limit(length)
    grid = [limit * (step / 2000) for step in range(1, 2000)]
    good = [angle for angle in grid if works(angle)]
    if not good:
        raise ValueError(
            f"no angle works with match={match} and recency={recency} at length {length}; "
            "raise recency above smallest_recency and match above smallest_match of a middle angle"
        )
    low = smallest(works, good[0])
    high = limit - smallest(lambda below: works(limit - below), limit - good[-1])
    return low, high


def recency_gain(length: int, angle: float) -> Float[Tensor, "distance other"]:
    """``cos(D' angle) - cos(D angle)`` for distances ``D`` (rows) and ``D'`` from 1 to ``length``."""
    distance = torch.arange(1, length + 1, dtype=torch.float64)
    total, difference = distance[:, None] + distance, distance[:, None] - distance
    return 2 * (total * angle / 2).sin() * (difference * angle / 2).sin()


def earlier_weight(gain: Float[Tensor, "distance other"], recency: float) -> Float[Tensor, " distance"]:
    """``rho_D``: attention to the context before distance ``D``, in units of the attention at ``D``."""
    return torch.triu((recency * gain).exp(), diagonal=1).sum(1)


# Theorem 7


def positional_peak_weight(length: int, angle: float, beta: float) -> Float[Tensor, " target"]:
    """Attention of the positional head to its target, by target position: U-shaped if ``length * angle <= pi``.

    ``w(j) = 1 / S(j)``, ``S(j) = sum over k of g(|k - j|)``, ``g(t) = exp(beta (cos(t angle) - 1))``, over the context.
    ``S(j + 1) - S(j) = g(j + 1) - g(length - 1 - j)`` (positions from 0) and ``g`` falls on ``[0, pi / angle]``, so
    ``S`` rises to the middle and falls after it.
    """
    position = torch.arange(length, dtype=torch.float64)
    difference = (position[:, None] - position) * angle
    return 1 / (-2 * beta * (difference / 2).sin() ** 2).exp().sum(1)


def symbolic_peak_weight(
    length: int, angle: float, beta: float, centre: float | None = None
) -> Float[Tensor, " target"]:
    """Attention of the simplified symbolic head to its target, by position: inverse-U if ``length * angle <= pi``.

    ``w(j) = 1 / (1 + (length - 1) exp(-beta cos((j - centre) angle)))``, over the context: the match has the logit
    ``beta cos((j - centre) angle)`` and all else 0. The best worst case puts ``centre`` in the middle.
    """
    centre = (length - 1) / 2 if centre is None else centre
    position = torch.arange(length, dtype=torch.float64)
    return 1 / (1 + (length - 1) * (-beta * ((position - centre) * angle).cos()).exp())


def half_turn_condition(length: int, angle: float) -> bool:
    """Theorem 7's condition ``length * angle <= pi``."""
    return length * angle <= math.pi


# Measuring


def worst_inputs(task: Task) -> TaskBatch:
    """One input for every position of the answer, on which a constructed head fails if it fails anywhere.

    All tokens but the answer's agree on one wrong class. In Partial induction every token before the answer has the
    asked symbol and none after it; positions start at 0 here, so the asked symbol may stand once only.
    """
    target = torch.arange(task.length)
    wrong = (target[:, None] != target).long()  # [input, position]
    if isinstance(task, IndexTask):
        tokens = torch.cat([wrong, task.symbols + target[:, None]], dim=1)
        return TaskBatch(tokens, torch.zeros_like(target), target)
    distinct = isinstance(task, RetrievalTask)
    symbol = target.expand(task.length, -1) if distinct else (target > target[:, None]).long()
    return pair_batch(symbol, wrong, target, task.symbols, task.attributes)


def is_right(
    head: Callable[[Int64[Tensor, "input token"]], Float[Tensor, "input class"]], batch: TaskBatch
) -> Bool[Tensor, " input"]:
    """Where the answer's score is strictly the highest; a tie is wrong."""
    scores = head(batch.tokens)
    answer = scores.gather(1, batch.answer[:, None])
    others = scores.scatter(1, batch.answer[:, None], -math.inf)
    return answer[:, 0] > others.amax(1)


def smallest(works: Callable[[float], bool], enough: float) -> float:
    """Infimum of the positive numbers that work, for a property that holds from there up to ``enough``."""
    low, high = 0.0, enough
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if works(middle) else (middle, high)
    return high

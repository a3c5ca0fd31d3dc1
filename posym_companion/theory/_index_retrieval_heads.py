"""Heads built by hand that solve the canonical tasks, with the parameters that the proofs name.

Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*, Theorems 3, 5, 6 and 7.
Statements follow the paper; the exact admissible ranges, in ``_index_retrieval_limits``, and their proofs are ours.

All heads share one form. The last token queries every token, itself included; queries and keys live in rotation
planes; values are one-hot tokens and the read-out ``F`` projects them onto the classes, so a class's score is the
attention to the tokens that carry it, and attention to the query's own token reaches no class. A class wins if its
score is strictly the highest. With so many tokens of other classes that all agree on *one* wrong class, the answer
wins exactly if its tokens draw more attention than all others of the context together: that is the worst case in
every derivation below, and :func:`list_worst_inputs` builds it.

Positions count from 0; the query of ``n`` context tokens stands at position ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from posym_core.metrics._rope import join_planes, rotate
from posym_core.tasks._index_retrieval import IndexTask, PartialInductionTask, RetrievalTask, Task, TaskBatch

MOST_INPUTS = 1_000_000


class ConstructedHead(nn.Module):
    """A head whose queries, keys and values are formulas; subclasses give the unrotated ones."""

    def __init__(self, task: Task, angles: Float[Tensor, " plane"]):
        super().__init__()
        self.task = task
        self.register_buffer("angles", angles.to(torch.float64))
        self.angles: Tensor

    def plain_query(self, query_ids: Int64[Tensor, " input"]) -> Float[Tensor, "input dim"]:
        """Return the unrotated query of query tokens, numbered from 0."""
        raise NotImplementedError

    def plain_keys(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input token dim"]:
        """Return the unrotated keys of all tokens."""
        raise NotImplementedError

    def query(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input dim"]:
        """Return the last token's query, rotated to its position."""
        plain = self.plain_query(tokens[:, -1] - self.task.context_vocabulary)
        return rotate(plain, tokens.shape[1] - 1, self.angles)

    def keys(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input token dim"]:
        """Return the keys of all tokens, rotated to their positions."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return rotate(self.plain_keys(tokens), positions, self.angles)

    def logits(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input token"]:
        """Return the logits of the last token's query against all tokens."""
        return (self.keys(tokens) @ self.query(tokens)[..., None])[..., 0]

    def attention(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input token"]:
        """Return the attention of the last token to all tokens."""
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

    Works exactly for ``beta`` above :func:`find_positional_beta`.
    """

    def __init__(self, task: IndexTask, *, angle: float, beta: float):
        super().__init__(task, torch.tensor([angle], dtype=torch.float64))
        self.angle, self.beta = angle, beta

    def plain_query(self, query_ids: Tensor) -> Tensor:
        phase = (query_ids - self.task.length).double() * self.angle
        return self.beta * torch.stack([phase.cos(), phase.sin()], dim=-1)

    def plain_keys(self, tokens: Tensor) -> Tensor:
        keys = torch.zeros(*tokens.shape, 2, dtype=torch.float64, device=tokens.device)
        keys[..., 0] = 1.0
        return keys


class SymbolicRetrievalHead(ConstructedHead):
    """Theorem 5 of Urrutia et al. (2026a), ``angle = 0``: a symbolic head without position does Retrieval; else 7.

    One plane per symbol, all with the same angle. The key of a pair is the unit vector of its symbol's plane; the
    query is the asked symbol's times ``beta``, turned so that it points where a key at position ``centre`` points. The
    logit at position ``k`` is ``beta cos((k - centre) angle)`` for the asked symbol and 0 for every other.

    Works exactly for ``beta`` above :func:`find_symbolic_beta`. ``centre`` is the position at which a match counts
    most: by default the middle of the context, which has the best worst case.
    """

    task: RetrievalTask

    def __init__(self, task: RetrievalTask, *, beta: float, angle: float = 0.0, centre: float | None = None):
        super().__init__(task, torch.full((task.symbols,), angle, dtype=torch.float64))
        self.angle, self.beta = angle, beta
        self.centre = (task.length - 1) / 2 if centre is None else centre

    def plain_query(self, query_ids: Tensor) -> Tensor:
        match = one_hot(query_ids, self.angles.numel())
        phase = (self.centre - self.task.length) * self.angle
        return self.beta * join_planes(match * math.cos(phase), match * math.sin(phase), "halves")

    def plain_keys(self, tokens: Tensor) -> Tensor:
        match = one_hot(self.task.symbols_of(tokens), self.angles.numel())
        return join_planes(match, torch.zeros_like(match), "halves")


class PlanarRetrievalHead(ConstructedHead):
    """Retrieval in a single plane: symbols are directions ``2 pi s / symbols`` on one circle. (Ours.)

    This is what a trained head with one angle has to work with. The logit of symbol ``s'`` at position ``k`` is
    ``beta cos(2 pi (s' - s) / symbols + (k - centre) angle)``: turning by position mixes up neighbouring symbols.

    Some ``beta`` works exactly for ``angle < find_planar_retrieval_limit(length, symbols)``.
    """

    task: RetrievalTask

    def __init__(self, task: RetrievalTask, *, beta: float, angle: float, centre: float | None = None):
        super().__init__(task, torch.tensor([angle], dtype=torch.float64))
        self.angle, self.beta = angle, beta
        self.centre = (task.length - 1) / 2 if centre is None else centre

    def plain_query(self, query_ids: Tensor) -> Tensor:
        phase = query_ids.double() * (2 * math.pi / self.task.symbols) + (self.centre - self.task.length) * self.angle
        return self.beta * torch.stack([phase.cos(), phase.sin()], dim=-1)

    def plain_keys(self, tokens: Tensor) -> Tensor:
        phase = self.task.symbols_of(tokens).double() * (2 * math.pi / self.task.symbols)
        return torch.stack([phase.cos(), phase.sin()], dim=-1)


class PartialInductionHead(ConstructedHead):
    """Theorem 6: a head with the angles ``theta_1 = 0`` and ``theta_2 = angle`` does Partial induction.

    Planes with angle 0 add ``match`` to the logit of tokens with the asked symbol; one plane with all keys equal adds
    ``recency * cos(D angle)`` to the token ``D`` positions before the query, which breaks ties towards the latest.

    Works exactly inside the ranges of :func:`find_recency_limit`, :func:`find_smallest_recency` and
    :func:`find_smallest_match`.
    """

    task: PartialInductionTask

    def __init__(self, task: PartialInductionTask, *, angle: float, match: float, recency: float):
        self.matching = (task.symbols + 1) // 2  # planes, two symbols each
        angles = torch.zeros(self.matching + 1, dtype=torch.float64)
        angles[-1] = angle
        super().__init__(task, angles)
        self.angle, self.match, self.recency = angle, match, recency

    def plain_query(self, query_ids: Tensor) -> Tensor:
        return self._planes(self.match * one_hot(query_ids, 2 * self.matching), self.recency)

    def plain_keys(self, tokens: Tensor) -> Tensor:
        return self._planes(one_hot(self.task.symbols_of(tokens), 2 * self.matching), 1.0)

    def _planes(self, symbol: Tensor, position: float) -> Tensor:
        first, second = symbol.chunk(2, dim=-1)
        latest = torch.full_like(first[..., :1], position)
        return join_planes(
            torch.cat([first, latest], dim=-1), torch.cat([second, torch.zeros_like(latest)], dim=-1), "halves"
        )


def one_hot(number: Int64[Tensor, "*batch"], size: int) -> Float[Tensor, "*batch size"]:
    """Return float64 unit vectors."""
    return nn.functional.one_hot(number, size).double()


# Measuring


def list_worst_inputs(task: Task) -> TaskBatch:
    """List one input for every position of the answer, on which a constructed head fails if it fails anywhere.

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
    return task.batch(symbol, wrong, target)


def list_inputs(task: Task) -> TaskBatch:
    """List all inputs of a small task; in Partial induction the asked symbol stands any number of times above zero.

    >>> list_inputs(IndexTask(length=2, symbols=2)).answer.tolist()
    [0, 0, 0, 1, 1, 0, 1, 1]
    """
    most = task.length * task.context_vocabulary**task.length
    if most > MOST_INPUTS:
        raise ValueError(
            f"a task of length {task.length} with {task.context_vocabulary} tokens has up to {most} inputs but at most "
            f"{MOST_INPUTS} are listed; pass a smaller task, or draw inputs with task.sample"
        )
    context = torch.cartesian_prod(*[torch.arange(task.context_vocabulary)] * task.length)  # [input, position]
    place = torch.arange(task.length)
    if isinstance(task, IndexTask):
        context, position = context.repeat_interleave(task.length, 0), place.repeat(len(context))
        answer = context.gather(1, position[:, None])[:, 0]
        return TaskBatch(torch.cat([context, task.symbols + position[:, None]], dim=1), answer, position)
    symbol, attribute = context // task.attributes, context % task.attributes
    # [input, position, other position]: does the symbol stand at another, later place?
    again = symbol[:, :, None] == symbol[:, None, :]
    if isinstance(task, RetrievalTask):
        distinct = again.sum((1, 2)) == task.length
        symbol, attribute, again = symbol[distinct], attribute[distinct], again[distinct]
    last = ~(again & (place > place[:, None])).any(-1)
    row, position = last.nonzero(as_tuple=True)
    return task.batch(symbol[row], attribute[row], position)


def is_right(
    head: Callable[[Int64[Tensor, "input token"]], Float[Tensor, "input class"]], batch: TaskBatch
) -> Bool[Tensor, " input"]:
    """Return where the answer's score is strictly the highest; a tie is wrong."""
    scores = head(batch.tokens)
    answer = scores.gather(1, batch.answer[:, None])
    others = scores.scatter(1, batch.answer[:, None], -math.inf)
    return answer[:, 0] > others.amax(1)

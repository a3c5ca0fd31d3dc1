"""Limits of heads, shown on any head: two inputs that it cannot tell apart and whose answers differ.

Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*, Theorems 2 and 4 and
Corollary 1. A head is anything that maps tokens ``[input, token]`` to class scores ``[input, class]``. Each function
builds its pair of inputs and reports how far the head's scores differ on them. If the head is what the theorem speaks
of, they coincide and one of the two answers must be wrong; if they differ, the head is something else.

Theorem 4 needs a read-out that looks at attributes only (values the identity, ``F`` a projection). A general ``F`` that
also reads the symbols, such as a multilayer perceptron, admits contrived exceptions; the paper says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_core.tasks import IndexTask, PartialInductionTask, RetrievalTask

Scorer = Callable[[Int64[Tensor, "input token"]], Float[Tensor, "input class"]]


@dataclass(frozen=True, kw_only=True)
class Collision:
    """Two inputs with different answers and what a head makes of them.

    Attributes:
        tokens: ``[2, token]``.
        answer: ``[2]``, different.
        scores: ``[2, class]``, the head's.
    """

    tokens: Int64[Tensor, "2 token"]
    answer: Int64[Tensor, "2"]
    scores: Float[Tensor, "2 class"]

    @property
    def difference(self) -> float:
        """Largest difference of a class's score between the two inputs."""
        return float((self.scores[0] - self.scores[1]).abs().max())

    def coincides(self, tolerance: float = 1e-6) -> bool:
        """Return whether the head cannot tell the two inputs apart, up to ``tolerance`` times its largest score."""
        return self.difference <= tolerance * max(1e-30, float(self.scores.abs().max()))

    @property
    def right(self) -> int:
        """On how many of the two inputs the answer's score is strictly the highest."""
        best = self.scores.gather(1, self.answer[:, None])
        others = self.scores.scatter(1, self.answer[:, None], float("-inf"))
        return int((best[:, 0] > others.amax(1)).sum())


def make_index_collision(head: Scorer, task: IndexTask, *, target: int = 0, other: int | None = None) -> Collision:
    """Show Theorem 2: two tokens of the context exchange places, the index stays. No symbolic head sees it."""
    other = task.length - 1 if other is None else other
    check_places(task.length, target, other)
    context = torch.arange(task.length) % task.symbols
    context[target], context[other] = 0, 1
    swapped = exchange(context, target, other)
    index = torch.tensor([task.symbols + target])
    tokens = torch.stack([torch.cat([context, index]), torch.cat([swapped, index])])
    return observe(head, tokens, torch.tensor([0, 1]))


def make_retrieval_collision(
    head: Scorer, task: RetrievalTask, *, target: int = 0, other: int | None = None
) -> Collision:
    """Show Theorem 4: two tokens exchange symbols, not attributes. No positional head that reads attributes sees it."""
    other = task.length - 1 if other is None else other
    check_places(task.length, target, other)
    symbol = torch.arange(task.length)
    attribute = torch.arange(task.length) % task.attributes
    attribute[target], attribute[other] = 0, 1
    return exchange_symbols(head, task, symbol, attribute, target, other)


def make_induction_collisions(head: Scorer, task: PartialInductionTask) -> tuple[Collision, Collision]:
    """Show Corollary 1: a pair that no symbolic head tells apart, and one that no positional head does.

    In the first, two tokens of the asked symbol exchange places; in the second, the last token of the asked symbol
    exchanges its symbol with the token after it, attributes stay.
    """
    length = task.length
    if length < 3:
        raise ValueError(f"a symbol that repeats and another need three positions; got length {length}")
    symbol = torch.ones(length, dtype=torch.long)
    symbol[: length - 1] = 0
    attribute = torch.zeros(length, dtype=torch.long)
    attribute[length - 1] = 1
    positional = exchange_symbols(head, task, symbol, attribute, length - 2, length - 1)

    attribute = torch.zeros(length, dtype=torch.long)
    attribute[length - 2] = 1
    last = torch.tensor([length - 2])
    batches = [
        task.batch(symbol[None], values[None], last) for values in (attribute, exchange(attribute, 0, length - 2))
    ]
    tokens = torch.cat([batch.tokens for batch in batches])
    symbolic = observe(head, tokens, torch.cat([batch.answer for batch in batches]))
    return symbolic, positional


def exchange_symbols(
    head: Scorer, task: RetrievalTask | PartialInductionTask, symbol: Tensor, attribute: Tensor, target: int, other: int
) -> Collision:
    """Return the input that asks for ``target``'s symbol, before and after it exchanged symbols with ``other``."""
    before = task.batch(symbol[None], attribute[None], torch.tensor([target]))
    moved = exchange(symbol, target, other)
    after = task.batch(moved[None], attribute[None], torch.tensor([other]))
    tokens = torch.cat([before.tokens, after.tokens])
    return observe(head, tokens, torch.cat([before.answer, after.answer]))


def observe(head: Scorer, tokens: Tensor, answer: Tensor) -> Collision:
    """Return the head's scores on two inputs, or an error that says what it returned."""
    with torch.no_grad():
        scores = head(tokens)
    if not isinstance(scores, Tensor) or scores.ndim != 2 or scores.shape[0] != 2:
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise ValueError(
            f"a head must map tokens [input, token] to scores [input, class]; for 2 inputs it returned {shape}. "
            "Wrap it in a function that does"
        )
    return Collision(tokens=tokens, answer=answer, scores=scores)


def exchange(values: Int64[Tensor, " place"], first: int, second: int) -> Int64[Tensor, " place"]:
    """Return a copy with two entries exchanged."""
    swapped = values.clone()
    swapped[first], swapped[second] = values[second], values[first]
    return swapped


def check_places(length: int, target: int, other: int) -> None:
    """Raise if positions are not two different ones of the context."""
    if not (0 <= target < length and 0 <= other < length and target != other):
        raise ValueError(
            f"target and other must be two different positions from 0 to {length - 1}; got {target} and {other}"
        )

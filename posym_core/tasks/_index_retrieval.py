"""Canonical tasks: Index, Retrieval and Partial induction.

Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*, section on canonical tasks. The
answer to Index depends on where tokens stand and not on what they are; the answer to Retrieval on what they are and
not on where they stand; Partial induction needs both. The distributions over inputs, which the docstrings state, are
ours.

A task is a frozen dataclass that draws batches. An input is ``length`` context tokens and one query token, so token
ids run ``0 .. context_vocabulary - 1`` for the context and from there to ``vocabulary - 1`` for queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from posym_core._checks import require_count


class TaskBatch(NamedTuple):
    """Inputs with their answers.

    Attributes:
        tokens: ``[input, length + 1]``; the query is the last token.
        answer: ``[input]``, the class to predict, ``0 .. classes - 1``.
        position: ``[input]``, the context position where the answer stands, ``0 .. length - 1``.
    """

    tokens: Int64[Tensor, "input token"]
    answer: Int64[Tensor, " input"]
    position: Int64[Tensor, " input"]


@dataclass(frozen=True, kw_only=True)
class ContextTask:
    """Common part of the three tasks: ``length`` context tokens over so many symbols."""

    length: int = 32
    symbols: int = 32

    def __post_init__(self):
        require_count("length", self.length, 2, "one position leaves nothing to choose")
        require_count("symbols", self.symbols, 2, "one symbol leaves nothing to tell apart")


@dataclass(frozen=True, kw_only=True)
class IndexTask(ContextTask):
    """Symbols ``s_0 .. s_{n-1}``, then an index token ``j``; the answer is ``s_j``. Needs position only.

    Symbols are drawn independently and uniformly, so they may repeat; ``j`` is uniform over the positions. Token
    ``s`` is symbol ``s``, token ``symbols + j`` is index ``j``.

    >>> task = IndexTask(length=4, symbols=3)
    >>> batch = task.sample(2, torch.Generator().manual_seed(0))
    >>> batch.tokens.shape, task.vocabulary
    (torch.Size([2, 5]), 7)
    """

    @property
    def context_vocabulary(self) -> int:
        return self.symbols

    @property
    def queries(self) -> int:
        return self.length

    @property
    def classes(self) -> int:
        return self.symbols

    @property
    def vocabulary(self) -> int:
        return self.context_vocabulary + self.queries

    @property
    def part_vocabulary(self) -> int:
        return self.vocabulary

    def parts(self, tokens: Int64[Tensor, "*batch"]) -> Int64[Tensor, "*batch part"]:
        """Return what tokens are made of: here each is its own single part."""
        return tokens[..., None]

    def sample(self, count: int, generator: torch.Generator) -> TaskBatch:
        """Draw ``count`` inputs and leave them on the generator's device."""
        require_count("count", count, 1)
        device = generator.device
        context = torch.randint(self.symbols, (count, self.length), generator=generator, device=device)
        position = torch.randint(self.length, (count,), generator=generator, device=device)
        answer = context.gather(1, position[:, None])[:, 0]
        return TaskBatch(torch.cat([context, self.symbols + position[:, None]], dim=1), answer, position)


@dataclass(frozen=True, kw_only=True)
class PairTask(ContextTask):
    """Tokens are (symbol, attribute) pairs, and a query is a symbol.

    Token ``symbol * attributes + attribute`` is a pair, token ``symbols * attributes + symbol`` a query.
    """

    attributes: int = 8

    def __post_init__(self):
        super().__post_init__()
        require_count("attributes", self.attributes, 2, "one attribute leaves nothing to answer")

    @property
    def context_vocabulary(self) -> int:
        return self.symbols * self.attributes

    @property
    def queries(self) -> int:
        return self.symbols

    @property
    def classes(self) -> int:
        return self.attributes

    @property
    def vocabulary(self) -> int:
        return self.context_vocabulary + self.queries

    @property
    def part_vocabulary(self) -> int:
        return self.symbols + self.attributes + self.queries + 1

    def parts(self, tokens: Int64[Tensor, "*batch"]) -> Int64[Tensor, "*batch part"]:
        """Return what tokens are made of: two parts a token, in one vocabulary.

        Parts ``0 .. symbols - 1`` are symbols, then come the attributes, then one part per query, then one that marks a
        token as a query. A pair is its symbol and its attribute; a query is its own part and the mark.
        """
        query = tokens >= self.context_vocabulary
        words = self.symbols + self.attributes
        first = torch.where(query, tokens - self.context_vocabulary + words, tokens // self.attributes)
        second = torch.where(query, words + self.queries, self.symbols + tokens % self.attributes)
        return torch.stack([first, second], dim=-1)

    def symbols_of(self, tokens: Int64[Tensor, "*batch"]) -> Int64[Tensor, "*batch"]:
        """Return the symbol of pairs and of queries."""
        pairs = self.context_vocabulary
        return torch.where(tokens < pairs, tokens // self.attributes, tokens - pairs)

    def batch(self, symbol: Tensor, attribute: Tensor, position: Tensor) -> TaskBatch:
        """Join pairs ``[input, position]`` with the question for the symbol at ``position`` ``[input]``."""
        query = self.context_vocabulary + symbol.gather(1, position[:, None])
        answer = attribute.gather(1, position[:, None])[:, 0]
        return TaskBatch(torch.cat([symbol * self.attributes + attribute, query], dim=1), answer, position)


@dataclass(frozen=True, kw_only=True)
class RetrievalTask(PairTask):
    """(symbol, attribute) tokens with distinct symbols, then a symbol; the answer is its attribute. Needs symbol only.

    The context is a uniform arrangement of ``length`` distinct symbols, each with a uniform attribute; the queried
    symbol is uniform among those present.
    """

    def __post_init__(self):
        super().__post_init__()
        if self.symbols < self.length:
            raise ValueError(
                f"{self.length} positions need as many distinct symbols but symbols is {self.symbols}; "
                f"pass symbols={self.length} or more, or a shorter length"
            )

    def sample(self, count: int, generator: torch.Generator) -> TaskBatch:
        """Draw as :meth:`IndexTask.sample` does."""
        require_count("count", count, 1)
        device = generator.device
        # float64: float32 draws tie often enough to bend the uniform order of large batches
        order = torch.rand(count, self.symbols, dtype=torch.float64, generator=generator, device=device).argsort(1)
        attribute = torch.randint(self.attributes, (count, self.length), generator=generator, device=device)
        position = torch.randint(self.length, (count,), generator=generator, device=device)
        return self.batch(order[:, : self.length], attribute, position)


@dataclass(frozen=True, kw_only=True)
class PartialInductionTask(PairTask):
    """(symbol, value) tokens in which symbols repeat, then a symbol; the answer is the value of its *last* occurrence.

    Needs both: the symbol picks out its occurrences, position picks the last of them. The queried symbol is uniform
    and stands exactly ``repetition`` times: its last occurrence is uniform over the positions that leave room for
    the others, ``repetition - 1 .. length - 1``, so that every answer position is tested equally often, and the
    earlier ones are a uniform subset of the positions before it. All other positions hold independent uniform draws
    of the other symbols. Values are independent and uniform.
    """

    repetition: int = 4

    def __post_init__(self):
        super().__post_init__()
        require_count("repetition", self.repetition, 2, "a symbol that does not repeat is RetrievalTask's case")
        if self.repetition > self.length:
            raise ValueError(
                f"the queried symbol stands {self.repetition} times but there are only {self.length} positions; "
                "pass a smaller repetition or a longer length"
            )

    def sample(self, count: int, generator: torch.Generator) -> TaskBatch:
        """Draw as :meth:`IndexTask.sample` does."""
        require_count("count", count, 1)
        device, shape = generator.device, (count, self.length)
        queried = torch.randint(self.symbols, (count, 1), generator=generator, device=device)
        others = torch.randint(self.symbols - 1, shape, generator=generator, device=device)
        others = others + (others >= queried)  # uniform over every symbol but the queried one
        first, last = self.repetition - 1, self.length
        position = torch.randint(first, last, (count,), generator=generator, device=device)
        priority = torch.rand(shape, dtype=torch.float64, generator=generator, device=device)
        slot = torch.arange(self.length, device=device)
        priority = priority.masked_fill(slot >= position[:, None], 2.0)
        earlier = priority.argsort(1)[:, :first]
        occurs = torch.zeros(shape, dtype=torch.bool, device=device).scatter(1, earlier, True)
        occurs |= slot == position[:, None]
        symbol = torch.where(occurs, queried, others)
        attribute = torch.randint(self.attributes, shape, generator=generator, device=device)
        return self.batch(symbol, attribute, position)


Task = IndexTask | RetrievalTask | PartialInductionTask

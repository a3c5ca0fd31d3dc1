"""Canonical tasks: Index, Retrieval and Partial induction.

Urrutia et al., *Decoupling Positional and Symbolic Attention in Transformers*, section on canonical tasks. The
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
class IndexTask:
    """Symbols ``s_0 .. s_{n-1}``, then an index token ``j``; the answer is ``s_j``. Needs position only.

    Symbols are drawn independently and uniformly, so they may repeat; ``j`` is uniform over the positions. Token
    ``s`` is symbol ``s``, token ``symbols + j`` is index ``j``.

    Raises:
        TypeError: if a setting is not an integer.
        ValueError: if there is no context or fewer than two symbols.

    >>> task = IndexTask(length=4, symbols=3)
    >>> batch = task.sample(2, torch.Generator().manual_seed(0))
    >>> batch.tokens.shape, task.vocabulary
    (torch.Size([2, 5]), 7)
    """

    length: int = 32
    symbols: int = 32

    def __post_init__(self):
        require_count("length", self.length, 2, "one position leaves nothing to choose")
        require_count("symbols", self.symbols, 2, "one symbol leaves nothing to answer")

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
        """What tokens are made of: here each is its own single part."""
        return tokens[..., None]

    def sample(self, count: int, generator: torch.Generator) -> TaskBatch:
        """``count`` inputs, drawn and left on the generator's device."""
        require_count("count", count, 1, "draw at least one input")
        device = generator.device
        context = torch.randint(self.symbols, (count, self.length), generator=generator, device=device)
        position = torch.randint(self.length, (count,), generator=generator, device=device)
        answer = context.gather(1, position[:, None])[:, 0]
        return TaskBatch(torch.cat([context, self.symbols + position[:, None]], dim=1), answer, position)


@dataclass(frozen=True, kw_only=True)
class RetrievalTask:
    """(symbol, attribute) tokens with distinct symbols, then a symbol; the answer is its attribute. Needs symbol only.

    The context is a uniform arrangement of ``length`` distinct symbols, each with a uniform attribute; the queried
    symbol is uniform among those present. Token ``symbol * attributes + attribute`` is a pair, token
    ``symbols * attributes + symbol`` a query.

    Raises:
        TypeError: if a setting is not an integer.
        ValueError: if symbols are fewer than positions, or there are fewer than two attributes.
    """

    length: int = 32
    symbols: int = 32
    attributes: int = 8

    def __post_init__(self):
        require_count("length", self.length, 2, "one position leaves nothing to choose")
        require_count("symbols", self.symbols, 2, "one symbol leaves nothing to look up")
        require_count("attributes", self.attributes, 2, "one attribute leaves nothing to answer")
        if self.symbols < self.length:
            raise ValueError(
                f"{self.length} positions need as many distinct symbols but symbols is {self.symbols}; "
                f"pass symbols={self.length} or more, or a shorter length"
            )

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
        """What tokens are made of, two parts each; see :func:`pair_parts`."""
        return pair_parts(tokens, self.symbols, self.attributes)

    def sample(self, count: int, generator: torch.Generator) -> TaskBatch:
        """``count`` inputs, drawn and left on the generator's device."""
        require_count("count", count, 1, "draw at least one input")
        device = generator.device
        # float64: float32 draws tie often enough to bend the uniform order of large batches
        order = torch.rand(count, self.symbols, dtype=torch.float64, generator=generator, device=device).argsort(1)
        symbol = order[:, : self.length]
        attribute = torch.randint(self.attributes, (count, self.length), generator=generator, device=device)
        position = torch.randint(self.length, (count,), generator=generator, device=device)
        return pair_batch(symbol, attribute, position, self.symbols, self.attributes)


@dataclass(frozen=True, kw_only=True)
class PartialInductionTask:
    """(symbol, value) tokens in which symbols repeat, then a symbol; the answer is the value of its *last* occurrence.

    Needs both: the symbol picks out its occurrences, position picks the last of them. The queried symbol is uniform
    and stands exactly ``repetition`` times: its last occurrence is uniform over the positions that leave room for
    the others, ``repetition - 1 .. length - 1``, so that every answer position is tested equally often, and the
    earlier ones are a uniform subset of the positions before it. All other positions hold independent uniform draws
    of the other symbols. Values are independent and uniform. Tokens are numbered as in :class:`RetrievalTask`.

    Raises:
        TypeError: if a setting is not an integer.
        ValueError: if the repetitions do not fit the length, or fewer than two symbols or values are given.
    """

    length: int = 32
    symbols: int = 32
    attributes: int = 8
    repetition: int = 4

    def __post_init__(self):
        require_count("length", self.length, 2, "one position leaves nothing to choose")
        require_count("symbols", self.symbols, 2, "one symbol leaves nothing to look up")
        require_count("attributes", self.attributes, 2, "one value leaves nothing to answer")
        require_count("repetition", self.repetition, 2, "a symbol that does not repeat is RetrievalTask's case")
        if self.repetition > self.length:
            raise ValueError(
                f"the queried symbol stands {self.repetition} times but there are only {self.length} positions; "
                "pass a smaller repetition or a longer length"
            )

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
        """What tokens are made of, two parts each; see :func:`pair_parts`."""
        return pair_parts(tokens, self.symbols, self.attributes)

    def sample(self, count: int, generator: torch.Generator) -> TaskBatch:
        """``count`` inputs, drawn and left on the generator's device."""
        require_count("count", count, 1, "draw at least one input")
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
        return pair_batch(symbol, attribute, position, self.symbols, self.attributes)


Task = IndexTask | RetrievalTask | PartialInductionTask


def pair_batch(symbol: Tensor, attribute: Tensor, position: Tensor, symbols: int, attributes: int) -> TaskBatch:
    """Batch of (symbol, attribute) tokens that asks for the symbol standing at ``position``."""
    query = symbols * attributes + symbol.gather(1, position[:, None])
    answer = attribute.gather(1, position[:, None])[:, 0]
    return TaskBatch(torch.cat([symbol * attributes + attribute, query], dim=1), answer, position)


def pair_parts(tokens: Int64[Tensor, "*batch"], symbols: int, attributes: int) -> Int64[Tensor, "*batch part"]:
    """Parts of (symbol, attribute) and query tokens, in one vocabulary.

    Parts ``0 .. symbols - 1`` are symbols, then come the attributes, then one part per query, then one that marks a
    token as a query. A pair is its symbol and its attribute; a query is its own part and the mark.
    """
    pairs = symbols * attributes
    query = tokens >= pairs
    first = torch.where(query, tokens - pairs + symbols + attributes, tokens // attributes)
    second = torch.where(query, symbols + attributes + symbols, symbols + tokens % attributes)
    return torch.stack([first, second], dim=-1)


def require_count(name: str, value: int, least: int, reason: str) -> None:
    """Refuse what is not an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least} ({reason}); got {value}")

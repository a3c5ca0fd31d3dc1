"""Number and Letter: one structure, solved by following positions or by following symbols.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 2: a target window, a window before the
query whose tokens say where to look next, and a query; the answer is the token of the target window at which the path
ends. What the paper leaves open and is decided here: in Number the other letters differ from the answer and are
otherwise independent; in Letter a path visits ever earlier tokens; in both, everything that is not on the path is
drawn evenly from what keeps the path unique.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field

import torch
from jaxtyping import Int64
from torch import Tensor

from posym_core._checks import require_counts


@dataclass(frozen=True, kw_only=True)
class MultihopBatch:
    """Sequences of equal length with the path that leads to each answer.

    Attributes:
        tokens: the last token is the query.
        answer: token in which the path ends.
        hops: length of each path.
        path: positions from the query over the stations to the answer; -1 behind the end of shorter paths.
    """

    tokens: Int64[Tensor, "sequence token"]
    answer: Int64[Tensor, " sequence"]
    hops: Int64[Tensor, " sequence"]
    path: Int64[Tensor, "sequence station"]


@dataclass(frozen=True, kw_only=True)
class MultihopTask:
    """Common part of the Number and the Letter task.

    Attributes:
        window: tokens of the target window in which the answer stands.
        steps: tokens between that window and the query, which carry the stations of a path.
        hops: longest path, at most ``steps + 1``.
    """

    window: int = 8
    steps: int = 8
    hops: int = 4

    def __post_init__(self):
        require_counts(window=(self.window, 1), steps=(self.steps, 1), hops=(self.hops, 1))
        if self.hops > self.steps + 1:
            raise ValueError(
                f"a path of {self.hops} hops needs {self.hops - 1} stations between window and query, but there are "
                f"{self.steps} places; pass hops={self.steps + 1} or fewer, or more steps"
            )

    def _balanced_answers(self, count: int, values: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw path length, answer's place and answer: all combinations equally often up to one, shuffled.

        Combinations are dealt out length by length, then place by place; within these the values follow each other
        from a random start, so that each is balanced by itself whatever the count.
        """
        device = generator.device
        number = torch.arange(count, device=device)
        hops, deal = 1 + number % self.hops, number // self.hops
        start = torch.randint(values, (self.hops, self.window), generator=generator, device=device)
        place = deal % self.window
        if count < self.hops * self.window:  # too few for every place, so chance decides which come
            order = torch.rand(self.hops, self.window, generator=generator, device=device).argsort(1)
            place = order[hops - 1, place]
        answer = (deal // self.window + start[hops - 1, place]) % values
        shuffled = torch.randperm(count, generator=generator, device=device)
        return hops[shuffled], place[shuffled], answer[shuffled]

    def _paths(
        self, hops: Tensor, place: Tensor, extra: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw steps back, rank on the path (-1 off it), each ``[sequence, steps + 1]``, and the path's positions."""
        count, device = len(hops), generator.device
        first = extra + self.window
        position = first + torch.arange(self.steps + 1, device=device)
        # hops - 1 of the places before the query, each set equally likely; the query is always on the path.
        drawn = torch.rand(count, self.steps, generator=generator, device=device).argsort(1).argsort(1)
        station = torch.cat([drawn < hops[:, None] - 1, torch.ones(count, 1, dtype=torch.bool, device=device)], dim=1)
        rank = torch.where(station, station.flip(1).cumsum(1).flip(1) - 1, -1)
        # The nearest earlier station, or the answer.
        reached = torch.where(station, position, extra + place[:, None])
        earlier = torch.cat([extra + place[:, None], reached.cummax(1).values[:, :-1]], dim=1)
        anywhere = (
            torch.rand(count, self.steps + 1, generator=generator, device=device) * (position - extra)
        ).long() + 1
        steps = torch.where(station, position - earlier, anywhere)
        path = torch.full((count, self.hops + 1), -1, device=device)
        path.scatter_(1, hops[:, None], extra + place[:, None])
        rows, places = station.nonzero(as_tuple=True)
        path[rows, rank[rows, places]] = position[places]
        return steps, rank, path


@dataclass(frozen=True, kw_only=True)
class NumberTask(MultihopTask):
    """Integers say how many positions to step back; a letter ends the path.

    Token ids: letters first, then the integers 1 to ``window + steps``.

    Attributes:
        letters: how many letters there are.
    """

    letters: int = 120
    name: str = field(default="number", init=False)

    def __post_init__(self):
        super().__post_init__()
        require_counts(letters=(self.letters, 2))

    @property
    def vocabulary(self) -> int:
        """Number of different tokens."""
        return self.letters + self.window + self.steps

    @property
    def token_names(self) -> list[str]:
        """Every token as people write it, by id: letters ``a`` to ``z``, ``aa``, ``ab`` and so on; integers from 1."""
        return name_letters(self.letters) + [str(1 + number) for number in range(self.window + self.steps)]

    def sample(self, count: int, *, generator: torch.Generator, extra: int = 0) -> MultihopBatch:
        """Draw sequences, on the generator's device.

        Paths of every length come equally often, up to one, and so do, within a length, the answer's place in the
        window and its letter; stations are drawn without replacement from the places between window and query.

        Args:
            count: number of sequences.
            generator: of everything that is drawn.
            extra: letters in front of the window, which no path reaches.
        """
        require_counts(count=(count, 1), extra=(extra, 0))
        device = generator.device
        hops, place, answer = self._balanced_answers(count, self.letters, generator)
        steps, _, path = self._paths(hops, place, extra, generator)
        # All other letters differ from the answer, so that its value stands once.
        others = torch.randint(self.letters - 1, (count, extra + self.window), generator=generator, device=device)
        letters = (answer[:, None] + 1 + others) % self.letters
        letters.scatter_(1, extra + place[:, None], answer[:, None])
        integers = self.letters + steps - 1
        return MultihopBatch(tokens=torch.cat([letters, integers], dim=1), answer=answer, hops=hops, path=path)


@dataclass(frozen=True, kw_only=True)
class LetterTask(MultihopTask):
    """The right letter of a pair names the left letter of an earlier pair; a pair with an integer ends the path.

    Token ids: pairs ``(letter, integer)`` first, then pairs ``(letter, letter)``; the left letter counts most.

    Attributes:
        alphabet: how many letters there are, more than ``hops``.
        integers: how many integers there are.
    """

    alphabet: int = 8
    integers: int = 8
    name: str = field(default="letter", init=False)

    def __post_init__(self):
        super().__post_init__()
        require_counts(alphabet=(self.alphabet, 2), integers=(self.integers, 1))
        if self.hops >= self.alphabet:
            raise ValueError(
                f"a path of {self.hops} hops has a letter for each and leaves one for what is not on it, but the "
                f"alphabet has {self.alphabet}; pass alphabet={self.hops + 1} or more"
            )

    @property
    def vocabulary(self) -> int:
        """Number of different tokens."""
        return self.alphabet * (self.integers + self.alphabet)

    @property
    def token_names(self) -> list[str]:
        """Pairs like ``(a,1)`` and ``(a,b)``."""
        letters = name_letters(self.alphabet)
        ends = [f"({letter},{1 + number})" for letter in letters for number in range(self.integers)]
        return ends + [f"({left},{right})" for left in letters for right in letters]

    def sample(self, count: int, *, generator: torch.Generator, extra: int = 0) -> MultihopBatch:
        """Draw sequences; see :meth:`NumberTask.sample`.

        The letters of a path are drawn without replacement and stand nowhere else on the left. The answer is balanced
        over all pairs with an integer. ``extra`` pairs in front of the window are of the window's kind.
        """
        require_counts(count=(count, 1), extra=(extra, 0))
        device = generator.device
        hops, place, answer = self._balanced_answers(count, self.alphabet * self.integers, generator)
        _, rank, path = self._paths(hops, place, extra, generator)

        def draw(below: int | Tensor, width: int) -> Tensor:
            return (torch.rand(count, width, generator=generator, device=device) * below).long()

        # Letter h of the order is the answer's; a shift of the alphabet brings that about.
        order = torch.rand(count, self.alphabet, generator=generator, device=device).argsort(1)
        shift = answer // self.integers - order.gather(1, hops[:, None] - 1).squeeze(1)
        order = (order + shift[:, None]) % self.alphabet
        spare = (self.alphabet - hops)[:, None]

        left = order.gather(1, hops[:, None] + draw(spare, extra + self.window))
        ends = left * self.integers + draw(self.integers, extra + self.window)
        ends.scatter_(1, extra + place[:, None], answer[:, None])

        # Rank 0 is the query and k the k-th station: it carries letters k and k + 1 of the path.
        on_path = rank >= 0
        named = order.gather(1, rank.clamp_min(0))
        earlier_letter = order.gather(1, (rank - 1).clamp_min(0))
        left = order.gather(1, hops[:, None] + draw(spare, self.steps + 1))
        left = torch.where(rank > 0, earlier_letter, left)
        right = torch.where(on_path, named, draw(self.alphabet, self.steps + 1))
        pairs = self.alphabet * self.integers + left * self.alphabet + right
        return MultihopBatch(tokens=torch.cat([ends, pairs], dim=1), answer=answer, hops=hops, path=path)


def name_letters(count: int) -> list[str]:
    """Return ``a`` to ``z``, then ``aa``, ``ab`` and so on.

    >>> name_letters(120)[-1]
    'dp'
    """
    single = list(string.ascii_lowercase)
    double = [first + second for first in single for second in single]
    if count > len(single) + len(double):
        raise ValueError(f"there are names for {len(single) + len(double)} letters; got {count}")
    return (single + double)[:count]

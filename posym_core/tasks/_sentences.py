"""How far apart, and how many: one task that needs positions and one that does not.

Gu et al., *Deconstructing Positional Information* (2026), section on position-sensitive and position-agnostic tasks.
Sentences are random words with trigger words among them. *Distance* asks how far apart two triggers stand; *Count* asks
how many there are, wherever they stand. What the paper leaves open and is decided here: the two triggers differ and
come in a fixed order; words on either side of them are as many as chance says, within the sentence; in Count both kinds
of trigger count, and every sentence is full; answers come equally often.

Token ids: 0 is padding, which stands behind the sentence; 1 and 2 are the triggers; all others are words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from posym_core._checks import require_counts

PADDING = 0
TRIGGERS = (1, 2)
WORDS = 3  # the first of them


@dataclass(frozen=True, kw_only=True)
class SentenceBatch:
    """Sentences padded to equal length.

    Attributes:
        tokens: 0 behind the end.
        answer: class of each sentence, from 0.
    """

    tokens: Int64[Tensor, "sentence token"]
    answer: Int64[Tensor, " sentence"]

    @property
    def seen(self) -> Bool[Tensor, "sentence token"]:
        """Return which tokens are no padding."""
        return self.tokens != PADDING


@dataclass(frozen=True, kw_only=True)
class SentenceTask:
    """Common part of both tasks.

    Attributes:
        longest: tokens of a padded sentence.
        vocabulary: number of different tokens, padding and triggers among them.
    """

    longest: int = 120
    vocabulary: int = 574

    def random_words(self, count: int, generator: torch.Generator) -> Int64[Tensor, "sentence token"]:
        """Draw words and nothing else, evenly."""
        shape = (count, self.longest)
        return torch.randint(WORDS, self.vocabulary, shape, generator=generator, device=generator.device)


@dataclass(frozen=True, kw_only=True)
class DistanceTask(SentenceTask):
    """Two triggers in a sentence of random words: by how many positions are they apart?

    Class ``c`` is the distance ``c + 1``.

    Attributes:
        distances: largest distance.
        side: most words in front of the first trigger, and most behind the second, as far as they fit.
    """

    distances: int = 70
    side: int = 25
    name: str = field(default="distance", init=False)

    def __post_init__(self):
        require_counts(distances=(self.distances, 1), side=(self.side, 0), vocabulary=(self.vocabulary, WORDS + 1))
        if self.longest < self.distances + 1:
            raise ValueError(
                f"triggers {self.distances} apart need {self.distances + 1} tokens; got longest={self.longest}"
            )

    @property
    def classes(self) -> int:
        """Number of distances."""
        return self.distances

    def best_without_order(self) -> float:
        """Return the best accuracy of who sees the tokens of a sentence but not their order.

        Words are drawn evenly and say nothing about the distance; the number of tokens says a little.

        >>> DistanceTask(distances=2, side=0, longest=3).best_without_order()
        1.0
        """
        chance = torch.zeros(self.distances, self.longest + 1, dtype=torch.float64)
        for answer in range(self.distances):
            span = answer + 2
            fronts = min(self.side, self.longest - span) + 1
            for front in range(fronts):
                behinds = min(self.side, self.longest - span - front) + 1
                for behind in range(behinds):
                    chance[answer, front + span + behind] += 1 / (fronts * behinds)
        return float(chance.amax(0).sum() / self.distances)

    def sample(self, count: int, *, generator: torch.Generator) -> SentenceBatch:
        """Draw sentences, on the generator's device.

        All distances come equally often, up to one. The words in front are drawn evenly from 0 to ``side``, and so are
        those behind, as far as they fit into the sentence.

        >>> batch = DistanceTask().sample(1, generator=torch.Generator().manual_seed(0))
        >>> first, second = (int((batch.tokens[0] == trigger).nonzero()) for trigger in TRIGGERS)
        >>> second - first == int(batch.answer[0]) + 1
        True
        """
        answer = draw_balanced_classes(self.distances, count, generator)
        span = answer + 2
        front = draw_up_to((self.longest - span).clamp(max=self.side), generator)
        behind = draw_up_to((self.longest - span - front).clamp(max=self.side), generator)
        tokens = self.random_words(count, generator)
        tokens.scatter_(1, front[:, None], TRIGGERS[0])
        tokens.scatter_(1, (front + span - 1)[:, None], TRIGGERS[1])
        return SentenceBatch(tokens=pad_sentences(tokens, front + span + behind), answer=answer)


@dataclass(frozen=True, kw_only=True)
class CountTask(SentenceTask):
    """How many triggers are there among the words of a sentence, wherever they stand?

    Class ``c`` is the number ``c``.

    Attributes:
        most: largest number of triggers.
        shortest: tokens of the shortest sentence; below ``longest``, lengths are drawn evenly and the rest is padding.
            Triggers always fit.
    """

    most: int = 100
    shortest: int = 120
    name: str = field(default="count", init=False)

    def __post_init__(self):
        require_counts(most=(self.most, 1), shortest=(self.shortest, 1), vocabulary=(self.vocabulary, WORDS + 1))
        if self.longest < max(self.most, self.shortest):
            raise ValueError(
                f"{self.most} triggers and sentences of at least {self.shortest} tokens must fit; got "
                f"longest={self.longest}"
            )

    @property
    def classes(self) -> int:
        """Number of answers, none at all among them."""
        return self.most + 1

    def sample(self, count: int, *, generator: torch.Generator) -> SentenceBatch:
        """Draw sentences, on the generator's device; all numbers come equally often, up to one, places evenly."""
        answer = draw_balanced_classes(self.classes, count, generator)
        least = answer.clamp(min=self.shortest)
        length = least + draw_up_to(self.longest - least, generator)
        tokens = self.random_words(count, generator)
        # The places of the smallest random numbers within the sentence get triggers.
        draw = torch.rand(tokens.shape, generator=generator, device=tokens.device, dtype=torch.float64)
        place = torch.arange(self.longest, device=tokens.device)
        draw = draw.masked_fill(place >= length[:, None], 2.0)
        chosen = draw.argsort(-1).argsort(-1) < answer[:, None]
        kind = torch.randint(len(TRIGGERS), tokens.shape, generator=generator, device=tokens.device)
        tokens = torch.where(chosen, torch.tensor(TRIGGERS, device=tokens.device)[kind], tokens)
        return SentenceBatch(tokens=pad_sentences(tokens, length), answer=answer)


def draw_balanced_classes(classes: int, count: int, generator: torch.Generator) -> Int64[Tensor, " count"]:
    """Draw ``count`` of ``classes`` numbers in random order, each equally often up to one."""
    require_counts(count=(count, 1))
    device = generator.device
    names = torch.randperm(classes, generator=generator, device=device)
    return names[torch.randperm(count, generator=generator, device=device) % classes]


def draw_up_to(largest: Int64[Tensor, " count"], generator: torch.Generator) -> Int64[Tensor, " count"]:
    """Draw whole numbers from 0 to each of ``largest``, evenly."""
    draw = torch.rand(largest.shape, generator=generator, device=generator.device, dtype=torch.float64)
    return (draw * (largest + 1)).long()


def pad_sentences(
    tokens: Int64[Tensor, "sentence token"], length: Int64[Tensor, " sentence"]
) -> Int64[Tensor, "sentence token"]:
    """Put padding behind each sentence's end."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    return tokens.masked_fill(place >= length[:, None], PADDING)

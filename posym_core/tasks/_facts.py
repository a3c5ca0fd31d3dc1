"""Facts about names, and three questions about them: binding, index and last occurrence.

A prompt tells ``m`` facts and then asks: ``[start] fact ... fact [?] question answer question answer ...``. A fact is a
name and its attribute, in two to four tokens: ``name attribute``, ``name verb attribute`` or ``name verb attribute
stop``. The kinds of question are

* *binding*: a name that stands in one fact; the answer is that fact's attribute;
* *index*: an ordinal ``k``; the answer is the attribute of fact ``k``;
* *last*: names recur; the answer is the attribute in the asked name's latest fact.

Binding needs contents only, index places only, last both. It is the binding task on which Urrutia et al. (2026a)
profile language models, made small enough for a model of two layers to learn, with two questions beside it that need
order. The distributions, which the docstrings state, are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Int64
from torch import Tensor

from posym_core._checks import require_count

Question = Literal["binding", "index", "last"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
START, VERB, STOP, ASK = range(4)
MARKS = 4


class FactsBatch(NamedTuple):
    """Prompts with their questions and answers.

    Attributes:
        tokens: ``[prompt, token]``; the last question is the last token, and every other one is followed by its answer.
        answer: ``[prompt, question]``, the attribute asked for, ``0 .. attributes - 1``.
        fact: ``[prompt, question]``, the fact that holds it, ``0 .. facts - 1``.
        kind: ``[prompt, question]``, the question's place in :data:`QUESTIONS`.
    """

    tokens: Int64[Tensor, "*prompt token"]
    answer: Int64[Tensor, "*prompt question"]
    fact: Int64[Tensor, "*prompt question"]
    kind: Int64[Tensor, "*prompt question"]


@dataclass(frozen=True, kw_only=True)
class FactsTask:
    """Prompts of ``facts`` facts, with questions of one kind each.

    A prompt's kind is drawn evenly from ``questions``. Names are different, but for *last*: there each of ``facts / 2``
    names stands in two facts. Names are drawn evenly, attributes independently and evenly, and the order of the facts
    and of the questions is random. No question is asked twice; a prompt has ``facts`` questions, or half as many where
    *last* is among the kinds.

    Token ids: four marks, then names, attributes and ordinals.

    Attributes:
        facts: facts of a prompt, at least 2.
        words: tokens of a fact, 2 to 4.
        names: different names, at least ``facts``.
        attributes: different attributes.
        questions: kinds that are asked.

    >>> task = FactsTask(facts=2, names=4, attributes=3)
    >>> batch = task.ask("binding", 5, torch.Generator().manual_seed(0))
    >>> batch.tokens.shape, task.vocabulary
    (torch.Size([5, 7]), 13)
    """

    facts: int = 8
    words: int = 2
    names: int = 32
    attributes: int = 16
    questions: tuple[Question, ...] = ("binding", "index")

    def __post_init__(self):
        require_count("facts", self.facts, 2, "one fact leaves nothing to choose")
        require_count("attributes", self.attributes, 2, "one attribute leaves nothing to tell apart")
        if self.words not in (2, 3, 4):
            raise ValueError(f"a fact has 2, 3 or 4 words: name (verb) attribute (stop); got words={self.words}")
        if self.names < self.facts:
            raise ValueError(
                f"{self.facts} facts need as many different names; got names={self.names}. Pass names={self.facts} or "
                "more"
            )
        if not self.questions or set(self.questions) - set(QUESTIONS):
            raise ValueError(f"questions must be some of {', '.join(QUESTIONS)}; got {self.questions}")
        if "last" in self.questions and self.facts % 2:
            raise ValueError(f"every name stands in two facts, so facts must be even; got {self.facts}")

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return self.first_ordinal + self.facts

    @property
    def first_attribute(self) -> int:
        """Token of attribute 0."""
        return MARKS + self.names

    @property
    def first_ordinal(self) -> int:
        """Token that asks for fact 0."""
        return self.first_attribute + self.attributes

    @property
    def context(self) -> int:
        """Tokens before the first question."""
        return 2 + self.facts * self.words

    def sample(self, count: int, generator: torch.Generator) -> FactsBatch:
        """Draw prompts with all their questions, for training."""
        kinds = torch.tensor([QUESTIONS.index(question) for question in self.questions], device=generator.device)
        drawn = torch.randint(len(kinds), (count,), generator=generator, device=generator.device)
        questions = self.facts // 2 if "last" in self.questions else self.facts
        return self._draw(kinds[drawn], questions, generator)

    def ask(self, question: Question, count: int, generator: torch.Generator) -> FactsBatch:
        """Draw prompts with one question of one kind, which is their last token; for tests."""
        if question not in QUESTIONS or (question == "last" and self.facts % 2):
            raise ValueError(
                f"question must be one of {', '.join(QUESTIONS)}, the last for even facts; got {question!r} for "
                f"{self.facts} facts"
            )
        kinds = torch.full((count,), QUESTIONS.index(question), device=generator.device)
        return self._draw(kinds, 1, generator)

    def _draw(self, kind: Int64[Tensor, " prompt"], questions: int, generator: torch.Generator) -> FactsBatch:
        count, m, device = len(kind), self.facts, generator.device

        def shuffled(rows: int) -> Tensor:
            return torch.rand(count, rows, generator=generator, device=device).argsort(1)

        names, order = shuffled(self.names)[:, :m], shuffled(m)
        attributes = torch.randint(self.attributes, (count, m), generator=generator, device=device)
        recurs = (kind == QUESTIONS.index("last"))[:, None]
        names = torch.where(recurs, names.gather(1, order % max(1, m // 2)), names)
        # Where names recur, the facts that can be asked about are the later of each two.
        later = torch.ones(count, m, dtype=torch.bool, device=device)
        later = torch.where(recurs, ~(names[:, :, None] == names[:, None, :]).triu(1).any(2), later)
        fact = (shuffled(m) + m * ~later).argsort(1)[:, :questions]
        answer = attributes.gather(1, fact)
        named = MARKS + names.gather(1, fact)
        question = torch.where((kind == QUESTIONS.index("index"))[:, None], self.first_ordinal + fact, named)

        pairs = torch.stack([MARKS + names, self.first_attribute + attributes], dim=-1)
        verb, stop = (torch.full_like(pairs[..., :1], mark) for mark in (VERB, STOP))
        parts = [pairs[..., :1], verb, pairs[..., 1:], stop] if self.words > 2 else [pairs]
        facts = torch.cat(parts, dim=-1)[..., : self.words].flatten(1)
        talk = torch.stack([question, self.first_attribute + answer], dim=-1).flatten(1)[:, :-1]
        edges = [torch.full((count, 1), mark, device=device) for mark in (START, ASK)]
        tokens = torch.cat([edges[0], facts, edges[1], talk], dim=1)
        return FactsBatch(tokens, answer, fact, kind[:, None].expand_as(fact))

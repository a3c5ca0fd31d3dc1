"""Binding prompts: facts that give each name an attribute, and a question about one of them.

The kind of input on which Urrutia et al., *Decoupling Positional and Symbolic Attention in Transformers*, profile a
language model: ``Alice likes red. Bob likes blue. ... Bob likes``. Every fact is a block of the same number of tokens,
so that any two can be swapped, and every name and attribute is one token. The words and templates are ours.
"""

from __future__ import annotations

import functools
import inspect
import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

# Words are tokenized behind a full stop, because some tokenizers treat the beginning of a text apart.
ANCHOR = "."


@dataclass(frozen=True, kw_only=True)
class Template:
    """How facts and the question are worded; ``{name}`` and ``{attribute}`` stand for the words.

    Attributes:
        fact: one block; begins with a space.
        query: what follows the facts; its last token is the query and the attribute would come next.
        attributes: kind of word to choose attributes from, see :func:`words`.
    """

    fact: str
    query: str
    attributes: str


TEMPLATES = {
    "likes": Template(
        fact=" {name} likes {attribute}.",
        query=" What color does {name} like? {name} likes",
        attributes="colours",
    ),
    "bought": Template(fact=" {name} bought {attribute},", query=" and so {name} bought", attributes="things"),
    "lives": Template(
        fact=" {name} lives in {attribute}.",
        query=" Where does {name} live? {name} lives in",
        attributes="cities",
    ),
}


@functools.cache
def words(kind: str) -> tuple[str, ...]:
    """Words of a kind: ``"names"``, ``"colours"``, ``"things"`` or ``"cities"``."""
    found: dict[str, list[str]] = {}
    for line in (files("posym_core.tasks") / "words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            current.extend(line.split())
    if kind not in found:
        raise ValueError(f"kind must be one of {', '.join(map(repr, found))}; got {kind!r}")
    return tuple(found[kind])


@dataclass(frozen=True, kw_only=True)
class BindingPrompts:
    """Prompts of equal length, without padding.

    Attributes:
        input_ids: token ids; the last token is the query.
        start: first token of the first fact.
        block_length: tokens per fact.
        blocks: number of facts.
        answer_ids: the attribute token of every fact, which are the named alternatives.
        target: which fact is asked about; the right token is ``answer_ids[p, target[p]]``.
        texts: the prompts as text, without the mark of beginning.
    """

    input_ids: Int64[Tensor, "prompt token"]
    start: int
    block_length: int
    blocks: int
    answer_ids: Int64[Tensor, "prompt block"]
    target: Int64[Tensor, " prompt"]
    texts: list[str]


def binding_prompts(
    tokenizer: Any, *, facts: int, count: int, seed: int = 0, template: str = "likes"
) -> BindingPrompts:
    """Draw prompts that bind names to attributes and ask for the attribute of one.

    Names differ within a prompt. So do attributes while there are enough of them; beyond that they repeat equally
    often. Each fact is asked about equally often over the prompts.

    Args:
        tokenizer: of the model in question; its mark of beginning, if it has one, opens every prompt.
        facts: facts per prompt, at least 2.
        count: number of prompts.
        seed: of everything that is drawn.
        template: ``"likes"`` (colours), ``"bought"`` (things) or ``"lives"`` (cities); see :data:`TEMPLATES`.

    Returns:
        :class:`BindingPrompts`.

    Raises:
        ValueError: if the template is unknown, a number is out of range, the tokenizer leaves too few words of one
            token, or facts do not come out equally long.
    """
    if template not in TEMPLATES:
        raise ValueError(f"template must be one of {', '.join(map(repr, TEMPLATES))}; got {template!r}")
    for name, value, least in (("facts", facts, 2), ("count", count, 1)):
        if isinstance(value, bool) or int(value) != value or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}; got {value}")
    wording = TEMPLATES[template]
    tokens = _Tokens(tokenizer)
    names, attribute_ids = list(tokens.single(words("names"))), tokens.single(words(wording.attributes))
    attributes = list(attribute_ids)
    if len(names) < facts:
        raise ValueError(
            f"every fact needs a name of its own, but only {len(names)} names are one token for this tokenizer and "
            f"facts={facts}; pass facts={len(names)} or fewer"
        )
    if len(attributes) < 2:
        raise ValueError(
            f"template {template!r} has {len(attributes)} attributes of one token for this tokenizer, and 2 are "
            f"needed; pass another template: {', '.join(map(repr, TEMPLATES))}"
        )
    fact_length = len(tokens.of(wording.fact.format(name=names[0], attribute=attributes[0])))

    generator = torch.Generator().manual_seed(seed)
    target = _balanced(facts, count, generator)
    input_ids, answer_ids, texts = [], [], []
    for asked in target.tolist():
        people = [names[i] for i in torch.randperm(len(names), generator=generator)[:facts].tolist()]
        given = [attributes[i] for i in _balanced(len(attributes), facts, generator).tolist()]
        pieces = [wording.fact.format(name=n, attribute=a) for n, a in zip(people, given, strict=True)]
        text = "".join(pieces) + wording.query.format(name=people[asked])
        ids = tokens.of(text)
        _check_blocks(ids, [tokens.of(piece) for piece in pieces], fact_length, pieces)
        input_ids.append(tokens.beginning + ids)
        answer_ids.append([attribute_ids[attribute] for attribute in given])
        texts.append(text)
    return BindingPrompts(
        input_ids=torch.tensor(input_ids),
        start=len(tokens.beginning),
        block_length=fact_length,
        blocks=facts,
        answer_ids=torch.tensor(answer_ids),
        target=target,
        texts=texts,
    )


@dataclass(frozen=True, kw_only=True)
class Choices:
    """How a model answers prompts when it may choose among the named alternatives.

    Attributes:
        correct: whether the right answer's logit is above all others'.
        log_probability: of the right answer, among the named alternatives; natural logarithm.
        alternatives: how many different ones each prompt names.
    """

    correct: Bool[Tensor, " prompt"]
    log_probability: Float[Tensor, " prompt"]
    alternatives: Int64[Tensor, " prompt"]

    @property
    def accuracy(self) -> float:
        """Fraction of prompts answered right."""
        return float(self.correct.double().mean())

    @property
    def chance(self) -> float:
        """Accuracy of a blind choice among the named alternatives."""
        return float((1 / self.alternatives.double()).mean())


def choice_accuracy(model: Any, prompts: BindingPrompts, *, batch_size: int | None = None) -> Choices:
    """Let a model choose among the attributes that each prompt names.

    Args:
        model: a Hugging Face causal language model; only the last token's logits are computed.
        prompts: from :func:`binding_prompts` with this model's tokenizer, or anything with its fields.
        batch_size: prompts per forward pass; by default about 4,096 tokens.

    Returns:
        :class:`Choices`, on the CPU.
    """
    device = model.get_input_embeddings().weight.device
    last_only = {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
    logits = []
    with torch.no_grad():
        for batch in prompts.input_ids.split(batch_size or max(1, 4096 // prompts.input_ids.shape[1])):
            output = model(batch.to(device), use_cache=False, **last_only)
            logits.append(output.logits[:, -1].double().cpu())
    named = torch.cat(logits).gather(1, prompts.answer_ids)
    # An attribute named twice is one alternative.
    earlier = torch.ones(prompts.answer_ids.shape[1], prompts.answer_ids.shape[1]).tril(-1).bool()
    repeated = ((prompts.answer_ids[:, :, None] == prompts.answer_ids[:, None, :]) & earlier).any(-1)
    right = named.gather(1, prompts.target[:, None])
    right_ids = prompts.answer_ids.gather(1, prompts.target[:, None])
    others = named.masked_fill(prompts.answer_ids == right_ids, -math.inf)
    return Choices(
        correct=right.squeeze(1) > others.amax(1),
        log_probability=right.squeeze(1) - named.masked_fill(repeated, -math.inf).logsumexp(1),
        alternatives=(~repeated).sum(1),
    )


class _Tokens:
    """What a tokenizer makes of text within a text."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.anchor = tokenizer(ANCHOR, add_special_tokens=False)["input_ids"]
        mark = getattr(tokenizer, "bos_token_id", None)
        self.beginning = [] if mark is None else [mark]

    def of(self, text: str) -> list[int]:
        """Tokens of text that follows other text."""
        return self.many([text])[0]

    def many(self, texts: list[str]) -> list[list[int]]:
        found = self.tokenizer([ANCHOR + text for text in texts], add_special_tokens=False)["input_ids"]
        return [ids[len(self.anchor) :] if ids[: len(self.anchor)] == self.anchor else [] for ids in found]

    def single(self, words: tuple[str, ...]) -> dict[str, int]:
        """Words that are one token behind a space, with their tokens."""
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        found = zip(words, self.many([" " + word for word in words]), strict=True)
        return {word: ids[0] for word, ids in found if len(ids) == 1 and ids[0] != unknown}


def _check_blocks(ids: list[int], facts: list[list[int]], length: int, texts: list[str]) -> None:
    """Refuse prompts whose facts are not blocks of equally many tokens, each the same wherever it stands."""
    for place, (fact, text) in enumerate(zip(facts, texts, strict=True)):
        found = ids[place * length : (place + 1) * length]
        if len(fact) != length or found != fact:
            raise ValueError(
                f"every fact must be the same {length} tokens wherever it stands, but this tokenizer makes {len(fact)} "
                f"of {text!r} alone and {len(found)} others within the prompt; pass another template or tokenizer"
            )


def _balanced(choices: int, count: int, generator: torch.Generator) -> Int64[Tensor, " count"]:
    """``count`` of ``choices`` numbers in random order, each equally often up to one."""
    rounds = [torch.randperm(choices, generator=generator) for _ in range(-(-count // choices))]
    return torch.cat(rounds)[:count]

"""Binding prompts: facts that give each name an attribute, and a question about one of them.

The kind of input on which Urrutia et al., *Decoupling Positional and Symbolic Attention in Transformers*, profile a
language model: ``Alice likes red. Bob likes blue. ... Bob likes``. Every fact is a block of the same number of tokens,
so that any two can be swapped, and every name and attribute is one token. The words and templates are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from posym_core.checks import require_counts
from posym_core.tasks.prompts import Prompts, PromptTokens, balanced, require_equal_blocks, words


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


class BindingPrompts(Prompts):
    """Prompts whose blocks are facts.

    ``answer_ids`` holds the attribute token of every fact and ``target`` the fact that is asked about.
    """


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
    require_counts(facts=(facts, 2), count=(count, 1))
    wording = TEMPLATES[template]
    tokens = PromptTokens(tokenizer)
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
    target = balanced(facts, count, generator)
    input_ids, answer_ids, texts = [], [], []
    for asked in target.tolist():
        people = [names[i] for i in torch.randperm(len(names), generator=generator)[:facts].tolist()]
        given = [attributes[i] for i in balanced(len(attributes), facts, generator).tolist()]
        pieces = [wording.fact.format(name=n, attribute=a) for n, a in zip(people, given, strict=True)]
        text = "".join(pieces) + wording.query.format(name=people[asked])
        ids = tokens.of(text)
        require_equal_blocks(ids, [tokens.of(piece) for piece in pieces], fact_length, pieces)
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

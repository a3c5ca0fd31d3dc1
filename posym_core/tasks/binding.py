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
from posym_core.tasks.prompts import (
    Draft,
    Prompts,
    PromptTokens,
    balanced,
    draft_prompts,
    shuffled,
    single_words,
    words,
)
from posym_core.tasks.registry import prompt_task


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


SAYS = "facts that give each name an attribute, and a question about one of them"

BindingPrompts = Prompts
"""Prompts whose blocks are facts: ``answer_ids`` holds the attribute of every fact, ``target`` the fact asked about."""


@prompt_task("binding", SAYS, place=10)
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
    names = list(single_words(tokens, "names", facts))
    attribute_ids = tokens.single(words(wording.attributes))
    attributes = list(attribute_ids)
    if len(attributes) < 2:
        raise ValueError(
            f"template {template!r} has {len(attributes)} attributes of one token for this tokenizer, and 2 are "
            f"needed; pass another template: {', '.join(map(repr, TEMPLATES))}"
        )
    generator = torch.Generator().manual_seed(seed)
    drafts = []
    for asked in balanced(facts, count, generator).tolist():
        people = shuffled(names, facts, generator)
        given = [attributes[i] for i in balanced(len(attributes), facts, generator).tolist()]
        drafts.append(
            Draft(
                before="",
                blocks=[wording.fact.format(name=n, attribute=a) for n, a in zip(people, given, strict=True)],
                after=wording.query.format(name=people[asked]),
                answers=[attribute_ids[attribute] for attribute in given],
                target=asked,
            )
        )
    return draft_prompts(tokens, drafts)


for wording in TEMPLATES:
    prompt_task(f"binding-{wording}", SAYS, place=11, template=wording)(binding_prompts)

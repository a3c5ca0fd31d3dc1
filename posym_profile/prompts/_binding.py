"""Binding prompts: facts that give each name an attribute, and a question about one of them.

The kind of input on which Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*,
profile a language model: ``Alice likes red. Bob likes blue. ... Bob likes``. Every fact is a block of the same number
of tokens, so that any two can be swapped, and every name and attribute is one token. The words and templates are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from posym_core._checks import require_counts
from posym_profile.prompts._drafts import (
    Draft,
    Prompts,
    PromptTokens,
    draft_prompts,
    draw_balanced,
    find_single_words,
    read_words,
    shuffle,
)
from posym_profile.prompts._prompt_tasks import register_prompt_task


@dataclass(frozen=True, kw_only=True)
class Template:
    """How facts and the question are worded; ``{name}`` and ``{attribute}`` stand for the words.

    Attributes:
        fact: one block; begins with a space.
        query: what follows the facts; its last token is the query and the attribute would come next.
        attributes: kind of word to choose attributes from, see :func:`read_words`.
        verb: the word of the fact that may vary.
        verbs: kind of word to choose it from.
    """

    fact: str
    query: str
    attributes: str
    verb: str
    verbs: str

    def write(self, verb: str) -> Template:
        """The same with another verb; its question begins a fact again, since ours asks with the verb's stem."""
        fact = self.fact.replace(f" {self.verb} ", f" {verb} ")
        again = " And so" if fact.endswith(".") else " and so"
        return replace(self, verb=verb, fact=fact, query=again + fact.partition(" {attribute}")[0])


TEMPLATES = {
    "likes": Template(
        fact=" {name} likes {attribute}.",
        query=" What color does {name} like? {name} likes",
        attributes="colours",
        verb="likes",
        verbs="verbs_now",
    ),
    "bought": Template(
        fact=" {name} bought {attribute},",
        query=" and so {name} bought",
        attributes="things",
        verb="bought",
        verbs="verbs_then",
    ),
    "lives": Template(
        fact=" {name} lives in {attribute}.",
        query=" Where does {name} live? {name} lives in",
        attributes="cities",
        verb="lives",
        verbs="verbs_of_places",
    ),
}


# Between the seeds of what a prompt says and of what stands in front of it.
SEED_APART = 1_000_003
SAYS = "facts that give each name an attribute, and a question about one of them"

BindingPrompts = Prompts
"""Prompts whose blocks are facts: ``answer_ids`` holds the attribute of every fact, ``target`` the fact asked about."""


@register_prompt_task("binding", SAYS, place=10)
def binding_prompts(
    tokenizer: Any,
    *,
    facts: int,
    count: int,
    seed: int = 0,
    template: str = "likes",
    lead: int = 0,
    vary_frame: bool = False,
) -> BindingPrompts:
    """Draw prompts that bind names to attributes and ask for the attribute of one.

    Names differ within a prompt. So do attributes while there are enough of them; beyond that they repeat equally
    often. Each fact is asked about equally often over the prompts. The facts and the question of a seed are the same
    whatever ``lead`` is.

    Args:
        tokenizer: of the model in question; its mark of beginning, if it has one, opens every prompt.
        facts: facts per prompt, at least 2.
        count: number of prompts.
        seed: of everything that is drawn.
        template: ``"likes"`` (colours), ``"bought"`` (things) or ``"lives"`` (cities); see :data:`TEMPLATES`.
        lead: facts of the same frame in front, which are never asked about and in no block. A model keeps count of the
            sentences of one frame that it has read, and the first ones stand out; behind some of them the blocks differ
            less in that, see :func:`posym_profile.origin_cube`.
        vary_frame: draw a verb for each fact, different ones while there are enough, and ask with the verb of the fact
            that is asked about, which then is a second cue beside the name.

    Returns:
        :class:`BindingPrompts`; ``start`` is behind the lead.

    Raises:
        ValueError: if the template is unknown, a number is out of range, the tokenizer leaves too few words of one
            token, or facts do not come out equally long.
    """
    if template not in TEMPLATES:
        raise ValueError(f"template must be one of {', '.join(map(repr, TEMPLATES))}; got {template!r}")
    require_counts(facts=(facts, 2), count=(count, 1), lead=(lead, 0))
    wording = TEMPLATES[template]
    tokens = PromptTokens(tokenizer)
    names = list(find_single_words(tokens, "names", facts))
    if len(names) < facts + lead:
        raise ValueError(
            f"every fact needs a name of its own, but only {len(names)} names are one token for this tokenizer and "
            f"facts={facts} with lead={lead}; pass lead={len(names) - facts} or less"
        )
    attribute_ids = tokens.single(read_words(wording.attributes))
    attributes = list(attribute_ids)
    if len(attributes) < 2:
        raise ValueError(
            f"template {template!r} has {len(attributes)} attributes of one token for this tokenizer, and 2 are "
            f"needed; pass another template: {', '.join(map(repr, TEMPLATES))}"
        )
    verbs = list(tokens.single(read_words(wording.verbs))) if vary_frame else [wording.verb]
    if vary_frame and len(verbs) < 2:
        raise ValueError(
            f"template {template!r} has {len(verbs)} verbs of one token for this tokenizer, and 2 are needed to vary "
            "the frame; pass vary_frame=False or another template"
        )
    # What is in front and how it is worded is drawn apart, so that the facts behind it stay the same.
    generator, apart = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed + SEED_APART)
    drafts = []
    for asked in draw_balanced(facts, count, generator).tolist():
        people = shuffle(names, facts + lead, generator)
        given = [attributes[i] for i in draw_balanced(len(attributes), facts, generator).tolist()]
        unused = [attribute for attribute in attributes if attribute not in given] or attributes
        given += [unused[i] for i in draw_balanced(len(unused), lead, apart).tolist()]
        worded = [wording] * (facts + lead)
        if vary_frame:
            worded = [wording.write(verbs[i]) for i in draw_balanced(len(verbs), facts + lead, apart).tolist()]
        told = [w.fact.format(name=n, attribute=a) for w, n, a in zip(worded, people, given, strict=True)]
        drafts.append(
            Draft(
                before="".join(told[facts:]),
                blocks=told[:facts],
                after=worded[asked].query.format(name=people[asked]),
                answers=[attribute_ids[attribute] for attribute in given[:facts]],
                target=asked,
            )
        )
    return draft_prompts(tokens, drafts)


register_prompt_task("binding-likes", SAYS, place=11, template="likes")(binding_prompts)
register_prompt_task("binding-bought", SAYS, place=11, template="bought")(binding_prompts)
register_prompt_task("binding-lives", SAYS, place=11, template="lives")(binding_prompts)
register_prompt_task("binding-with-lead", f"{SAYS}, behind eight more facts", place=12, lead=8)(binding_prompts)
register_prompt_task("binding-varied", f"{SAYS}, each with a verb of its own", place=12, vary_frame=True)(
    binding_prompts
)

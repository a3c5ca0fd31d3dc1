"""Binding prompts: facts that give each name an attribute, and a question about one of them.

The kind of input on which Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*,
profile a language model: ``Alice likes red. Bob likes blue. ... Bob likes``. Every fact is a block of the same number
of tokens, so that any two can be swapped, and every name and attribute is one token. The words and templates are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    shuffle,
)


@dataclass(frozen=True, kw_only=True)
class Template:
    """The wording of facts and of the question; ``{name}``, ``{verb}`` and ``{attribute}`` stand for the words.

    Attributes:
        fact: one block; begins with a space.
        attributes: kind of word to choose attributes from, see :func:`read_words`.
        verb: of every fact, unless verbs vary.
        verbs: kind of word to choose verbs from if they vary.
        question: what is asked in front of the fact that is left open; not with other verbs, whose stems it lacks.
    """

    fact: str
    attributes: str
    verb: str
    verbs: str
    question: str = ""

    def write_query(self, name: str, verb: str, *, question: bool) -> str:
        """Return what follows the facts, whose last token is the query: a fact again, up to its attribute."""
        opening = self.question if question else ""
        opening = opening or (" And so" if self.fact.endswith(".") else " and so")
        return (opening + self.fact.partition(" {attribute}")[0]).format(name=name, verb=verb)


TEMPLATES = {
    "likes": Template(
        fact=" {name} {verb} {attribute}.",
        attributes="colours",
        verb="likes",
        verbs="verbs_now",
        question=" What color does {name} like?",
    ),
    "bought": Template(fact=" {name} {verb} {attribute},", attributes="things", verb="bought", verbs="verbs_then"),
    "lives": Template(
        fact=" {name} {verb} in {attribute}.",
        attributes="cities",
        verb="lives",
        verbs="verbs_of_places",
        question=" Where does {name} live?",
    ),
}

# Between the seeds of what a prompt says and of what stands in front of it.
SEED_APART = 1_000_003


def binding_prompts(
    tokenizer: Any,
    *,
    facts: int,
    count: int,
    seed: int = 0,
    template: str = "likes",
    lead: int = 0,
    vary_frame: bool = False,
) -> Prompts:
    """Draw prompts that bind names to attributes and ask for the attribute of one.

    Names differ within a prompt. So do attributes while there are enough of them; beyond that they repeat equally
    often. Each fact is asked about equally often over the prompts. The facts and the question of a seed are the same
    whatever ``lead`` is.

    Args:
        tokenizer: of the model; its mark of beginning, if it has one, opens every prompt.
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
        :class:`Prompts` whose blocks are facts; ``start`` is behind the lead, ``answer_ids`` holds the attribute of
        every fact, and ``target`` is the fact asked about.

    Raises:
        ValueError: if the tokenizer leaves too few words of one token, or facts do not come out equally long.

    >>> prompts = binding_prompts(tokenizer, facts=4, count=8)  # doctest: +SKIP
    >>> prompts.texts[0]  # doctest: +SKIP
    ' Chad likes brown. Ana likes amber. Vera likes ivory. Katie likes olive. What color does Chad like? Chad likes'
    """
    if template not in TEMPLATES:
        raise ValueError(f"template must be one of {', '.join(map(repr, TEMPLATES))}; got {template!r}")
    require_counts(facts=(facts, 2), count=(count, 1), lead=(lead, 0))
    wording = TEMPLATES[template]
    tokens = PromptTokens(tokenizer)
    names = list(find_single_words(tokens, "names", facts + lead))
    attribute_ids = find_single_words(tokens, wording.attributes, 2)
    attributes = list(attribute_ids)
    verbs = list(find_single_words(tokens, wording.verbs, 2)) if vary_frame else [wording.verb]
    # What is in front and how it is worded is drawn apart, so that the facts behind it stay the same.
    generator, apart = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed + SEED_APART)
    drafts = []
    for asked in draw_balanced(facts, count, generator).tolist():
        people = shuffle(names, facts + lead, generator)
        given = [attributes[i] for i in draw_balanced(len(attributes), facts, generator).tolist()]
        unused = [attribute for attribute in attributes if attribute not in given] or attributes
        given += [unused[i] for i in draw_balanced(len(unused), lead, apart).tolist()]
        chosen = [wording.verb] * (facts + lead)
        if vary_frame:
            chosen = [verbs[i] for i in draw_balanced(len(verbs), facts + lead, apart).tolist()]
        words = zip(people, chosen, given, strict=True)
        sentences = [wording.fact.format(name=name, verb=verb, attribute=thing) for name, verb, thing in words]
        before, blocks = "".join(sentences[facts:]), sentences[:facts]
        after = wording.write_query(people[asked], chosen[asked], question=not vary_frame)
        answers = [attribute_ids[attribute] for attribute in given[:facts]]
        drafts.append(Draft(before=before, blocks=blocks, after=after, answers=answers, target=asked))
    return draft_prompts(tokens, drafts)

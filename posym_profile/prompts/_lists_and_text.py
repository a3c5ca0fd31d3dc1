"""Tasks for language models beside binding: by place, by key, by what followed, and running text.

Spoken to a language model, Index becomes "the first name in the list is", Retrieval becomes a key whose value was
given, and Partial induction becomes a word that stood before. The wordings are ours.

All functions take the model's tokenizer (its mark of beginning, if it has one, opens every prompt), the blocks per
prompt (``facts``), the number of prompts (``count``) and a ``seed`` of everything that is drawn. They raise
``ValueError`` if the tokenizer leaves too few words of one token or blocks of different lengths.
"""

from __future__ import annotations

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
    read_reference_text,
    shuffle,
)

PLACES = ("first", "second", "third", "fourth")
# Alternatives to the token that follows a window of running text, with it.
TEXT_ALTERNATIVES = 8


def index_prompts(tokenizer: Any, *, facts: int, count: int, seed: int = 0, place: str = "first") -> Prompts:
    """Draw lists of names with a question for the name in one place: `` Here is a list of names: Ann, Bob, ...``.

    Blocks are a name and its comma; the alternatives are all names in the list. ``place`` is one of :data:`PLACES`.
    """
    if place not in PLACES:
        raise ValueError(f"place must be one of {', '.join(map(repr, PLACES))}; got {place!r}")
    asked = PLACES.index(place)
    require_counts(facts=(facts, max(2, asked + 1)), count=(count, 1))
    tokens = PromptTokens(tokenizer)
    names = find_single_words(tokens, "names", facts)
    before, after = " Here is a list of names:", f" and so on. The {place} name in the list is"
    generator = torch.Generator().manual_seed(seed)
    drafts = []
    for _ in range(count):
        listed = shuffle(list(names), facts, generator)
        blocks, answers = [f" {name}," for name in listed], [names[name] for name in listed]
        drafts.append(Draft(before=before, blocks=blocks, after=after, answers=answers, target=asked))
    return draft_prompts(tokens, drafts)


def keyvalue_prompts(tokenizer: Any, *, facts: int, count: int, seed: int = 0) -> Prompts:
    """Draw lines of a key and its value, then a key: `` car: Ann``, line by line, and `` car:`` at the end.

    Blocks are lines; keys differ and so do values, which are the alternatives. Every line is asked about equally often.
    """
    require_counts(facts=(facts, 2), count=(count, 1))
    tokens = PromptTokens(tokenizer)
    keys, values = find_single_words(tokens, "things", facts), find_single_words(tokens, "names", facts)
    generator = torch.Generator().manual_seed(seed)
    drafts = []
    for asked in draw_balanced(facts, count, generator).tolist():
        listed, given = shuffle(list(keys), facts, generator), shuffle(list(values), facts, generator)
        blocks = [f" {key}: {value}\n" for key, value in zip(listed, given, strict=True)]
        answers = [values[value] for value in given]
        drafts.append(Draft(before="", blocks=blocks, after=f" {listed[asked]}:", answers=answers, target=asked))
    return draft_prompts(tokens, drafts)


def induction_prompts(tokenizer: Any, *, facts: int, count: int, seed: int = 0) -> Prompts:
    """Draw names in random order, a full stop, and one of them again: what came next?

    Blocks are names, all different, and all are alternatives. Every place that can be asked for is asked for equally
    often.
    """
    require_counts(facts=(facts, 2), count=(count, 1))
    tokens = PromptTokens(tokenizer)
    names = find_single_words(tokens, "names", facts)
    generator = torch.Generator().manual_seed(seed)
    drafts = []
    for asked in (1 + draw_balanced(facts - 1, count, generator)).tolist():
        listed = shuffle(list(names), facts, generator)
        blocks, answers = [f" {name}" for name in listed], [names[name] for name in listed]
        drafts.append(Draft(before="", blocks=blocks, after=f". {listed[asked - 1]}", answers=answers, target=asked))
    return draft_prompts(tokens, drafts)


def text_prompts(tokenizer: Any, *, facts: int, count: int, seed: int = 0) -> Prompts:
    """Draw windows of :func:`posym_profile.prompts.read_reference_text`, a token a block, one more as the query.

    Windows do not overlap. The alternatives are the token that follows and seven others that follow elsewhere.
    """
    require_counts(facts=(facts, 2), count=(count, 1))
    tokens = PromptTokens(tokenizer)
    stream = torch.tensor(tokenizer(read_reference_text(), add_special_tokens=False)["input_ids"])
    width = facts + 2
    windows = len(stream) // width
    if count > windows:
        raise ValueError(
            f"the text has {len(stream)} tokens, which are {windows} windows of {width}; pass count={windows} or fewer"
        )
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(windows, generator=generator)[:count]
    rows = stream[: windows * width].unflatten(0, (windows, width))[drawn]
    answers, targets = [], []
    for follows in rows[:, -1].tolist():
        others = stream[torch.randperm(len(stream), generator=generator)[: 64 * TEXT_ALTERNATIVES]]
        wrong = [token for token in dict.fromkeys(others.tolist()) if token != follows][: TEXT_ALTERNATIVES - 1]
        target = int(torch.randint(len(wrong) + 1, (), generator=generator))
        answers.append([*wrong[:target], follows, *wrong[target:]])
        targets.append(target)
    marks = torch.tensor([tokens.beginning] * count, dtype=torch.int64)
    return Prompts(
        input_ids=torch.cat([marks, rows[:, :-1]], dim=1),
        start=len(tokens.beginning),
        block_length=1,
        blocks=facts,
        answer_ids=torch.tensor(answers),
        target=torch.tensor(targets),
        texts=[tokenizer.decode(row) for row in rows[:, :-1].tolist()],
    )

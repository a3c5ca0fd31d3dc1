"""Tasks for language models beside binding: by place, by key, by what followed, and running text.

Spoken to a language model, Index becomes "the first name in the list is", Retrieval becomes a key whose value was
given, and Partial induction becomes a word that stood before. The wordings are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from posym_core.checks import require_counts
from posym_core.tasks.binding import TEMPLATES, binding_prompts
from posym_core.tasks.prompts import Prompts, PromptTokens, balanced, require_equal_blocks, words
from posym_core.tasks.text import reference_text

PLACES = ("first", "second", "third", "fourth", "last")
# Alternatives to the token that follows a window of running text, with it.
TEXT_ALTERNATIVES = 8


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One prompt in pieces: text before the blocks, the blocks, text after them, and the alternatives' tokens."""

    before: str
    blocks: Sequence[str]
    after: str
    answers: Sequence[int]
    target: int


def index_prompts(tokenizer: Any, *, facts: int, count: int, seed: int = 0, place: str = "first") -> Prompts:
    """Lists of names and a question for the name in one place: `` Here is a list of names: Ann, Bob, ...``.

    Args:
        tokenizer: of the model in question; its mark of beginning, if it has one, opens every prompt.
        facts: names in the list, each a block of name and comma.
        count: number of prompts.
        seed: of everything that is drawn.
        place: ``"first"``, ``"second"``, ``"third"``, ``"fourth"`` or ``"last"``.

    Returns:
        :class:`Prompts`; the alternatives are all names in the list.

    Raises:
        ValueError: if the place is unknown or beyond the list, a number is out of range, or the tokenizer leaves too
            few words of one token or blocks of different lengths.
    """
    if place not in PLACES:
        raise ValueError(f"place must be one of {', '.join(map(repr, PLACES))}; got {place!r}")
    require_counts(facts=(facts, 2), count=(count, 1))
    asked = facts - 1 if place == "last" else PLACES.index(place)
    if asked >= facts:
        raise ValueError(f"a list of {facts} has no {place} name; pass facts={asked + 1} or more")
    tokens = PromptTokens(tokenizer)
    names = _single_words(tokens, "names", facts)
    generator = torch.Generator().manual_seed(seed)
    drafts = []
    for _ in range(count):
        listed = _draw(list(names), facts, generator)
        drafts.append(
            Draft(
                before=" Here is a list of names:",
                blocks=[f" {name}," for name in listed],
                after=f" and so on. The {place} name in the list is",
                answers=[names[name] for name in listed],
                target=asked,
            )
        )
    return _prompts(tokens, drafts)


def keyvalue_prompts(tokenizer: Any, *, facts: int, count: int, seed: int = 0) -> Prompts:
    """Lines of a key and its value, then a key: `` car: Ann``, line by line, and `` car:`` at the end.

    Args:
        tokenizer: of the model in question.
        facts: lines, each a block; keys differ and so do values.
        count: number of prompts; every line is asked about equally often.
        seed: of everything that is drawn.

    Returns:
        :class:`Prompts`; the alternatives are all values.

    Raises:
        ValueError: if a number is out of range, or the tokenizer leaves too few words of one token or blocks of
            different lengths.
    """
    require_counts(facts=(facts, 2), count=(count, 1))
    tokens = PromptTokens(tokenizer)
    keys, values = _single_words(tokens, "things", facts), _single_words(tokens, "names", facts)
    generator = torch.Generator().manual_seed(seed)
    drafts = []
    for asked in balanced(facts, count, generator).tolist():
        listed, given = _draw(list(keys), facts, generator), _draw(list(values), facts, generator)
        drafts.append(
            Draft(
                before="",
                blocks=[f" {key}: {value}\n" for key, value in zip(listed, given, strict=True)],
                after=f" {listed[asked]}:",
                answers=[values[value] for value in given],
                target=asked,
            )
        )
    return _prompts(tokens, drafts)


def induction_prompts(tokenizer: Any, *, facts: int, count: int, seed: int = 0, shown: int = 1) -> Prompts:
    """Names in random order, a full stop, and some of them again: what came next?

    Args:
        tokenizer: of the model in question.
        facts: different names, each a block of one token.
        count: number of prompts; every place that can be asked for is asked for equally often.
        seed: of everything that is drawn.
        shown: how many names are repeated. With 1 the symbol alone tells the answer; more repeat the order as well.

    Returns:
        :class:`Prompts`; the alternatives are all names.

    Raises:
        ValueError: if a number is out of range, or the tokenizer leaves too few words of one token.
    """
    require_counts(facts=(facts, 2), count=(count, 1), shown=(shown, 1))
    if shown >= facts:
        raise ValueError(f"{shown} of {facts} names cannot be shown again and leave one to ask for; pass fewer")
    tokens = PromptTokens(tokenizer)
    names = _single_words(tokens, "names", facts)
    generator = torch.Generator().manual_seed(seed)
    drafts = []
    for asked in (shown + balanced(facts - shown, count, generator)).tolist():
        listed = _draw(list(names), facts, generator)
        drafts.append(
            Draft(
                before="",
                blocks=[f" {name}" for name in listed],
                after="." + "".join(f" {name}" for name in listed[asked - shown : asked]),
                answers=[names[name] for name in listed],
                target=asked,
            )
        )
    return _prompts(tokens, drafts)


def text_prompts(tokenizer: Any, *, facts: int, count: int, seed: int = 0) -> Prompts:
    """Windows of :func:`posym_core.tasks.text.reference_text`, one token a block and one more as the query.

    Args:
        tokenizer: of the model in question.
        facts: tokens before the query.
        count: number of windows; they do not overlap.
        seed: of which windows are drawn, and of the wrong alternatives.

    Returns:
        :class:`Prompts`; the alternatives are the token that follows and seven others that follow elsewhere.

    Raises:
        ValueError: if a number is out of range or the text is too short for so many windows.
    """
    require_counts(facts=(facts, 2), count=(count, 1))
    tokens = PromptTokens(tokenizer)
    stream = torch.tensor(tokenizer(reference_text(), add_special_tokens=False)["input_ids"])
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


def make_prompts(tokenizer: Any, task: str, *, facts: int, count: int, seed: int = 0) -> Prompts:
    """Prompts of a task by name.

    Args:
        tokenizer: of the model in question.
        task: one of :data:`PROMPT_TASKS`; ``"binding"`` is ``"binding-likes"``.
        facts: blocks per prompt.
        count: number of prompts.
        seed: of everything that is drawn.

    Raises:
        ValueError: if the task is unknown, or as its own function says.
    """
    require_task(task)
    return PROMPT_TASKS[task](tokenizer, facts=facts, count=count, seed=seed)


def require_task(task: str) -> None:
    """Refuse a name that is not of :data:`PROMPT_TASKS`."""
    if task not in PROMPT_TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, PROMPT_TASKS))}; got {task!r}")


def _prompts(tokens: PromptTokens, drafts: Sequence[Draft]) -> Prompts:
    """Tokenize drafts, and refuse blocks that are not the same tokens wherever they stand."""
    first = drafts[0]
    opening = tokens.of(first.before) if first.before else []
    length = len(tokens.of(first.blocks[0]))
    input_ids, texts = [], []
    for draft in drafts:
        text = draft.before + "".join(draft.blocks) + draft.after
        ids = tokens.of(text)
        require_equal_blocks(ids[len(opening) :], tokens.many(list(draft.blocks)), length, list(draft.blocks))
        input_ids.append(tokens.beginning + ids)
        texts.append(text)
    if len({len(ids) for ids in input_ids}) > 1:
        raise ValueError(
            "prompts must be equally long, but this tokenizer makes "
            f"{sorted({len(ids) for ids in input_ids})} tokens of them; pass another task or tokenizer"
        )
    return Prompts(
        input_ids=torch.tensor(input_ids),
        start=len(tokens.beginning) + len(opening),
        block_length=length,
        blocks=len(first.blocks),
        answer_ids=torch.tensor([list(draft.answers) for draft in drafts]),
        target=torch.tensor([draft.target for draft in drafts]),
        texts=texts,
    )


def _single_words(tokens: PromptTokens, kind: str, needed: int) -> dict[str, int]:
    """Words of one token, or an error that says how many there are."""
    found = tokens.single(words(kind))
    if len(found) < needed:
        raise ValueError(
            f"every block needs a word of its own, but only {len(found)} {kind} are one token for this tokenizer and "
            f"facts={needed}; pass facts={len(found)} or fewer"
        )
    return found


def _draw(choices: list[str], number: int, generator: torch.Generator) -> list[str]:
    """Different choices in random order."""
    return [choices[i] for i in torch.randperm(len(choices), generator=generator)[:number].tolist()]


def _binding(template: str) -> Callable[..., Prompts]:
    def make(tokenizer: Any, **options: Any) -> Prompts:
        return binding_prompts(tokenizer, template=template, **options)

    return make


PROMPT_TASKS: dict[str, Callable[..., Prompts]] = {
    "binding": binding_prompts,
    **{f"binding-{template}": _binding(template) for template in TEMPLATES},
    "index": index_prompts,
    "keyvalue": keyvalue_prompts,
    "induction": induction_prompts,
    "text": text_prompts,
}

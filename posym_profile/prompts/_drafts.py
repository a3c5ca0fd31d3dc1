"""Prompts with known answers for language models: what all tasks share.

Every task makes :class:`Prompts`: token ids of equal length, the blocks that may be swapped, and the alternatives a
model may choose from. The words are ours.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.resources import files
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

# Words are tokenized behind a full stop, because some tokenizers treat the beginning of a text apart.
ANCHOR = "."
# What a symbolic score can mean on bare lists.
ORIGIN = (
    "lists of one frame without a lead, so a high symbolic score can mean that a head follows how many such blocks "
    "came before a key, and not what its block says"
)


class OriginWarning(UserWarning):
    """Prompts are lists of one frame, where a symbolic score can be due to the origin of keys."""


@functools.cache
def read_words(kind: str) -> tuple[str, ...]:
    """Read the words of a kind, a section of ``words.txt``: ``"names"``, ``"colours"``, ``"things"``, ..."""
    kinds: dict[str, list[str]] = {}
    for line in (files("posym_profile.prompts") / "words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            current = kinds.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            current.extend(line.split())
    if kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(map(repr, kinds))}; got {kind!r}")
    return tuple(kinds[kind])


@functools.cache
def read_reference_text() -> str:
    """Read prose of the Python language reference, as ``help()`` shows it: a few hundred thousand characters.

    Topics stand in alphabetical order. Headings, tables, examples and lists are left out: a paragraph stays if it is
    made of sentences. The text differs between versions of Python, so results on it name theirs.
    """
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    paragraphs = (
        paragraph for name in sorted(topics) for paragraph in re.split(r"\n\s*\n", topics[name]) if _is_prose(paragraph)
    )
    # A topic may repeat what another says.
    return "\n".join(dict.fromkeys(" ".join(paragraph.split()) for paragraph in paragraphs))


def _is_prose(paragraph: str) -> bool:
    """Return whether a paragraph begins at the margin like a sentence, ends like one, and is not short."""
    return len(paragraph) > 120 and bool(re.match(r"[A-Z][a-z]* [a-z]", paragraph)) and paragraph.rstrip()[-1] in ".:"


@dataclass(frozen=True, kw_only=True, repr=False)
class Prompts:
    """Prompts of equal length, without padding.

    Attributes:
        input_ids: token ids; the last token is the query.
        start: first token of the first block.
        block_length: tokens per block.
        blocks: number of blocks.
        answer_ids: tokens that a model may choose from.
        target: which of them is right: ``answer_ids[p, target[p]]``.
        texts: the prompts as text, without the mark of beginning.
        names: what tables call the prompts.
    """

    input_ids: Int64[Tensor, "prompt token"]
    start: int
    block_length: int
    blocks: int
    answer_ids: Int64[Tensor, "prompt alternative"]
    target: Int64[Tensor, " prompt"]
    texts: list[str]
    names: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Prompts({len(self)} of {self.input_ids.shape[1]} tokens, {self.layout})"

    def __len__(self) -> int:
        return len(self.input_ids)

    def __getitem__(self, rows: slice) -> Prompts:
        """Return some of the prompts."""
        of_prompts = ("input_ids", "answer_ids", "target", "texts", "names")
        return replace(self, **{name: getattr(self, name)[rows] for name in of_prompts})

    @property
    def layout(self) -> dict[str, Any]:
        """Return ``start``, ``block_length`` and ``blocks``, as everything that looks at blocks takes them.

        >>> profile(model, prompts.input_ids, **prompts.layout)  # doctest: +SKIP
        """
        return {"start": self.start, "block_length": self.block_length, "blocks": self.blocks}


def are_bare_lists(prompts: Prompts) -> bool:
    """True if in every prompt all blocks share half of their tokens, and none of this stands in front.

    In such a list the blocks' keys differ in how many such sentences came before them, and heads read that; see
    :func:`posym_profile.origin_cube`.
    """
    start, length = prompts.start, prompts.block_length
    blocks = prompts.input_ids[:, start : start + prompts.blocks * length].unflatten(1, (prompts.blocks, length))
    shared = (blocks == blocks[:, :1]).all(1)
    repeats = 2 * shared.sum(1) >= length
    if start >= length:
        front = prompts.input_ids[:, start - length : start]
        repeats &= ~((front == blocks[:, 0]) | ~shared).all(1)
    return bool(repeats.all())


class PromptTokens:
    """Tokenizes pieces of a text as they stand within it: some tokenizers treat the beginning of a text apart.

    Args:
        tokenizer: of the model, as :func:`posym_profile.load_tokenizer` returns it.

    Attributes:
        beginning: the tokenizer's mark of beginning, which opens every prompt; empty if it has none.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.anchor = tokenizer(ANCHOR, add_special_tokens=False)["input_ids"]
        mark = getattr(tokenizer, "bos_token_id", None)
        self.beginning = [] if mark is None else [mark]

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text; none of one that this tokenizer joins with what stands before it."""
        rows = self.tokenizer([ANCHOR + text for text in texts], add_special_tokens=False)["input_ids"]
        return [ids[len(self.anchor) :] if ids[: len(self.anchor)] == self.anchor else [] for ids in rows]

    def select_single(self, words: Sequence[str]) -> dict[str, int]:
        """Return the words that are one token behind a space, with their tokens."""
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        rows = zip(words, self.tokenize([" " + word for word in words]), strict=True)
        return {word: ids[0] for word, ids in rows if len(ids) == 1 and ids[0] != unknown}


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One prompt in pieces of text, which are put together as they are, spaces and all.

    Attributes:
        before: in front of the blocks; as many tokens in all drafts, or ``""``.
        blocks: what may be swapped; each begins with the space that is in front of it.
        after: behind the blocks; its last token is the query.
        answers: tokens to choose from, see :meth:`PromptTokens.select_single`.
        target: which of them is right, from 0 on.
    """

    before: str
    blocks: Sequence[str]
    after: str
    answers: Sequence[int]
    target: int


def draft_prompts(tokens: PromptTokens, drafts: Sequence[Draft]) -> Prompts:
    """Tokenize drafts of equally many blocks and answers.

    Raises:
        ValueError: if blocks are not the same tokens wherever they stand, or prompts do not come out equally long.
    """
    shapes = sorted({(len(draft.blocks), len(draft.answers)) for draft in drafts})
    if len(shapes) != 1:
        raise ValueError(
            f"there must be a draft, and all must have equally many blocks and answers; got {len(drafts)} drafts with "
            f"{shapes}; make prompts of different shapes apart"
        )
    first = drafts[0]
    opening = tokens.tokenize([first.before])[0] if first.before else []
    length = len(tokens.tokenize(first.blocks[:1])[0])
    input_ids, texts = [], []
    for draft in drafts:
        text = draft.before + "".join(draft.blocks) + draft.after
        (ids,) = tokens.tokenize([text])
        for place, (alone, block) in enumerate(zip(tokens.tokenize(draft.blocks), draft.blocks, strict=True)):
            within = ids[len(opening) + place * length :][:length]
            if len(alone) != length or within != alone:
                raise ValueError(
                    f"every fact must be the same {length} tokens wherever it stands, but this tokenizer makes "
                    f"{len(alone)} of {block!r} alone and {len(within)} others within the prompt; pass another "
                    "template or tokenizer"
                )
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


def find_single_words(tokens: PromptTokens, kind: str, needed: int) -> dict[str, int]:
    """Return the words of a kind that are one token, with their tokens; refuse fewer than are needed."""
    words = tokens.select_single(read_words(kind))
    if len(words) < needed:
        raise ValueError(
            f"{needed} different {kind} are needed, but only {len(words)} are one token for this tokenizer; pass fewer "
            "facts or another task"
        )
    return words


def draw_balanced(choices: int, count: int, generator: torch.Generator) -> Int64[Tensor, " count"]:
    """Draw ``count`` of ``choices`` numbers in random order, each equally often up to one."""
    rounds = [torch.randperm(choices, generator=generator) for _ in range(-(-max(1, count) // choices))]
    return torch.cat(rounds)[:count]


def shuffle(choices: list[str], number: int, generator: torch.Generator) -> list[str]:
    """Draw ``number`` different choices in random order."""
    return [choices[i] for i in torch.randperm(len(choices), generator=generator)[:number].tolist()]

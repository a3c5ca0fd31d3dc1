"""Prompts with known answers for language models: what all tasks share.

Every task makes :class:`Prompts`: token ids of equal length, the blocks that may be swapped, and the alternatives a
model may choose from. The words are ours.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

# Words are tokenized behind a full stop, because some tokenizers treat the beginning of a text apart.
ANCHOR = "."


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
    """

    input_ids: Int64[Tensor, "prompt token"]
    start: int
    block_length: int
    blocks: int
    answer_ids: Int64[Tensor, "prompt alternative"]
    target: Int64[Tensor, " prompt"]
    texts: list[str]


class PromptTokens:
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


def require_equal_blocks(ids: list[int], facts: list[list[int]], length: int, texts: list[str]) -> None:
    """Refuse prompts whose facts are not blocks of equally many tokens, each the same wherever it stands."""
    for place, (fact, text) in enumerate(zip(facts, texts, strict=True)):
        found = ids[place * length : (place + 1) * length]
        if len(fact) != length or found != fact:
            raise ValueError(
                f"every fact must be the same {length} tokens wherever it stands, but this tokenizer makes {len(fact)} "
                f"of {text!r} alone and {len(found)} others within the prompt; pass another template or tokenizer"
            )


def balanced(choices: int, count: int, generator: torch.Generator) -> Int64[Tensor, " count"]:
    """``count`` of ``choices`` numbers in random order, each equally often up to one."""
    rounds = [torch.randperm(choices, generator=generator) for _ in range(-(-count // choices))]
    return torch.cat(rounds)[:count]

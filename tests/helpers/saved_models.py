"""Tiny random models in folders, as transformers saves them, with a tokenizer of one token a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from architectures import COMMON, build

from posym_profile.prompts._drafts import read_words

WORDS = ("<unk>", "<s>", "</s>", "Ann", "Bob", "Cy", "likes", "red", "blue", "green", ".", "and", "so")
TASK_WORDS = (
    *("What", "color", "does", "like", "?", "bought", ",", ":", "Here", "is", "a", "list", "of", "names", "on", "The"),
    *("first", "name", "in", "the"),
)
KINDS = ("names", "colours", "things", "cities")


def save_model(folder: Path, name: str = "Llama", *, beginning: bool = True, words: int = 16, **options: Any) -> Path:
    """Write a model of :data:`architectures.ROTARY` or ``REFUSED`` with a tokenizer that has so many words a kind."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    known = [*WORDS, *TASK_WORDS, *(word for kind in KINDS for word in read_words(kind)[:words])]
    known = list(dict.fromkeys(known))
    known += [f"word{number}" for number in range(len(known), COMMON["vocab_size"])]
    # The word of id 0 may end a prompt, so it is no padding.
    build(name, pad_token_id=None, vocab_size=len(known), **options).save_pretrained(folder)
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(known)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "<s>"} if beginning else {}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **marks).save_pretrained(folder)
    return folder

"""Tiny random models in folders, as transformers saves them, with a tokenizer of one token a word."""

from __future__ import annotations

from pathlib import Path

from architectures import COMMON, build

from posym_profile.prompts._drafts import read_words

WORDS = ("<unk>", "<s>", "</s>", "Ann", "Bob", "Cy", "likes", "red", "blue", "green", ".", "and", "so")
TASK_WORDS = (
    *("What", "color", "does", "like", "?", "bought", ",", ":", "Here", "is", "a", "list", "of", "names", "on", "The"),
    *("first", "name", "in", "the"),
)
KINDS = ("names", "colours", "things", "cities")


def save_model(folder: Path, name: str = "Llama", *, beginning: bool = True) -> Path:
    """Write a model of :data:`architectures.ROTARY` or ``REFUSED`` with its tokenizer."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    # The word of id 0 may end a prompt, so it is no padding.
    build(name, pad_token_id=None).save_pretrained(folder)
    known = [*WORDS, *TASK_WORDS, *(word for kind in KINDS for word in read_words(kind)[:16] if word not in WORDS)]
    assert len(set(known)) == len(known) <= COMMON["vocab_size"]
    known += [f"word{number}" for number in range(len(known), COMMON["vocab_size"])]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(known)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "<s>"} if beginning else {}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **marks).save_pretrained(folder)
    return folder

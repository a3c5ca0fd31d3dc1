"""Tiny random models in folders, as transformers saves them, with a tokenizer of one token a word."""

from __future__ import annotations

from pathlib import Path

from architectures import COMMON, build

WORDS = ("<unk>", "<s>", "</s>", "Ann", "Bob", "Cy", "likes", "red", "blue", "green", ".", "and", "so")


def save_model(folder: Path, name: str = "Llama", *, beginning: bool = True) -> Path:
    """Write a model of :data:`architectures.ROTARY` or ``REFUSED`` with its tokenizer."""
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    build(name).save_pretrained(folder)
    words = [*WORDS, *(f"word{number}" for number in range(len(WORDS), COMMON["vocab_size"]))]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "<s>"} if beginning else {}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **marks).save_pretrained(folder)
    return folder

"""Gemma's tokenizer from the vocabulary of a GGUF file, the same under every version of transformers.

Such a file holds Gemma's tokens and no merges. Some versions of transformers make a unigram model of the tokens'
scores, which cuts words into other tokens than the model learned with. The merges follow from the tokens alone, because
tokens are numbered in the order in which they were merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

SPACE = "\u2581"
MARKS = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
# Kinds of token in a GGUF file.
CONTROL, OWN = 3, 4
# What Gemma's own tokenizer makes of texts: words, digits, and space of several kinds.
KNOWN = {
    "Alice likes red. What does Bob like?": [2, 85305, 15975, 2604, 236761, 2900, 1677, 15943, 1133, 236881],
    "  x\t12\n\n": [2, 138, 236781, 255968, 236770, 236778, 108],
}


def gemma_tokenizer(tokens: Sequence[str], kinds: Sequence[int]) -> Tokenizer:
    """The tokenizer of a Gemma model.

    Args:
        tokens: ``tokenizer.ggml.tokens``, every token in the order of its id.
        kinds: ``tokenizer.ggml.token_type`` of each.
    """
    # In the file a token of several spaces has real ones.
    spelled = [SPACE * len(token) if token and not token.strip(" ") else token for token in tokens]
    vocabulary = {token: number for number, token in enumerate(spelled)}
    tokenizer = Tokenizer(
        BPE(vocab=vocabulary, merges=merges(vocabulary), fuse_unk=True, unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    bos = MARKS["bos_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, vocabulary[bos])]
    )
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in MARKS.values()])
    for kind, add in ((CONTROL, tokenizer.add_special_tokens), (OWN, tokenizer.add_tokens)):
        chosen = [token for token, its in zip(tokens, kinds, strict=True) if its == kind and token in vocabulary]
        add([AddedToken(token, normalized=False, special=kind == CONTROL) for token in chosen])
    return tokenizer


def require_known(tokenizer: Any) -> None:
    """Refuse a tokenizer that makes other ids of :data:`KNOWN` texts than Gemma's own.

    Raises:
        ValueError: with the versions that are installed.
    """
    for text, expected in KNOWN.items():
        found = tokenizer(text)["input_ids"]
        if found != expected:
            raise ValueError(
                f"the packaged model's tokenizer must make {expected} of {text!r}, but makes {found} with transformers "
                f"{version('transformers')} and tokenizers {version('tokenizers')}; install those of requirements.txt"
            )


def merges(vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Every pair of tokens that makes a token, in the order of what they make, the longest first part first."""
    found = []
    for token in vocabulary:
        pairs = [(token[:cut], token[cut:]) for cut in range(len(token) - 1, 0, -1)]
        found += [(left, right) for left, right in pairs if left in vocabulary and right in vocabulary]
    return found

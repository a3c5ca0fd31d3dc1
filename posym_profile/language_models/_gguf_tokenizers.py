"""Tokenizers from the vocabularies of GGUF files, the same under every version of transformers.

A file with Gemma's vocabulary holds no merges, and some versions of transformers make a unigram model of the tokens'
scores, which cuts words into other tokens than the model learned with. The merges follow from the tokens alone, because
tokens are numbered in the order in which they were merged. A file with SmolLM2's vocabulary holds its merges, but what
is cut off first, single digits, only by a name (``tokenizer.ggml.pre = smollm``) that transformers does not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

SPACE = "\u2581"
GEMMA_MARKS = {
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
SMOLLM_MARKS = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
}
# Kinds of token in a GGUF file.
CONTROL, OWN = 3, 4


def make_gemma_tokenizer(tokens: Sequence[str], kinds: Sequence[int]) -> Tokenizer:
    """Make the tokenizer of a Gemma model.

    Args:
        tokens: ``tokenizer.ggml.tokens``, every token in the order of its id.
        kinds: ``tokenizer.ggml.token_type`` of each.
    """
    # In the file a token of several spaces has real ones.
    spelled = [SPACE * len(token) if token and not token.strip(" ") else token for token in tokens]
    vocabulary = {token: number for number, token in enumerate(spelled)}
    tokenizer = Tokenizer(
        BPE(vocab=vocabulary, merges=list_merges(vocabulary), fuse_unk=True, unk_token="<unk>", byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    bos = GEMMA_MARKS["bos_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, vocabulary[bos])]
    )
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in GEMMA_MARKS.values()])
    _add_marked(tokenizer, [token if token in vocabulary else "" for token in tokens], kinds)
    return tokenizer


def make_smollm_tokenizer(tokens: Sequence[str], kinds: Sequence[int], merged: Sequence[str]) -> Tokenizer:
    """Make the tokenizer of a SmolLM model: byte pairs, with every digit a token of its own.

    Args:
        tokens: ``tokenizer.ggml.tokens``, every token in the order of its id.
        kinds: ``tokenizer.ggml.token_type`` of each.
        merged: ``tokenizer.ggml.merges``, the two parts of each with a space between them.
    """
    vocabulary = {token: number for number, token in enumerate(tokens)}
    pairs = [(left, right) for left, _, right in (pair.partition(" ") for pair in merged)]
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    _add_marked(tokenizer, tokens, kinds)
    return tokenizer


def require_known(tokenizer: Any, known: Mapping[str, list[int]]) -> None:
    """Refuse a tokenizer that makes other ids of known texts than the model's own."""
    for text, expected in known.items():
        ids = tokenizer(text)["input_ids"]
        if ids != expected:
            raise ValueError(
                f"the packaged model's tokenizer must make {expected} of {text!r}, but makes {ids} with transformers "
                f"{version('transformers')} and tokenizers {version('tokenizers')}; install those of requirements.txt"
            )


def list_merges(vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """List every pair of tokens that makes a token, in the order of what they make, the longest first part first."""
    merges: list[tuple[str, str]] = []
    for token in vocabulary:
        pairs = [(token[:cut], token[cut:]) for cut in range(len(token) - 1, 0, -1)]
        merges += [(left, right) for left, right in pairs if left in vocabulary and right in vocabulary]
    return merges


def _add_marked(tokenizer: Tokenizer, tokens: Sequence[str], kinds: Sequence[int]) -> None:
    """Take the tokens of control and the model's own out of what merges make."""
    for kind, add in ((CONTROL, tokenizer.add_special_tokens), (OWN, tokenizer.add_tokens)):
        chosen = [token for token, its in zip(tokens, kinds, strict=True) if its == kind and token]
        add([AddedToken(token, normalized=False, special=kind == CONTROL) for token in chosen])

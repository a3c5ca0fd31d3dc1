"""A packaged model that is converted in a second: a Llama of two layers with random weights, as a GGUF file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import gguf
import numpy as np

from posym_core.store._sealing import sha256
from posym_profile.language_models import _packaged as packaged

NAME = "smollm2-135m"
WIDTH, INNER, HEADS, LAYERS = 32, 64, 4, 2
TOKENS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", *"abcdefgh", "ab", "abc"]


def write_gguf(path: Path) -> None:
    """Write the model as a GGUF file, the same at each call."""
    generator = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(len(TOKENS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) - 3))
    writer.add_token_merges(["a b", "ab c"])
    square, wide, high = (WIDTH, WIDTH), (INNER, WIDTH), (WIDTH, INNER)
    shapes = {"token_embd": (len(TOKENS), WIDTH), "output_norm": (WIDTH,)}
    for layer in range(LAYERS):
        parts = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "ffn_gate": wide, "ffn_up": wide, "ffn_down": high}
        parts |= {f"attn_{part}": square for part in ("q", "k", "v", "output")}
        shapes |= {f"blk.{layer}.{part}": shape for part, shape in parts.items()}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", generator.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tiny_packaged(path: Path) -> packaged.Packaged:
    """The packaged model whose weights lie in ``path``, written there first if they do not."""
    if not path.exists():
        write_gguf(path)
    return dataclasses.replace(
        packaged.MODELS[NAME], package="gguf", sha256=sha256(path), source=lambda folder: path, room=1
    )

"""Convert a GGUF file to a folder of safetensors, configuration and tokenizer; run as a program of its own.

In a process of its own ``TQDM_DISABLE`` reaches every bar that transformers shows on the way, and a notebook none.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers.pre_tokenizers import Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer


def convert(source: Path, folder: Path, pre: str) -> None:
    """Write what transformers makes of a GGUF file, with weights in float32; ``pre`` is its ``tokenizer.ggml.pre``."""
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    if pre == "smollm":
        # Digits are cut off first, which the file says only by this name, and transformers does not read it.
        backend = tokenizer.backend_tokenizer
        backend.pre_tokenizer = Sequence([Digits(individual_digits=True), backend.pre_tokenizer])
    tokenizer.save_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    # A model from GGUF counts as quantised, which is not saved; its weights are not.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

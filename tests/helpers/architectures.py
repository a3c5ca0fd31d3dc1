"""Tiny random decoders of every kind that capture covers, and of the kinds that it refuses."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

COMMON = {
    "vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LLAMA = COMMON | {"intermediate_size": 96, "num_key_value_heads": 2}
HEADS_OF_16 = LLAMA | {"head_dim": 16, "sliding_window": 16}
GPT = {"vocab_size": 97, "n_positions": 2048, "n_embd": 64, "n_layer": 3, "n_head": 4}
LAYER_KINDS = ["sliding_attention", "sliding_attention", "full_attention"]
LATENT = {
    "num_key_value_heads": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "q_lora_rank": 24,
    "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "head_dim": 8,
    "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip


def rope(kind: str = "default", **parameters: Any) -> dict[str, Any]:
    return {"rope_parameters": dict(rope_theta=1e4, rope_type=kind, **parameters)}


YARN = rope("yarn", factor=4.0, original_max_position_embeddings=512)
YARN_OF_BOTH = rope("yarn", factor=4.0, original_max_position_embeddings=512, mscale=1.0, mscale_all_dim=1.0)
LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=256)
SLOWER = [1.0 + 0.5 * i for i in range(8)]
LONG = rope("longrope", short_factor=[1.0] * 8, long_factor=SLOWER, original_max_position_embeddings=32)
SCALED, PLAIN = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}, {"rope_type": "default", "rope_theta": 1e4}
TWO_BASES = {"rope_parameters": {"full_attention": SCALED, "sliding_attention": PLAIN}}
CHUNKED = {
    "num_local_experts": 2, "intermediate_size_mlp": 96, "num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0],
    "attention_chunk_size": 16,
}  # fmt: skip
ROTARY: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("LlamaConfig", LLAMA),
    "Llama linear": ("LlamaConfig", LLAMA | rope("linear", factor=4.0)),
    "Llama dynamic": ("LlamaConfig", LLAMA | {"max_position_embeddings": 24} | rope("dynamic", factor=4.0)),
    "Llama 3": ("LlamaConfig", LLAMA | LLAMA3),
    "Llama YaRN": ("LlamaConfig", LLAMA | YARN),
    "Mistral": ("MistralConfig", LLAMA | {"sliding_window": 16}),
    "Qwen2": ("Qwen2Config", LLAMA),
    "Qwen3": ("Qwen3Config", LLAMA | {"head_dim": 16}),
    "Gemma2": ("Gemma2Config", HEADS_OF_16 | {"query_pre_attn_scalar": 16, "attn_logit_softcapping": 5.0}),
    "Gemma3": ("Gemma3TextConfig", HEADS_OF_16 | TWO_BASES | {"query_pre_attn_scalar": 16, "layer_types": LAYER_KINDS}),
    "Phi": ("PhiConfig", LLAMA | rope(partial_rotary_factor=0.5)),
    "Phi3": ("Phi3Config", LLAMA),
    "Phi3 longrope": (
        "Phi3Config", LLAMA | {"max_position_embeddings": 1024, "original_max_position_embeddings": 32} | LONG
    ),
    "OLMo2": ("Olmo2Config", LLAMA),
    "StableLM": ("StableLmConfig", LLAMA | {"qk_layernorm": True} | rope(partial_rotary_factor=0.25)),
    "GPT-NeoX": ("GPTNeoXConfig", COMMON | {"intermediate_size": 96} | rope(partial_rotary_factor=0.25)),
    "GPT-J": ("GPTJConfig", GPT | {"rotary_dim": 8}),
    "CodeGen": ("CodeGenConfig", GPT | {"rotary_dim": 8}),
    "Cohere": ("CohereConfig", LLAMA | {"use_qk_norm": True}),
    "Cohere2 with NoPE layers": ("Cohere2Config", HEADS_OF_16 | {"layer_types": LAYER_KINDS}),
    "GLM": ("GlmConfig", LLAMA | {"head_dim": 16}),
    "gpt-oss": ("GptOssConfig", HEADS_OF_16 | {"num_local_experts": 4, "num_experts_per_tok": 2} | YARN),
    "DeepSeek-V2": ("DeepseekV2Config", LLAMA | LATENT),
    "DeepSeek-V3": ("DeepseekV3Config", LLAMA | LATENT | {"rope_interleave": True} | YARN_OF_BOTH),
    "Llama 4": ("Llama4TextConfig", LLAMA | CHUNKED | {"head_dim": 16}),
    "SmolLM3": ("SmolLM3Config", LLAMA | {"num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0]}),
    "HunYuan": ("HunYuanDenseV1Config", LLAMA | {"head_dim": 16}),
    "GPT-NeoX-Japanese": ("GPTNeoXJapaneseConfig", COMMON | {"intermediate_multiple_size": 2}),
    "Falcon": ("FalconConfig", COMMON | {"multi_query": True, "alibi": False, "new_decoder_architecture": False}),
    "Falcon grouped": ("FalconConfig", COMMON | {"num_kv_heads": 2, "alibi": False, "new_decoder_architecture": True}),
}  # fmt: skip

# What is refused, with words that the reason must hold.
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "GPT-2": ("GPT2Config", GPT, "no rotary encoding"),
    "OPT": ("OPTConfig", COMMON | {"ffn_dim": 96, "word_embed_proj_dim": 64}, "no rotary encoding"),
    "BLOOM": ("BloomConfig", {"vocab_size": 97, "hidden_size": 64, "n_layer": 3, "n_head": 4}, "BloomForCausalLM"),
    "MPT": (
        "MptConfig",
        {"vocab_size": 97, "d_model": 64, "n_layers": 3, "n_heads": 4, "max_seq_len": 2048},
        "MptForCausalLM",
    ),
    "Falcon with ALiBi": (
        "FalconConfig",
        COMMON | {"multi_query": True, "alibi": True, "new_decoder_architecture": False},
        "adds a bias",
    ),
    "Mamba": ("MambaConfig", {"vocab_size": 97, "hidden_size": 64, "num_hidden_layers": 2}, "no attention call"),
    "DiffLlama": ("DiffLlamaConfig", LLAMA, "subtracts two softmaxes"),
    "DeepSeek-V3.2": (
        "DeepseekV32Config",
        LLAMA | LATENT | {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 8},
        "sparse indexer",
    ),
    "Doge": ("DogeConfig", LLAMA, "adds a bias"),
}


def build(name: str, *, attention: str | None = None, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    """A model with random weights whose attention is neither uniform nor one-hot."""
    import transformers

    config_name, settings = ROTARY[name] if name in ROTARY else REFUSED[name][:2]
    config = getattr(transformers, config_name)(**(settings | options))
    chosen = {} if attention is None else {"attn_implementation": attention}
    return randomise(transformers.AutoModelForCausalLM.from_config(config, **chosen).eval().to(dtype))


def randomise(model: Any) -> Any:
    """Random weights that make attention neither uniform nor one-hot."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
            if "norm" in key:
                parameter.fill_(1).add_(0.2 * noise)
            elif key.endswith("sinks"):
                parameter.copy_(1 + noise)
            elif parameter.ndim >= 2:
                parameter.copy_(1.3 * noise / parameter.shape[-1] ** 0.5)
            else:
                parameter.copy_(0.15 * noise)
    return model


@functools.cache
def shared(name: str, attention: str | None = None) -> Any:
    """A model that tests share and leave as it is."""
    return build(name, attention=attention)


@functools.cache
def packaged(name: str = "gemma-3-270m") -> tuple[Any, Any]:
    """A packaged model and its tokenizer, loaded once for all tests."""
    from posym_profile.language_models._loading import load_model

    return load_model(name, device="cpu")


def tokens(prompts: int = 2, length: int = 44, seed: int = 0) -> torch.Tensor:
    """Random prompts."""
    return torch.randint(5, 97, (prompts, length), generator=torch.Generator().manual_seed(seed))


@contextmanager
def inputs_of(modules: list[nn.Module], change: Any) -> Iterator[None]:
    """Within the block, the hidden states that enter each module go through ``change(module, hidden)`` first."""

    def enter(module: nn.Module, args: tuple, options: dict) -> tuple[tuple, dict]:
        if "hidden_states" in options:
            return args, options | {"hidden_states": change(module, options["hidden_states"])}
        return (change(module, args[0]), *args[1:]), options

    hooks = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in modules]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Swapped:
    """The model's own code on contents in another order: each attention module's hidden states, truly permuted."""

    def __init__(self, model: Any, input_ids: torch.Tensor) -> None:
        from posym_profile.capture._capturing import capture

        self.model, self.input_ids, self.capture = model, input_ids, capture
        self.calls = capture(model, input_ids)
        self.modules = list(dict.fromkeys(call.module for call in self.calls))
        self.hidden: dict[nn.Module, torch.Tensor] = {}
        with inputs_of(self.modules, self.note):
            capture(model, input_ids)

    def note(self, module: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        self.hidden[module] = hidden
        return hidden

    def calls_in_order(self, order: torch.Tensor | list[int]) -> list[Any]:
        """The attention calls when position ``b`` holds content ``order[b]``."""
        with inputs_of(self.modules, lambda module, hidden: self.hidden[module][:, order]):
            return self.capture(self.model, self.input_ids)

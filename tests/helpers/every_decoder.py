"""Every causal decoder that transformers knows, built tiny: profiled exactly, or refused for a reason given here.

What is exact is judged by the model's own eager weights alone, with the hidden states that enter its attention modules
truly in another order; what capture and planes say is only compared with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from architectures import inputs_of, randomise
from torch import Tensor, nn
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from posym_profile.capture import capture
from posym_profile.language_models import UnsupportedModelError
from posym_profile.planes import find_planes
from posym_profile.scores._layer_heads import read_layer_heads

KINDS = list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
# Tokens of a prompt: shorter and longer than the sample of tokens by which planes are found.
LENGTHS = SHORT, LENGTH = 20, 40
EXACT = 1e-4
MOVED = 1e-3

# Small values of settings by their usual names; a kind's own follow.
TINY: dict[str, Any] = {
    "vocab_size": 97,
    **dict.fromkeys(["hidden_size", "d_model", "n_embd", "emb_dim", "dim_model_base"], 64),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers"], 4),
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"], 4),
    **dict.fromkeys(["decoder_attention_heads", "num_key_value_heads"], 4),
    **dict.fromkeys(["intermediate_size", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim", "dim_ff", "dff"], 96),
    **dict.fromkeys(["max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"], 512),
    "bos_token_id": 1, "decoder_start_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "sliding_window": 16,
    "head_dim": 16, "rotary_dim": 8, "q_lora_rank": 24, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16, "v_head_dim": 16, "index_n_heads": 2, "index_head_dim": 32, "first_k_dense_replace": 1,
    # Recurrent parts and towers for pictures and sounds.
    "mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "state_size": 8,
    "mamba_chunk_size": 16, "depth": 2, "num_mel_bins": 16,
    **dict.fromkeys(["linear_num_key_heads", "linear_num_value_heads"], 2),
    **dict.fromkeys(["linear_key_head_dim", "linear_value_head_dim"], 16),
    **dict.fromkeys(["num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"], 4),
    **dict.fromkeys(["num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"], 2),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size"], 32),
    **dict.fromkeys(["n_group", "topk_group", "n_shared_experts", "num_shared_experts"], 1),
}  # fmt: skip
HYBRID = {"num_hidden_layers": 4, "layer_types": ["linear_attention", "full_attention"] * 2}
MAMBA = {"mamba_n_heads": 16, "mamba_d_head": 8, "mamba_d_state": 8}
HEADS = ("num_attention_heads", "num_key_value_heads")
TWO_KINDS = {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2}
# What else a kind needs to be small, or to have the layers in question.
OWN: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"num_expert_group": 1, "num_experts_per_token": 2, **HYBRID},
    "bamba": {"attn_layer_indices": [1, 3], "num_hidden_layers": 4, "hidden_size": 64, **MAMBA},
    "blt": {"encoder_hash_byte_group_vocab": 97},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "dots3_note_text": {
        "num_hidden_layers": 4, "layer_types": ["indexed_attention"] * 4, **dict.fromkeys(HEADS, 4), "head_dim": 32,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 16,
    },
    "falcon_h1": {"mamba_d_ssm": 128, **MAMBA},
    "gemma3n_text": {
        "num_kv_shared_layers": 1, "intermediate_size": 96, "laurel_rank": 8, "activation_sparsity_pattern": None,
        "vocab_size_per_layer_input": 97, "hidden_size_per_layer_input": 8, **TWO_KINDS,
    },
    "gemma4_text": {
        "vocab_size_per_layer_input": 97, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 2, **TWO_KINDS,
    },
    "gemma4_unified_text": {"num_kv_shared_layers": 2, **TWO_KINDS},
    "gpt_neo": {"num_layers": 4, "attention_types": [[["global", "local"], 2]], "window_size": 16},
    "granitemoehybrid": {"position_embedding_type": "rope", "hidden_size": 64, **HYBRID, **MAMBA},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 8},
    "kimi_linear": HYBRID,
    "lfm2_moe": {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2},
    "longcat_flash": {"ffn_hidden_size": 96, "expert_ffn_hidden_size": 32, "zero_expert_num": 2},
    "mamba2": {"num_heads": 16, "head_dim": 8, "n_groups": 1, "choose_chunk_size": 16, "hidden_size": 64},
    "mimo_v2_flash": {"head_dim": 24, "num_attention_heads": 8, **TWO_KINDS},
    "qwen4_exp_text": {
        "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 64, "head_dim": 16,
        "indexer_compress_ratio": 2, "ngram_vocab_size_base": 97, "split_ngram_parts": 1, "hc_lowrank": 8,
    },
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
    "roc_bert": {"shape_vocab_size": 97, "pronunciation_vocab_size": 97},
    "roformer": {"is_decoder": True},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "attention_hidden_size": 128, "attention_head_dim": 32, "mamba_dt_rank": 8, "num_hidden_layers": 5,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
    "zamba2": {
        "num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2, "use_mem_rope": True,
        "mamba_d_state": 8, "choose_chunk_size": 16, "mamba_ngroups": 1, "n_mamba_heads": 2, "adapter_rank": 8,
    },
    "zaya": {"num_experts_per_tok": 1, "router_hidden_size": 32},
}  # fmt: skip
NO_ROTATION = (
    *("biogpt", "git", "gpt-sw3", "gpt2", "gpt_bigcode", "gpt_neo", "jamba", "kimi_linear", "nemotron_h"),
    *("openai-gpt", "opt", "zamba"),
)
# Their configurations are those of encoders unless they say is_decoder.
ENCODERS = (
    *("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert"),
    *("rembert", "roberta", "roberta-prelayernorm", "roc_bert", "xlm", "xlm-roberta", "xlm-roberta-xl", "xmod"),
)
NO_POSITIONS = (
    *("bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian", "mbart", "moss_transcribe_diarize"),
    *("pegasus", "plbart", "roformer", "whisper"),
)
NO_CALL = (
    *("cpmant", "falcon_mamba", "mamba", "mamba2", "mvp", "prophetnet", "reformer", "rwkv", "trocr", "xglm", "xlnet"),
    "xlstm",
)
# What is refused, with words that the reason must hold.
REFUSED: dict[str, str] = {
    **dict.fromkeys(NO_ROTATION, "has no rotary encoding"),
    **dict.fromkeys(ENCODERS, "attends as an encoder: its first token sees those behind it"),
    **dict.fromkeys(NO_POSITIONS, "takes no position_ids"),
    **dict.fromkeys(NO_CALL, "makes no attention call that could be captured"),
    **dict.fromkeys(["bloom", "doge", "inkling_text", "inkling2_text", "inkling2_loop_text", "mpt"], "adds a bias"),
    **dict.fromkeys(["blt", "deepseek_v4"], "so that keys do not stand for the prompt's tokens"),
    **dict.fromkeys(["musicgen", "musicgen_melody"], "has no single embedding of token ids"),
    "ctrl": "not as rotations of planes",
    "diffllama": "subtracts two softmaxes",
}
# Keys mix neighbouring tokens, so that hidden states in another order give other keys: swaps are of keys.
MIXED = ("zaya",)
# Kinds that transformers loads with their parts for pictures, and words of the refusal of those that are refused.
WITH_PICTURES = {
    **dict.fromkeys(["pix2struct", "t5gemma2", "udop", "vision-encoder-decoder"], "is an encoder-decoder"),
    "pp_formulanet": "has no single embedding of token ids",
    **dict.fromkeys(["aya_vision", "llava", "mllama", "qwen3_vl"], ""),
    # Without the types of tokens transformers builds it no mask for sdpa.
    "paligemma": "attends as an encoder",
}
# What needs more than its own configuration; its text model is a kind of its own where it has one.
NOT_BUILT = {
    "dots3_note": "its text model is dots3_note_text",
    "gemma3n": "needs the library timm; its text model is gemma3n_text",
    "gemma4_assistant": "has no default configuration; its text model is gemma4_text",
}
# Their eager attention returns weights from before the sink, which it applies to the output.
WITHOUT_SINK = ("granite_swa", "granitemoe_swa")


@dataclass(frozen=True)
class Outcome:
    """What became of one kind.

    Attributes:
        kind: name of the configuration.
        model: name of the class.
        reason: of the refusal; empty where the kind is profiled.
        layouts: planes that were found.
        still: largest difference to the model's own weights as the prompt stands.
        difference: the same with hidden states truly permuted.
        moved: how much the permutation changed the weights.
    """

    kind: str
    model: str
    reason: str = ""
    layouts: str = ""
    still: float = 0.0
    difference: float = 0.0
    moved: float = 0.0

    def check(self) -> None:
        """Raise AssertionError unless the kind is exact, or refused for the reason that is known of it."""
        if self.kind in REFUSED or self.reason:
            assert self.kind in REFUSED, f"{self.kind} is refused and not known to be: {self.reason}"
            assert REFUSED[self.kind] in self.reason, f"{self.kind}: {self.reason or 'accepted'}"
            assert self.model in self.reason
            return
        assert self.moved > MOVED, f"{self.kind}: the permutation changes nothing ({self.moved})"
        assert self.still < EXACT, f"{self.kind} is off by {self.still}"
        assert (self.difference < EXACT) != (self.kind in MIXED), f"{self.kind} is off by {self.difference}"

    def row(self) -> dict[str, str]:
        """The kind in the table of supported models, but for the version that it came with."""
        verdict = "refused" if self.reason else "swapped keys" if self.kind in MIXED else "exact"
        # The reason without module, ways out, and numbers of this small model.
        why = re.sub(r"^(?: \(\w+\)|, [\w.]+:)? ", "", self.reason.removeprefix(self.model))
        why = re.split(r"; | \(|, so that|: none", why)[0]
        planes = "; ".join(sorted({re.sub(r", \d+", "", layout) for layout in self.layouts.split("; ")}))
        return {"kind": self.kind, "model": self.model, "verdict": verdict, "why": why, "planes": planes}


def untried(kind: str) -> dict[str, str]:
    """The row of a kind that is not built."""
    model = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]
    return {"kind": kind, "model": model, "verdict": "not tried", "why": NOT_BUILT[kind], "planes": ""}


def tiny_config(cls: type) -> Any:
    """A small configuration of a class, with small ones of its parts."""
    own = OWN.get(cls.model_type, {})
    known = vars(cls(**own))
    values = {name: x for name, x in TINY.items() if name in known}
    if cls.model_type == "dbrx":
        # The class that it names for this part has not all that the model reads.
        values |= {
            "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
            "ffn_config": {"ffn_hidden_size": 32},
        }
        return cls(**values)
    values |= {name: tiny_config(type(x)) for name, x in known.items() if isinstance(x, transformers.PreTrainedConfig)}
    return cls(**values | own)


def tiny_model(kind: str) -> Any:
    """A model of a kind with random weights, on eager attention."""
    own: Any = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
    # A decoder may be a part of what its kind is called after.
    part = kind.startswith("musicgen")
    config = tiny_config(own.config_class if part else transformers.CONFIG_MAPPING[kind])
    make = own._from_config if part else transformers.AutoModelForCausalLM.from_config
    return randomise(make(config, attn_implementation="eager").eval())


def tiny_reader(kind: str) -> Any:
    """A model of pictures and text with random weights, or another class of a kind that is no decoder."""
    config = tiny_config(transformers.CONFIG_MAPPING[kind])
    make = transformers.AutoModelForImageTextToText if kind in WITH_PICTURES else transformers.AutoModel
    return randomise(make.from_config(config).eval())


class OwnWeights:
    """Weights of the last token that a model's attention modules return, on hidden states in any order."""

    def __init__(self, model: Any, modules: list[nn.Module], input_ids: Tensor) -> None:
        self.model, self.modules, self.input_ids = model, modules, input_ids
        self.hidden: dict[tuple[nn.Module, int], Tensor] = {}
        self.plain = self.run(None)

    def run(self, order: Tensor | None) -> list[Tensor]:
        """Weights ``[prompt, head, key]`` of each attention call, where position ``b`` holds content ``order[b]``."""
        runs: dict[nn.Module, int] = {}
        found: list[Tensor] = []

        def place(module: nn.Module, hidden: Tensor) -> Tensor:
            runs[module] = runs.get(module, -1) + 1
            if order is None:
                self.hidden[module, runs[module]] = hidden
            return self.hidden[module, runs[module]][:, slice(None) if order is None else order]

        def note(module: nn.Module, args: tuple, output: Any) -> None:
            parts = output if isinstance(output, tuple) else (output,)
            square = [
                x
                for x in parts
                if isinstance(x, Tensor) and x.ndim == 4 and x.shape[-2:] == 2 * self.input_ids.shape[1:]
            ]
            assert len(square) == 1, f"{type(module).__name__} returns no weights"
            found.append(square[0][:, :, -1].float())

        hooks = [module.register_forward_hook(note) for module in self.modules]
        backbone = getattr(self.model, "base_model", self.model)
        try:
            with inputs_of(self.modules, place), torch.no_grad():
                backbone(self.input_ids, output_attentions=True, use_cache=False)
        finally:
            for hook in hooks:
                hook.remove()
        return found


def outcome(kind: str, length: int = LENGTH) -> Outcome:
    """Build, profile and compare one kind on prompts of a length."""
    model = tiny_model(kind)
    name = type(model).__name__
    ids = torch.randint(5, 97, (2, length), generator=torch.Generator().manual_seed(0))
    try:
        planes, calls = find_planes(model, length), capture(model, ids)
    except UnsupportedModelError as error:
        return Outcome(kind, name, str(error))
    own = OwnWeights(model, list(dict.fromkeys(call.module for call in calls)), ids)
    order = torch.cat(
        [torch.randperm(length - 1, generator=torch.Generator().manual_seed(1)), torch.tensor([length - 1])]
    )
    off, moved = [0.0, 0.0], 0.0
    for call, found, plain, after in zip(calls, planes, own.plain, own.run(order), strict=True):
        heads = read_layer_heads(call, found)
        C = heads.cross_logits()
        for way, (contents, weights) in enumerate(((torch.arange(length), plain), (order, after))):
            logits = C[..., contents, torch.arange(length)]
            if heads.softcap is not None:
                logits = heads.softcap * torch.tanh(logits / heads.softcap)
            logits = logits.masked_fill(~heads.visible, -torch.inf)
            if heads.sinks is not None:
                logits = torch.cat([logits, heads.sinks[None, :, :, None].expand(*logits.shape[:-1], 1)], -1)
            expected = logits.softmax(-1)[..., :length].flatten(1, 2)
            if kind in WITHOUT_SINK:
                expected = expected / expected.sum(-1, keepdim=True)
            off[way] = max(off[way], float((expected - weights).abs().max()))
        moved = max(moved, float((after - plain).abs().max()))
    layouts = dict.fromkeys(found.description.split(" of ")[0] for found in planes)
    return Outcome(kind, name, "", "; ".join(layouts), off[0], off[1], moved)

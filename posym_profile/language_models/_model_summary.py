"""What a model's configuration says of it: size, rotary bases, attention windows. Nothing is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from posym_profile.language_models._loading import load_config


@dataclass(frozen=True, kw_only=True)
class ModelSummary:
    """A decoder as its configuration describes it.

    Attributes:
        architecture: the class of transformers, ``"LlamaForCausalLM"``.
        parameters: their number, tied ones counted once.
        layers: number of layers.
        rope_bases: of its rotary encodings, ascending; empty if the configuration names none.
        windows: tokens that each layer sees; None for all.
    """

    architecture: str
    parameters: int
    layers: int
    rope_bases: tuple[float, ...]
    windows: tuple[int | None, ...]


def summarize_model(name: str) -> ModelSummary:
    """Summarize a model by its name, as :func:`posym_profile.load_model` takes it."""
    from transformers import AutoModelForCausalLM

    config = load_config(name)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return summarize_loaded(model)


def summarize_loaded(model: Any) -> ModelSummary:
    """Summarize a model that is loaded."""
    config = get_text_config(model.config)
    return ModelSummary(
        architecture=type(model).__name__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layers=int(config.num_hidden_layers),
        rope_bases=_bases(getattr(config, "rope_parameters", None)),
        windows=list_windows(config),
    )


def _bases(rope: Any) -> tuple[float, ...]:
    """Return the bases that are named, of all layers' or by kind of layer."""
    if not isinstance(rope, dict):
        return ()
    if "rope_theta" in rope:
        return (float(rope["rope_theta"]),)
    return tuple(sorted({base for part in rope.values() for base in _bases(part)}))


def get_text_config(config: Any) -> Any:
    """Return the text part of a configuration; what has no parts, or is none, as it is."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def list_windows(config: Any) -> tuple[int | None, ...]:
    """List how many tokens each layer sees, by the text part of a configuration; None for all."""
    layers = int(config.num_hidden_layers)
    sliding, chunk = getattr(config, "sliding_window", None), getattr(config, "attention_chunk_size", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        # Mistral's first models name a window and no kinds of layers.
        kinds = ["sliding_attention" if sliding else "full_attention"] * layers
    sizes = {"sliding_attention": sliding, "chunked_attention": chunk}
    return tuple(sizes.get(kind) for kind in kinds)

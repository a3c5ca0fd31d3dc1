"""Read what a model's configuration says of it: its text part, its attention windows. Nothing is loaded."""

from __future__ import annotations

from typing import Any


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

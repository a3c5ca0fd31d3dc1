"""Read the text part of a model's configuration."""

from __future__ import annotations

from typing import Any


def get_text_config(config: Any) -> Any:
    """Return the text part of a configuration; what has no parts, or is none, as it is."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config

"""Which models can be looked into, as far as their configuration says: decoders of text."""

from __future__ import annotations

from typing import Any

WAY_OUT = "use a decoder with rotary attention"


class UnsupportedModelError(ValueError):
    """The model's attention is not a softmax over rotary logits that could be captured; the message says why."""


def check_decoder(config: Any, name: str) -> None:
    """Refuse an encoder-decoder: what its decoder does depends on a second sequence, which a prompt does not have.

    Raises:
        UnsupportedModelError: if the configuration is that of one.
    """
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModelError(
            f"{name} is an encoder-decoder ({config.model_type}), whose decoder also attends to another sequence; "
            f"{WAY_OUT}"
        )


def check_loadable(config: Any, name: str) -> None:
    """Refuse what transformers loads as no causal decoder, without its list of all that it does.

    Raises:
        UnsupportedModelError: if the configuration is that of an encoder, an encoder-decoder, or a model that
            transformers loads together with its parts for pictures alone.
    """
    from transformers.models.auto import modeling_auto

    check_decoder(config, name)
    kind = config.model_type
    if kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return
    if kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise UnsupportedModelError(
            f"{name} is a vision-language model ({kind}), which transformers does not load as a decoder of text; load "
            "it by transformers.AutoModelForImageTextToText and give the model to posym_core.profile, or "
            f"{WAY_OUT}"
        )
    raise UnsupportedModelError(
        f"{name} is no decoder of text ({kind}, an encoder or a model for other inputs): transformers has no causal "
        f"language model of this kind; {WAY_OUT}"
    )

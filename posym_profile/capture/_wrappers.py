"""Take Hugging Face models out of what other libraries wrap around them.

Nothing is imported for it: a wrapper is known by its class and the library that the class belongs to.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from posym_profile.language_models._refusals import check_uncompiled, make_unsupported_error

# Kinds of PEFT that choose or share weights in a forward pass of their own, beside the model's.
OWN_PASSES = {"POLY", "SHADOW", "XLORA"}


def unwrap(model: Any) -> nn.Module:
    """Return the Hugging Face model in a wrapper, or in several around each other; anything else as it is.

    Known are ``torch.compile``, PEFT models, ``LanguageModel`` and the like of nnsight, and ``TransformerBridge`` of
    TransformerLens. What a wrapper put into the model stays there: adapters act, and TransformerLens' own attention is
    what runs.

    Raises:
        UnsupportedModelError: if the wrapper does more than its model, so that this would be another model: learned
            prompts or prefixes, adapters that are mixed on the way, edits of nnsight.
    """
    while (inside := _find_inside(model)) is not None:
        model = inside
    return model


def get_text_config(config: Any) -> Any:
    """Return the text part of a configuration; what has no parts, or is none, as it is."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def unwrap_to_edit(model: Any) -> nn.Module:
    """Return what :func:`unwrap` finds; raise if the model or a part of it is compiled."""
    inside = unwrap(model)
    for part in (model, inside):
        if isinstance(part, nn.Module):
            check_uncompiled(part)
    return inside


def _find_inside(model: Any) -> Any:
    """Return what a wrapper wraps; None if it is none."""
    name = type(model).__name__
    kinds = {(cls.__module__.partition(".")[0], cls.__name__) for cls in type(model).__mro__}
    if ("torch", "OptimizedModule") in kinds:
        return model._orig_mod
    if ("nnsight", "Envoy") in kinds:
        if model._edits:
            why = f"holds {len(model._edits)} edits, which act in traces only"
            raise make_unsupported_error(name, why, "call clear_edits(), or alter the model itself")
        return model._module
    if kinds & {("peft", "PeftModel"), ("peft", "PeftMixedModel")}:
        _check_adapters(model, name)
        return model.base_model.model
    if ("transformer_lens", "TransformerBridge") in kinds:
        return model.original_model
    return None


def _check_adapters(model: Any, name: str) -> None:
    """Raise if an active adapter acts elsewhere than in the model's layers."""
    active = model.active_adapters
    for adapter in [active] if isinstance(active, str) else active:
        config = model.peft_config[adapter]
        kind = str(getattr(config.peft_type, "value", config.peft_type))
        if config.is_prompt_learning or kind in OWN_PASSES or getattr(config, "alora_invocation_tokens", None):
            raise make_unsupported_error(
                f"{name}:",
                f"adapter {adapter!r} ({kind}) does not act in the model's layers alone",
                "profile its base model, or one with adapters such as LoRA",
            )

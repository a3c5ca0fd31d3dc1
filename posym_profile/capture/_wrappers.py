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
            prompts or prefixes, adapters that are mixed on the way, edits of nnsight, soft-caps and sinks in the
            attention of TransformerLens; or if no model is in reach, as behind a vLLM engine.
    """
    while True:
        inside = _find_inside(model)
        if inside is None:
            return model
        model = inside


def unwrap_to_edit(model: Any) -> nn.Module:
    """Return what :func:`unwrap` finds; raise if the model or a part of it is compiled."""
    inside = unwrap(model)
    for part in (model, inside):
        if isinstance(part, nn.Module):
            check_uncompiled(part)
    return inside


def _find_inside(model: Any) -> Any:
    """Return what a wrapper wraps; None if it is none."""
    classes, name = type(model).__mro__, type(model).__name__
    kinds = {(cls.__module__.partition(".")[0], cls.__name__) for cls in classes}
    if any("vllm" in cls.__module__.split(".") for cls in classes):
        raise make_unsupported_error(
            name,
            "is an engine of vLLM, whose kernels attend in processes of their own, so that no queries and keys can be "
            "read",
            "profile the same checkpoint by posym_profile.load_model(name)",
        )
    if ("torch", "OptimizedModule") in kinds:
        return model._orig_mod
    if ("nnsight", "Envoy") in kinds:
        return _in_nnsight(model, name)
    if kinds & {("peft", "PeftModel"), ("peft", "PeftMixedModel")}:
        return _in_peft(model, name)
    if ("transformer_lens", "TransformerBridge") in kinds:
        return _in_bridge(model, name)
    return None


def _in_nnsight(model: Any, name: str) -> nn.Module:
    if not getattr(model, "dispatched", True):
        raise make_unsupported_error(name, "has not loaded its weights yet", "call dispatch() first")
    if model._edits:
        why = f"holds {len(model._edits)} edits, which act in traces only"
        raise make_unsupported_error(name, why, "call clear_edits(), or alter the model itself")
    return model._module


def _in_peft(model: Any, name: str) -> nn.Module:
    active = model.active_adapters
    for adapter in [active] if isinstance(active, str) else active:
        config = model.peft_config[adapter]
        kind = str(getattr(config.peft_type, "value", config.peft_type))
        if config.is_prompt_learning:
            reason = "puts learned tokens or keys in front of the prompt"
        elif kind in OWN_PASSES or getattr(config, "alora_invocation_tokens", None):
            reason = "acts in a forward pass of its own"
        else:
            continue
        raise make_unsupported_error(
            f"{name}:",
            f"adapter {adapter!r} ({kind}) {reason}, and not in the model's layers",
            "profile its base model, or one with adapters such as LoRA",
        )
    return model.base_model.model


def _in_bridge(model: Any, name: str) -> nn.Module:
    try:
        inside = model.original_model
    except AttributeError:
        why = f"runs its model elsewhere, by {type(model._driver).__name__}"
        raise make_unsupported_error(name, why, "boot it by boot_transformers") from None
    for module in inside.modules():
        for what in ("attn_logit_softcapping", "sinks"):
            if getattr(module, what, None) is not None:
                raise make_unsupported_error(
                    f"{name} of {type(inside).__name__}",
                    f"attends by code of its own, from which {what} cannot be read",
                    "load the model by posym_profile.load_model, and profile that",
                )
    return inside

"""Refuse models that would give a wrong number: each refusal names the model, the reason and the way out."""

from __future__ import annotations

from typing import Any

from torch import nn

WAY_OUT = "use a decoder with rotary attention"
PLAIN = "use a model with plain rotary attention"


class UnsupportedModelError(ValueError):
    """The model's attention is not a softmax over rotary logits that could be captured; the message says why."""


def make_unsupported_error(model: Any, why: str, way: str = WAY_OUT, *, module: Any = None) -> UnsupportedModelError:
    """Return the refusal of a model, or of what is called so, for what it does or, if given, one of its modules."""
    name = model if isinstance(model, str) else type(model).__name__
    at = "" if module is None else f" ({type(module).__name__})"
    return UnsupportedModelError(f"{name}{at} {why}; {way}")


def check_decoder(config: Any, name: str) -> None:
    """Raise if the model is an encoder-decoder: what its decoder does depends on a second sequence."""
    if getattr(config, "is_encoder_decoder", False):
        raise make_unsupported_error(
            name, f"is an encoder-decoder ({config.model_type}), whose decoder also attends to another sequence"
        )


def check_attention_kind(model: nn.Module) -> None:
    """Raise if a model's heads are not one softmax over their keys each."""
    for module in model.modules():
        if "lambda_q1" in module._parameters:  # named_parameters takes a hundredth of a short pass
            way = "use a model with ordinary softmax attention"
            raise make_unsupported_error(model, "subtracts two softmaxes from each other", way, module=module)


def check_uncompiled(model: nn.Module) -> None:
    """Raise if a model, or a part of it, is compiled: hooks and edits do not reach code that was compiled before."""
    if any(module._compiled_call_impl or "_orig_mod" in module._modules for module in model.modules()):
        raise make_unsupported_error(model, "is compiled by torch.compile", "pass the model itself")

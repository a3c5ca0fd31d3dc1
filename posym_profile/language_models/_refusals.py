"""Refuse models that would give a wrong number: each refusal names the model, the reason and the way out."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from torch import nn

WAY_OUT = "use a decoder with rotary attention"
PLAIN = "use a model with plain rotary attention"
# What the sweep over every causal decoder of transformers found: each kind was built small with random weights and
# compared with its own attention weights on keys that were truly moved, or refused.
TABLE = Path(__file__).with_name("decoders.json")
# Values of settings with which a profile refuses a model of any kind, and why.
REFUSED_SETTINGS: dict[str, tuple[tuple[Any, ...], str]] = {
    "is_causal": ((False,), "attends as an encoder"),
    "use_bidirectional_attention": ((True,), "attends as an encoder"),
    "alibi": ((True,), "adds a bias to its logits"),
    "position_embedding_type": ((None, "absolute", "nope"), "has no rotary encoding"),
}


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


def find_refused_setting(config: Any) -> str | None:
    """Return why a configuration is refused whatever its kind, None if it is not."""
    found = ((why, name) for name, (values, why) in REFUSED_SETTINGS.items() if getattr(config, name, "") in values)
    return next((f"{why} ({name} in its configuration)" for why, name in found), None)


@functools.cache
def read_supported_decoders() -> dict[str, Any]:
    """Read the results of the sweep: ``transformers``, the version, and ``decoders``, a row a kind."""
    return json.loads(TABLE.read_text("utf-8"))


def check_configuration(model: nn.Module) -> None:
    """Raise if a model's configuration, or its kind in the sweep, is refused: known without running it."""
    config = getattr(model, "config", None)
    refused = {row["kind"]: row["why"] for row in read_supported_decoders()["decoders"] if row["verdict"] == "refused"}
    if why := find_refused_setting(config) or refused.get(getattr(config, "model_type", None)):
        raise make_unsupported_error(model, why)


def name_module(model: nn.Module, module: nn.Module) -> str:
    """Return the name of a module within a model."""
    return next((name for name, part in model.named_modules() if part is module), type(module).__name__)


def check_uncompiled(model: nn.Module) -> None:
    """Raise if a model, or a part of it, is compiled: hooks and edits do not reach code that was compiled before."""
    if any(module._compiled_call_impl or "_orig_mod" in module._modules for module in model.modules()):
        raise make_unsupported_error(model, "is compiled by torch.compile", "pass the model itself")

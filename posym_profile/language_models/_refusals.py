"""Refuse models that would give a wrong number: each refusal names the model, the reason and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from posym_core._checks import require

WAY_OUT = "use a decoder with rotary attention"
PLAIN = "use a model with plain rotary attention"


class UnsupportedModelError(ValueError):
    """The model's attention is not a softmax over rotary logits that could be captured; the message says why."""


def make_unsupported_error(model: Any, why: str, way: str = WAY_OUT, *, module: Any = None) -> UnsupportedModelError:
    """Make the refusal of a model, or of what is called so, for what it does or, if given, one of its modules."""
    name = model if isinstance(model, str) else type(model).__name__
    at = "" if module is None else f" ({type(module).__name__})"
    return UnsupportedModelError(f"{name}{at} {why}; {way}")


def check_decoder(config: Any, name: str) -> None:
    """Raise if the model is an encoder-decoder: what its decoder does depends on a second sequence."""
    if getattr(config, "is_encoder_decoder", False):
        raise make_unsupported_error(
            name, f"is an encoder-decoder ({config.model_type}), whose decoder also attends to another sequence"
        )


def check_loadable(config: Any, name: str) -> None:
    """Raise if transformers loads no causal decoder of this kind; encoders, too, it loads by the same classes."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    check_decoder(config, name)
    kind = config.model_type
    encoder = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if encoder or kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise make_unsupported_error(name, f"is no decoder of text ({kind})")


def check_position_settings(config: Any, name: str) -> None:
    """Raise if a kind that can be rotary is not with these settings; a profile finds the same when it is run."""
    if getattr(config, "is_causal", True) is False or getattr(config, "use_bidirectional_attention", False) is True:
        raise make_unsupported_error(
            name, "attends as an encoder (is_causal or use_bidirectional_attention in its configuration)"
        )
    if getattr(config, "alibi", False):
        raise make_unsupported_error(
            name, "adds a bias to its logits (alibi in its configuration) in place of a rotation", PLAIN
        )
    if getattr(config, "position_embedding_type", "rope") not in ("rope", "rotary"):
        raise make_unsupported_error(
            name, "has no rotary encoding (position_embedding_type in its configuration is not rope)"
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


def check_apart(model: Any, modules: Sequence[nn.Module]) -> None:
    """Raise if layers share one attention module, by the modules that make the attention calls."""
    if len(set(modules)) < len(modules):
        raise make_unsupported_error(
            model,
            "runs one attention module several times in a pass, so that its layers cannot be operated on apart",
            "use a model whose layers have attention modules of their own",
        )


def check_tokens(model: Any, module: nn.Module, queries: int, keys: int, tokens: int) -> None:
    """Raise if a call has not one query and one key for each of the prompt's tokens."""
    if not queries == keys == tokens:
        raise make_unsupported_error(
            model,
            f"has {queries} queries and {keys} keys in a pass over {tokens} tokens (keys are compressed or added, or "
            "belong to another sequence), so that keys do not stand for the prompt's tokens",
            PLAIN,
            module=module,
        )


def check_sparse(model: Any, module: Any, visible: torch.Tensor, rows: torch.Tensor) -> None:
    """Raise if a sparse indexer hides keys: by content, so that they would change with a swap.

    ``visible`` is ``[..., row, key]``, and ``rows`` says which tokens the rows are, counted from 0.
    """
    if not hasattr(module, "indexer"):
        return
    place = torch.arange(visible.shape[-1], device=rows.device)
    behind = rows[:, None] - place
    seen, window = behind >= 0, getattr(module, "sliding_window", None)
    if window is not None:
        seen = seen & (behind < window)
    covered = getattr(module.indexer, "index_topk", None)
    require(
        (visible == seen).all(),
        lambda: make_unsupported_error(
            model,
            "chooses by content which keys are visible (a sparse indexer) and hides some of "
            f"{len(place)} here, so that visibility would move with a swap",
            f"use prompts that its top-k{'' if covered is None else f', {covered},'} covers, or another model",
            module=module,
        ),
    )


def check_rotation(name: str, looks_ahead: bool, positioned: bool) -> None:
    """Raise if a model cannot be asked for its rotation: an encoder, and what takes no positions."""
    if looks_ahead:
        raise make_unsupported_error(
            name,
            "attends as an encoder: its first token sees those behind it, and prompts are read from their last",
        )
    if not positioned:
        raise make_unsupported_error(
            name,
            "takes no position_ids, so that its keys cannot be asked for at other positions (its own are vectors added "
            "to the embeddings, a bias, the order of a recurrence, or a rotation by the tokens' order)",
            f"{WAY_OUT} that takes position_ids",
        )

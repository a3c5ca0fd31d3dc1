"""Refuse models: by their configuration, by the modules that they consist of, by how they attend.

Loading, profiles, surveys and surgery ask here. Every refusal names the model, says what stands against it, and the way
out. A new kind is a function of this file, called where what it looks at is known first.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posym_core._checks import require

WAY_OUT = "use a decoder with rotary attention"
PLAIN = "use a model with plain rotary attention"
PACKAGE = str(Path(__file__).parents[1])
# What transformers raises where inputs are missing that a prompt of token ids does not have.
FOR_WANT_OF_INPUTS = (TypeError, ValueError, AttributeError, IndexError)


class UnsupportedModelError(ValueError):
    """The model's attention is not a softmax over rotary logits that could be captured; the message says why."""


def make_unsupported_error(model: Any, why: str, way: str = WAY_OUT, *, module: Any = None) -> UnsupportedModelError:
    """Make the refusal of a model, or of what is called so, for what it does or, if given, one of its modules."""
    name = model if isinstance(model, str) else type(model).__name__
    at = "" if module is None else f" ({type(module).__name__})"
    return UnsupportedModelError(f"{name}{at} {why}; {way}")


# By their configuration


def check_decoder(config: Any, name: str) -> None:
    """Refuse an encoder-decoder: what its decoder does depends on a second sequence, which a prompt does not have."""
    if getattr(config, "is_encoder_decoder", False):
        raise make_unsupported_error(
            name, f"is an encoder-decoder ({config.model_type}), whose decoder also attends to another sequence"
        )


def check_loadable(config: Any, name: str) -> None:
    """Refuse what transformers loads as no causal decoder, without its list of all that it does."""
    from transformers.models.auto import modeling_auto

    check_decoder(config, name)
    kind = config.model_type
    if kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        # Encoders are loaded as decoders, too, and attend as such only if they were made for it.
        if kind in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False):
            raise make_unsupported_error(name, f"is an encoder ({kind}): its first token sees those behind it")
        return
    if kind in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        raise make_unsupported_error(
            name,
            f"is a vision-language model ({kind}), which transformers does not load as a decoder of text",
            "load it by transformers.AutoModelForImageTextToText and give the model to posym_profile.profile, or "
            f"{WAY_OUT}",
        )
    raise make_unsupported_error(
        name,
        f"is no decoder of text ({kind}, an encoder or a model for other inputs): transformers has no causal language "
        "model of this kind",
    )


def check_position_settings(config: Any, name: str) -> None:
    """Refuse a kind that can be rotary and is not with these settings; a profile finds the same when it is run."""
    if getattr(config, "alibi", False):
        raise make_unsupported_error(
            name, "adds a bias to its logits (alibi in its configuration) in place of a rotation", PLAIN
        )
    if getattr(config, "position_embedding_type", "rope") not in ("rope", "rotary"):
        raise make_unsupported_error(
            name, "has no rotary encoding (position_embedding_type in its configuration is not rope)"
        )


# By the modules that they consist of


def check_attention_kind(model: nn.Module) -> None:
    """Refuse models whose heads are not one softmax over their keys each."""
    for module in model.modules():
        if "lambda_q1" in module._parameters:  # named_parameters takes a hundredth of a short pass
            raise make_unsupported_error(
                model,
                "subtracts two softmaxes from each other, so that a head has no single row of attention weights",
                "use a model with ordinary softmax attention",
                module=module,
            )


def check_apart(model: Any, modules: Sequence[nn.Module]) -> None:
    """Refuse, by the modules that make its attention calls, a model whose layers share one."""
    if len(set(modules)) < len(modules):
        raise make_unsupported_error(
            model,
            "runs one attention module several times in a pass, so that its layers cannot be operated on apart",
            "use a model whose layers have attention modules of their own",
        )


def check_grouped(module: nn.Module) -> None:
    """Refuse single heads of a module that does not say how many of them share a key head."""
    if not hasattr(module, "num_key_value_groups"):
        raise make_unsupported_error(
            module,
            "shares keys among heads without saying so (num_key_value_groups), so that single heads cannot be operated "
            "on",
            "pass layers= instead of heads=",
        )


def check_output_layer(model: Any) -> None:
    """Refuse a model without logits of a vocabulary."""
    if getattr(model, "get_output_embeddings", lambda: None)() is None:
        way = "load it with transformers.AutoModelForCausalLM, or posym_profile.load_model"
        raise make_unsupported_error(model, "has no output layer and gives no logits of a vocabulary", way)


# By how they attend


@contextlib.contextmanager
def refuse_without_pictures(model: Any) -> Iterator[None]:
    """Refuse, by its name, a model of text and more that fails on text alone within the block."""
    try:
        yield
    except FOR_WANT_OF_INPUTS as error:
        config = getattr(model, "config", None)
        parts = bool(getattr(config, "sub_configs", None)) or getattr(model, "main_input_name", "") == "pixel_values"
        # What looks on, and what it calls, fails for reasons of its own; what runs a module in its place does not.
        frames = traceback.extract_tb(error.__traceback__)[2:]
        ours = any(frame.filename.startswith(PACKAGE) and frame.name != "run_module" for frame in frames)
        if isinstance(error, UnsupportedModelError) or ours or not parts:
            raise
        raise make_unsupported_error(
            model,
            f"does not run on text alone ({getattr(config, 'model_type', 'no kind')}; {type(error).__name__}: "
            f"{(str(error).splitlines() or [''])[0]})",
            f"{WAY_OUT}, or pass its text model if it has one",
        ) from error


def make_no_attention_error(model: Any) -> UnsupportedModelError:
    """Make the refusal of a model of which no attention call is seen on any route."""
    return make_unsupported_error(
        model,
        "makes no attention call that could be captured: none through transformers' attention interface, none of "
        "scaled_dot_product_attention, and no product of [prompt, head, token, dim] followed by a softmax",
    )


def make_no_products_error(model: Any, module: nn.Module, reason: str) -> UnsupportedModelError:
    """Make the refusal of a model with a call whose weights are no softmax over products of queries and keys."""
    why = f"{reason}, so that its logits are not scaled products of rotated queries and keys alone"
    return make_unsupported_error(model, why, f"{PLAIN}, on sdpa or eager attention", module=module)


def check_tokens(model: Any, module: nn.Module, queries: int, keys: int, tokens: int) -> None:
    """Refuse a call without a query and a key for each of the prompt's tokens."""
    if not queries == keys == tokens:
        raise make_unsupported_error(
            model,
            f"has {queries} queries and {keys} keys in a pass over {tokens} tokens (keys are compressed or added, or "
            "belong to another sequence), so that keys do not stand for the prompt's tokens",
            PLAIN,
            module=module,
        )


def check_sparse(model: Any, module: Any, visible: torch.Tensor, rows: torch.Tensor) -> None:
    """Refuse a call in which a sparse indexer hides keys: by content, so that they would change with a swap.

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
    """Refuse what cannot be asked for its rotation: an encoder, and what takes no positions."""
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

"""Capture queries and keys of Hugging Face models, as their own attention uses them.

A *tap* looks on while the model attends: it hands over the rotated query of chosen tokens, all rotated keys, the
scale and what else enters the softmax, and lets the model's own attention function go on untouched. So the output
stays what it was, bit by bit, the fast attention kernels stay in use, and no ``n x n`` weights are formed.

Of the two routes of ``routes`` a model takes the first on which any call is seen.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from posym_core._checks import require_evaluation, require_known_tokens
from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.capture._padding import remove_padding
from posym_profile.capture._recording import FunctionReader, Recorder
from posym_profile.capture._routes import ROUTES, Route, replace_forward, wrap_interface
from posym_profile.capture._wrappers import unwrap
from posym_profile.language_models._refusals import (
    check_attention_kind,
    check_configuration,
    check_decoder,
    check_uncompiled,
    make_unsupported_error,
)

# The mappings belong to the library, not to a model, so two taps in two threads would undo each other.
ONE_AT_A_TIME = threading.RLock()


def capture(
    model: nn.Module,
    input_ids: Int[Tensor, "prompt token"] | Int[Tensor, " token"],
    *,
    rows: Sequence[int] | None = (-1,),
) -> list[AttentionInputs]:
    """Capture the queries of chosen tokens and all keys of every attention call of a forward pass.

    Args:
        model: a Hugging Face decoder in evaluation mode, on any device, or what
            :func:`posym_profile.capture.unwrap` finds one in.
        input_ids: prompts of equal length, without padding; moved to the model's device.
        rows: tokens whose queries to keep, negative from the end; None for all.

    Returns:
        One :class:`AttentionInputs` per attention call in the order of the pass. Vocabulary logits are not computed.

    Raises:
        UnsupportedModelError: if the model has no attention that can be captured, or a kind of attention that a
            softmax over scaled products does not describe.
    """
    model = unwrap(model)
    (input_ids,) = remove_padding(model, check_input_ids(input_ids), None, least=1)
    calls: list[AttentionInputs] = []
    forward_with_hook(model, input_ids, calls.append, rows=rows)
    return calls


def forward_with_hook(
    model: nn.Module,
    input_ids: Int[Tensor, "prompt token"],
    receive: Callable[[AttentionInputs], Any],
    *,
    rows: Sequence[int] | None = (-1,),
    route: Route | None = None,
    verify: bool = False,
    run: Callable[..., Any] | None = None,
    **inputs: Any,
) -> Route:
    """Run the model once under :func:`hook_attention`; return the first route on which attention calls are seen.

    Args:
        route: the only route to try; by default all in turn, which costs a second pass where the first sees nothing.
        run: what runs the model on the prompts, by default without vocabulary logits.
        inputs: further inputs of the model, such as ``position_ids``.
    """
    check_model(model)
    require_known_tokens("input_ids", input_ids, get_input_embeddings(model))
    for candidate in ROUTES if route is None else (route,):
        with hook_attention(
            model, receive, rows=rows, route=candidate, verify=verify, tokens=input_ids.shape[-1]
        ) as calls:
            (run or forward)(model, input_ids, **inputs)
        if next(calls):
            return candidate
    raise make_unsupported_error(
        model,
        "makes no attention call that could be captured: none through transformers' attention interface, none of "
        "scaled_dot_product_attention, and no product of [prompt, head, token, dim] followed by a softmax",
    )


@contextlib.contextmanager
def hook_attention(
    model: nn.Module,
    receive: Callable[[AttentionInputs], Any],
    *,
    rows: Sequence[int] | None = (-1,),
    route: Route = "interface",
    verify: bool = False,
    tokens: int | None = None,
) -> Iterator[itertools.count]:
    """Hand every attention call of ``model`` within the block to ``receive`` before the model goes on.

    Args:
        model: a Hugging Face model.
        receive: called with an :class:`AttentionInputs` per call; an exception that it raises ends the pass.
        rows: tokens whose queries to hand over, negative from the end; None for all.
        route: see ``routes``; :func:`forward_with_hook` finds the one to take.
        verify: recompute the chosen rows' output from what is handed over, and refuse the model if it differs.
        tokens: how many the prompts have, where each must have one query and one key in every call.

    Yields:
        A counter whose next number is how many calls were seen.

    Raises:
        UnsupportedModelError: within the block, when a call is not a softmax over scaled products.
    """
    check_attention_kind(model)
    check_uncompiled(model)
    recorder = Recorder(model, receive, rows, verify, tokens)
    functions, modules = FunctionReader(recorder), set(model.modules())
    with contextlib.ExitStack() as stack:
        stack.enter_context(ONE_AT_A_TIME)
        if route == "interface":
            stack.enter_context(wrap_interface(model, modules, recorder.around))
        else:
            stack.enter_context(replace_forward(modules, functions.run_module))
            stack.enter_context(functions)
        yield recorder.seen


def forward(model: nn.Module, input_ids: Int[Tensor, "prompt token"], **inputs: Any) -> Any:
    """Run the model without vocabulary logits, cache or gradients."""
    backbone: Any = unwrap(getattr(model, "base_model", model))
    parameters = inspect.signature(backbone.forward).parameters
    # Some backbones without vocabulary logits take this, too, and then leave out queries of their last layers.
    if "logits_to_keep" in parameters and getattr(backbone, "get_output_embeddings", lambda: backbone)() is not None:
        inputs["logits_to_keep"] = 1
    if "use_cache" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        inputs["use_cache"] = False
    with torch.no_grad():
        return backbone(input_ids.to(find_input_device(model)), **inputs)


def find_input_device(model: nn.Module) -> torch.device:
    """Find the device on which the model wants its token ids."""
    embeddings = get_input_embeddings(model)
    # Weights that accelerate brings in for each pass are on the meta device in between.
    elsewhere = getattr(getattr(embeddings, "_hf_hook", None), "execution_device", None)
    return embeddings.weight.device if elsewhere is None else torch.device(elsewhere)


def get_input_embeddings(model: nn.Module) -> Any:
    """Return the embedding of token ids; raise if there is none, or several."""
    find: Any = getattr(model, "get_input_embeddings", None)
    if find is None:
        raise TypeError(f"model must be a Hugging Face model; got {type(model).__name__}")
    embeddings = None
    with contextlib.suppress(NotImplementedError):
        embeddings = find()
    if not isinstance(getattr(embeddings, "weight", None), Tensor):
        raise make_unsupported_error(model, "has no single embedding of token ids", "use a decoder of text")
    return embeddings


def check_model(model: nn.Module) -> None:
    """Raise if a model cannot be run, or would run otherwise than in use."""
    get_input_embeddings(model)
    check_decoder(getattr(model, "config", None), type(model).__name__)
    try:
        require_evaluation(model)
    except ValueError:  # which is worth mending in a supported model alone
        check_configuration(model)
        raise


def check_input_ids(input_ids: Tensor, least: int = 1) -> Int[Tensor, "prompt token"]:
    """Return token ids as ``[prompt, token]`` int64; raise for anything else."""
    if not isinstance(input_ids, Tensor) or input_ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            "input_ids must be a tensor of whole numbers, int64 or int32; got "
            f"{getattr(input_ids, 'dtype', type(input_ids).__name__)}. Use tokenizer(text, "
            'return_tensors="pt")["input_ids"]'
        )
    if input_ids.ndim not in (1, 2) or input_ids.numel() == 0 or input_ids.shape[-1] < least:
        raise ValueError(
            f"input_ids must be prompts of at least {least} tokens, [prompt, token] or [token]; got shape "
            f"{tuple(input_ids.shape)}"
        )
    return input_ids.reshape(-1, input_ids.shape[-1]).long()

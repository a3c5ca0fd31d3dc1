"""What single heads hand on: outputs of heads replaced, so that one sees what they are needed for.

A head's output is what enters the attention's output projection in that head's columns. In a Hugging Face decoder the
projection is a module of its own, so that its input can be seen and changed while the model runs; weights are never
touched. Two questions are asked of every head at once, at the last token: what is lost when a head always says its
mean (*mean ablation*), and how much of the difference between two prompts a head carries (*patching*, also called
interchange). For both, the tokens before the last are read once and kept, and every head is a row of one batch.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core.inspection.attention_calls import UnsupportedModelError
from posym_core.inspection.capturing import check_input_ids, input_device

# What Hugging Face decoders call the projection.
PROJECTIONS = ("o_proj", "out_proj", "dense", "c_proj")
# Rows of one pass over the last token; each holds a copy of what the model keeps of the prompt.
ROWS = 72

HeadOutputs = Float[Tensor, "prompt token head dim"]


def output_projections(model: Any) -> list[nn.Module]:
    """The output projection of every attention layer, first layer first.

    Raises:
        UnsupportedModelError: if there is none, or not one for each layer.
    """
    found = [
        module
        for name, module in model.named_modules()
        if name.rpartition(".")[2] in PROJECTIONS and "att" in name.rpartition(".")[0].rpartition(".")[2].lower()
    ]
    if len(found) != model.config.get_text_config().num_hidden_layers:
        raise UnsupportedModelError(
            f"{type(model).__name__} has {len(found)} output projections of attention (modules called "
            f"{', '.join(PROJECTIONS)}) for {model.config.get_text_config().num_hidden_layers} layers; single heads' "
            "outputs can be replaced only where every layer has one"
        )
    return found


@contextlib.contextmanager
def changed_outputs(model: Any, change: Callable[[int, HeadOutputs], HeadOutputs | None]) -> Iterator[None]:
    """Within the block, ``change(layer, outputs)`` says what the heads of every layer hand on.

    It gets ``[prompt, token, head, dim]`` and returns the same, or None to leave all as it is, as one does who only
    looks on. Works with gradients, and within :func:`posym_core.inspection.operations.surgery`.
    """
    heads = model.config.get_text_config().num_attention_heads

    def hook(layer: int) -> Callable:
        def before(module: nn.Module, args: tuple) -> tuple | None:
            outputs = args[0].unflatten(-1, (heads, -1))
            shape = outputs.shape  # ``change`` may write into its argument
            changed = change(layer, outputs)
            if changed is not None and getattr(changed, "shape", None) != shape:
                raise ValueError(
                    f"change must return the outputs of all heads, [prompt, token, head, dim], here {tuple(shape)}, or "
                    f"None to leave them; got {_shape(changed)} for layer {layer}"
                )
            return None if changed is None else (changed.flatten(-2), *args[1:])

        return before

    with contextlib.ExitStack() as stack:
        for layer, module in enumerate(output_projections(model)):
            stack.callback(module.register_forward_pre_hook(hook(layer)).remove)
        yield


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a model makes of prompts.

    Attributes:
        outputs: what every head hands on at every token.
        logits: of the last token.
    """

    outputs: Float[Tensor, "prompt layer token head dim"]
    logits: Float[Tensor, "prompt vocabulary"]


def _shape(x: Any) -> Any:
    return tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__


def head_outputs(model: Any, input_ids: Int64[Tensor, "prompt token"]) -> Said:
    """Outputs of all heads, and the answers, in one pass."""
    seen: list[Tensor] = []

    def look(layer: int, outputs: Tensor) -> None:
        seen.append(outputs.detach().clone())

    with torch.no_grad(), changed_outputs(model, look):
        ids = check_input_ids(input_ids).to(input_device(model))
        logits = model(ids, use_cache=False, logits_to_keep=1).logits[:, -1]
    return Said(outputs=torch.stack(seen, 1), logits=logits.float().cpu())


def last_token_replaced(
    model: Any,
    input_ids: Int64[Tensor, " token"],
    outputs: Float[Tensor, "layer head dim"],
    answers: Int64[Tensor, " answer"],
) -> Float[Tensor, "layer head answer"]:
    """Logits of some answers behind a prompt when one head at a time says something else at the last token.

    Args:
        model: a Hugging Face decoder that keeps keys and values, in evaluation mode.
        input_ids: one prompt of at least two tokens.
        outputs: what each head says instead.
        answers: tokens whose logits are wanted; a whole vocabulary for every head would cost more than the model.

    Returns:
        For each head, the logits with that head alone replaced, float32 on the CPU.
    """
    ids = check_input_ids(input_ids, least=2).to(input_device(model))
    layers, heads = outputs.shape[:2]
    places = [(layer, head) for layer in range(layers) for head in range(heads)]
    logits = []
    with torch.no_grad():
        kept = model.base_model(ids[:, :-1], use_cache=True).past_key_values
        for first in range(0, len(places), ROWS):
            rows = places[first : first + ROWS]

            def change(layer: int, said: Tensor, rows: list[tuple[int, int]] = rows) -> Tensor:
                said = said.clone()
                for row, (there, head) in enumerate(rows):
                    if there == layer:
                        said[row, -1, head] = outputs[layer, head].to(said)
                return said

            cache = copy.deepcopy(kept)
            cache.batch_repeat_interleave(len(rows))
            with changed_outputs(model, change):
                again = model.base_model(ids[:, -1:].expand(len(rows), 1), past_key_values=cache, use_cache=True)
            logits.append(_some_logits(model, again.last_hidden_state[:, -1], answers))
    return torch.cat(logits).unflatten(0, (layers, heads))


def replaced_everywhere(
    model: Any,
    input_ids: Int64[Tensor, "prompt token"],
    outputs: Float[Tensor, "layer token head dim"],
    layer: int,
    head: int,
) -> Float[Tensor, "prompt vocabulary"]:
    """Logits behind prompts when one head says something else at every token, in every prompt the same."""

    def change(here: int, said: Tensor) -> Tensor | None:
        if here != layer:
            return None
        said = said.clone()
        said[:, :, head] = outputs[layer, :, head].to(said)
        return said

    with torch.no_grad(), changed_outputs(model, change):
        ids = check_input_ids(input_ids).to(input_device(model))
        return model(ids, use_cache=False, logits_to_keep=1).logits[:, -1].float().cpu()


def _some_logits(model: Any, hidden: Float[Tensor, "row width"], answers: Tensor) -> Float[Tensor, "row answer"]:
    """Of the vocabulary's logits those of some tokens."""
    head, settings = model.get_output_embeddings(), model.config.get_text_config()
    answers = answers.to(head.weight.device)
    bias = None if getattr(head, "bias", None) is None else head.bias[answers]
    logits = nn.functional.linear(hidden.to(head.weight.device), head.weight[answers], bias).float().cpu()
    logits = logits * (getattr(settings, "logit_scale", None) or 1.0)
    cap = getattr(settings, "final_logit_softcapping", None)
    return logits if cap is None else cap * torch.tanh(logits / cap)

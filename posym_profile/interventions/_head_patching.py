"""Replace what single heads hand on, so that one sees what they are needed for.

A head's output is what enters the attention's output projection in that head's columns. In a Hugging Face decoder the
projection is a module of its own, so that its input can be seen and changed while the model runs; weights are never
touched. What is lost when heads hand on their mean is *mean ablation*; how much of the difference between two prompts
heads carry is found by *patching*, also called interchange.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core._checks import require_known_tokens
from posym_core.store import map_batches
from posym_profile.capture._capturing import (
    check_input_ids,
    check_model,
    find_input_device,
    forward_with_hook,
    get_input_embeddings,
)
from posym_profile.capture._routes import limit_to_thread
from posym_profile.capture._wrappers import unwrap, unwrap_to_edit
from posym_profile.language_models._answers import compute_last_logits
from posym_profile.language_models._refusals import make_unsupported_error
from posym_profile.prompts._drafts import Prompts

# What Hugging Face decoders call the projection.
PROJECTIONS = ("o_proj", "out_proj", "dense", "c_proj", "Wo")
# Of models that are in use: to ask again would be a pass for every head that is replaced.
_KNOWN: WeakKeyDictionary[nn.Module, list[tuple[nn.Module, int]]] = WeakKeyDictionary()

# Which heads: layer and head, counted from 0.
Heads = Sequence[tuple[int, int]]
HeadOutputs = Float[Tensor, "prompt token head dim"]


def find_output_projections(model: Any) -> list[nn.Module]:
    """Find the output projection of every attention call, in the order of a pass, as profiles number layers.

    Which modules attend is seen in a pass over three tokens, the first time that a model is asked. Hybrids have layers
    with other mixers, whose projections bear the same names.

    Raises:
        UnsupportedModelError: if attention cannot be captured, or a module has no projection of its own or attends
            several times in a pass.
    """
    return [module for module, _ in _find_projections(unwrap(model))]


def _find_projections(model: Any) -> list[tuple[nn.Module, int]]:
    """Find output projections with their numbers of heads."""
    known = _KNOWN.get(model)
    if known is not None and {module for module, _ in known} <= set(model.modules()):
        return known
    calls: list[tuple[nn.Module, int]] = []
    middle = len(get_input_embeddings(model).weight) // 2
    ids = torch.tensor([[middle, middle + 1, middle]])
    forward_with_hook(model, ids, lambda call: calls.append((call.module, call.query.shape[1])))
    modules, numbers = {module for module, _ in calls}, {heads for _, heads in calls}
    projections = []
    for module, heads in calls:
        parts = [part for name, part in module.named_children() if name in PROJECTIONS]
        if len(parts) != 1 or not _width(parts[0]) or _width(parts[0]) % heads:
            why = f"has attention ({type(module).__name__}) without one output projection of its heads"
            raise make_unsupported_error(model, why, f"use a model with one ({', '.join(PROJECTIONS)})")
        projections.append((parts[0], heads))
    if len(modules) < len(calls) or len(numbers) > 1:
        why = f"attends {len(calls)} times in a pass with {len(modules)} modules, of {sorted(numbers)} heads"
        raise make_unsupported_error(model, why, "use a model whose layers attend once each, with equally many heads")
    _KNOWN[model] = projections
    return projections


def _width(projection: nn.Module) -> int:
    """Count the numbers that enter a projection, or 0; weights of no Linear, as in GPT-2, lie on their side."""
    weight: Any = getattr(projection, "weight", ())
    return getattr(projection, "in_features", None) or len(weight)


@contextlib.contextmanager
def edit_head_outputs(model: Any, change: Callable[[int, HeadOutputs], HeadOutputs | None]) -> Iterator[None]:
    """Let ``change(layer, outputs)`` say what the heads of every layer hand on within the block, in this thread.

    It gets ``[prompt, token, head, dim]`` and returns the same, or None to leave it as it is. Works with gradients, and
    within :func:`posym_profile.interventions.edit_rope`. Raises for the models that :func:`find_output_projections`
    refuses, and for compiled ones.
    """

    def hook(layer: int, heads: int) -> Callable:
        def before(module: nn.Module, args: tuple) -> tuple | None:
            outputs = args[0].unflatten(-1, (heads, -1))
            shape = outputs.shape  # ``change`` may write into its argument
            changed = change(layer, outputs)
            if changed is not None and changed.shape != shape:
                raise ValueError(
                    f"change must return the outputs of all heads, [prompt, token, head, dim], here {tuple(shape)}, or "
                    f"None to leave them; got {tuple(changed.shape)} for layer {layer}"
                )
            return None if changed is None else (changed.flatten(-2), *args[1:])

        return before

    with contextlib.ExitStack() as stack:
        for layer, (module, heads) in enumerate(_find_projections(unwrap_to_edit(model))):
            stack.callback(module.register_forward_pre_hook(limit_to_thread(hook(layer, heads))).remove)
        yield


@dataclass(frozen=True, kw_only=True)
class PassOutputs:
    """Outputs of a pass over prompts.

    Attributes:
        outputs: what every head hands on at every token; 0 where a layer's heads have fewer dimensions than others'.
        logits: of the last token.
    """

    outputs: Float[Tensor, "prompt layer token head dim"]
    logits: Float[Tensor, "prompt vocabulary"]


def record_head_outputs(model: Any, input_ids: Int64[Tensor, "prompt token"]) -> PassOutputs:
    """Record the outputs of all heads, and the answers, in one pass over prompts of equal length."""
    model = unwrap_to_edit(model)
    ids = check_prompts(model, input_ids)
    seen: list[Tensor] = []
    *_, width = _measure_outputs(model)

    def look(layer: int, outputs: Tensor) -> None:
        seen.append(nn.functional.pad(outputs.detach(), (0, width - outputs.shape[-1])).clone())

    with torch.no_grad(), edit_head_outputs(model, look):
        logits, _ = compute_last_logits(model, ids, use_cache=False)
    return PassOutputs(outputs=torch.stack(seen, 1), logits=logits[:, -1].float().cpu())


@contextlib.contextmanager
def patch_heads(model: Any, heads: Heads, outputs: Tensor) -> Iterator[None]:
    """Let some heads hand on given outputs in place of their own within the block; see :func:`edit_head_outputs`.

    Args:
        model: a Hugging Face decoder in evaluation mode.
        heads: ``[(layer, head), ...]``, from 0, as :func:`posym_profile.top_heads` names them.
        outputs: of all heads; ``[layer, head, dim]``: the same at every token; ``[layer, token, head, dim]``: at each
            token its own; ``[prompt, layer, token, head, dim]``, as :func:`record_head_outputs` gives them.

    Raises:
        UnsupportedModelError: see :func:`find_output_projections`.
        ValueError: if the model has no such heads or outputs; and at a pass over other numbers of prompts or tokens.

    >>> clean = record_head_outputs(model, input_ids).outputs  # doctest: +SKIP
    >>> with patch_heads(model, [(5, 1)], clean):  # doctest: +SKIP
    ...     logits = model(other_ids, use_cache=False).logits
    """
    model = unwrap_to_edit(model)
    check_model(model)
    if outputs.ndim == 3:
        outputs = outputs[:, None]
    if outputs.ndim == 4:
        outputs = outputs[None]
    layers, number, _ = require_outputs(model, outputs[0, :, 0])
    chosen = _group_by_layer(heads, layers, number)

    def change(layer: int, current: HeadOutputs) -> HeadOutputs | None:
        if layer not in chosen:
            return None
        given = outputs[:, layer]
        if any(size not in (1, here) for size, here in zip(given.shape[:2], current.shape[:2], strict=True)):
            raise ValueError(
                f"outputs are of {tuple(given.shape[:2])} prompts and tokens, and the pass is over "
                f"{tuple(current.shape[:2])}; pass outputs [layer, head, dim] to say the same everywhere, or "
                "use_cache=False and prompts of one length"
            )
        current = current.clone()
        current[:, :, chosen[layer]] = given[..., chosen[layer], : current.shape[-1]].to(current)
        return current

    with edit_head_outputs(model, change):
        yield


@contextlib.contextmanager
def ablate_heads(
    model: Any, heads: Heads, *, mean_over: Prompts | Int64[Tensor, "prompt token"] | None = None
) -> Iterator[None]:
    """Let some heads say nothing about the prompt at hand within the block; see :func:`edit_head_outputs`.

    Args:
        model: a Hugging Face decoder in evaluation mode.
        heads: ``[(layer, head), ...]``, from 0, as :func:`posym_profile.top_heads` names them.
        mean_over: prompts over all of whose tokens heads hand on their mean; by default they hand on zeros, which later
            layers may never have met.

    Raises:
        UnsupportedModelError, ValueError: see :func:`patch_heads`.

    >>> with ablate_heads(model, [(5, 1)], mean_over=prompts):  # doctest: +SKIP
    ...     accuracy = choose_answers(model, prompts).accuracy
    """
    if not heads:
        raise ValueError("heads must be a list of at least one (layer, head), as [(5, 1)]")
    model = unwrap_to_edit(model)
    if mean_over is None:
        check_model(model)
        outputs = torch.zeros(_measure_outputs(model))
    else:
        ids = check_prompts(model, mean_over.input_ids if isinstance(mean_over, Prompts) else mean_over)
        said = map_batches(lambda rows: record_head_outputs(model, rows).outputs.double().sum((0, 2)), ids)
        outputs = torch.stack([*said]).sum(0) / ids.numel()
    with patch_heads(model, heads, outputs):
        yield


def _group_by_layer(heads: Heads, layers: int, number: int) -> dict[int, list[int]]:
    """Return the heads of each layer; raise if the model lacks one."""
    chosen: dict[int, list[int]] = {}
    for layer, head in heads:
        if operator.index(layer) not in range(layers) or operator.index(head) not in range(number):
            raise ValueError(
                f"layer and head must be from 0 to {layers - 1} and from 0 to {number - 1}; got {layer} and {head}"
            )
        chosen.setdefault(int(layer), []).append(int(head))
    return chosen


def check_prompts(model: Any, input_ids: Tensor, least: int = 1) -> Int64[Tensor, "prompt token"]:
    """Return token ids on the model's device; raise if they, or the model, cannot be run."""
    check_model(model)
    ids = check_input_ids(input_ids, least=least)
    require_known_tokens("input_ids", ids, get_input_embeddings(model))
    return ids.to(find_input_device(model))


def require_outputs(model: Any, outputs: Float[Tensor, "layer head dim"]) -> tuple[int, int, int]:
    """Return the numbers of layers, heads and dimensions of the model's outputs of heads; raise for other outputs."""
    shape = _measure_outputs(model)
    if tuple(outputs.shape) != shape:
        raise ValueError(
            f"outputs must have shape [layer, head, dim], {shape} for this model, or so for each token and prompt; got "
            f"{tuple(outputs.shape)}. Take them from record_head_outputs"
        )
    return shape


def _measure_outputs(model: Any) -> tuple[int, int, int]:
    """Count layers, heads and the largest number of dimensions of a model's outputs of heads."""
    projections = _find_projections(model)
    return len(projections), projections[0][1], max(_width(module) // heads for module, heads in projections)

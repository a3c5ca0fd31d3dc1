"""Edit a language model by frequency: give it other angles in chosen planes, layers and heads.

An *intervention* says what becomes of the rotation planes of some heads: planes are stopped (their angle is 0, so that
they still compare contents but no longer know positions, as in p-RoPE), planes are ablated (they add nothing to any
logit), or all angles follow another base. Within :func:`edit_rope` the model computes with the changed planes; the
weights are never touched, and afterwards the model is what it was.

Rotated queries and keys are turned on before they meet, by their position times what the angle changes. So no model's
rotary code has to be known, QK-norm and attention factors stay as they are, and planes that no intervention names keep
every bit. A :func:`posym_profile.capture.hook_attention` within the block sees what the edited model
attends with.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posym_core.metrics import BlockLayout
from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.capture._capturing import ONE_AT_A_TIME, forward_with_hook
from posym_profile.capture._routes import limit_to_thread, replace_forward, wrap_interface
from posym_profile.interventions._plane_interventions import Intervention
from posym_profile.language_models._refusals import make_unsupported_error
from posym_profile.planes._rotary_planes import Planes, find_planes
from posym_profile.scores._head_table import make_dataset
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import LAST, map_layers
from posym_profile.scores._profiling import describe_prompts, score_layer

if TYPE_CHECKING:
    from xarray import Dataset


@dataclass(frozen=True, kw_only=True)
class EditedModel:
    """A model with other rotation planes.

    Attributes:
        model: the model.
        planes: of every layer, as they were.
        angles: of every layer and query head, as they are now; float64.
        kept: which planes still count in the logits.
    """

    model: nn.Module
    planes: list[Planes]
    angles: list[Float[Tensor, "head plane"]]
    kept: list[Bool[Tensor, "head plane"]]

    def profile(
        self,
        input_ids: Int[Tensor, "prompt token"],
        *,
        start: int,
        block_length: int,
        blocks: int | None = None,
        tau: float = 1e-4,
    ) -> Dataset:
        """Score every head of the edited model within the block; see :func:`posym_profile.profile`."""
        length = input_ids.shape[-1]
        swaps = BlockLayout(start=start, block_length=block_length, blocks=blocks, tau=tau).fit(length)

        def measure(heads: LayerHeads) -> dict[str, Tensor]:
            angles = self.angles[heads.layer]
            # Heads that turn differently have keys of their own.
            return score_layer(replace(heads, angles=angles[0] if (angles == angles[0]).all() else angles), swaps)

        measured = map_layers(self.model, input_ids, measure, planes=self.planes)
        return describe_prompts(make_dataset(measured, LAST), self.model, [length] * len(measured["entropy"]), swaps)


@contextlib.contextmanager
def edit_rope(
    model: nn.Module, *interventions: Intervention, length: int | None = None, planes: Sequence[Planes] | None = None
) -> Iterator[EditedModel]:
    """Let the model attend with other planes within the block, in this thread.

    Prompts are taken without gaps between positions, as tokens of one text have them: position ids that are given
    count, and those of keys in a cache go back one by one from the query's. Blocks are not to be nested for one model:
    pass several interventions, which follow one another.

    Args:
        model: a Hugging Face decoder with rotary encoding, in evaluation mode, whose layers attend through
            transformers' attention interface, each with a module of its own; GPT-J, CodeGen and Falcon do not.
        interventions: what to do; none leaves every bit as it was.
        length: tokens of the prompts in question; matters where the model's angles depend on it.
        planes: what :func:`posym_profile.planes.find_planes` found for this model and length, to save
            asking.

    Yields:
        :class:`EditedModel`, which also scores the heads of the edited model.

    Raises:
        UnsupportedModelError: if the model has no rotation planes, or its attention cannot be reached.
        ValueError: if an intervention names a layer, head or plane that is not there.
    """
    if planes is None:
        if length is None:
            raise ValueError("angles may depend on the prompts' length; pass length=, or planes=find_planes(...)")
        planes = find_planes(model, length)
    calls: list[AttentionInputs] = []
    route = forward_with_hook(model, torch.ones(1, 2, dtype=torch.long), calls.append)
    if len(planes) != len(calls):
        raise ValueError(
            f"the model makes {len(calls)} attention calls, but planes were given for {len(planes)}; "
            "pass planes=find_planes(model, length) of this model"
        )
    modules = [call.module for call in calls]
    if route != "interface" or len(set(modules)) < len(modules):
        why = "has layers that share one attention module, or that do not attend through transformers' interface"
        raise make_unsupported_error(model, why, "use a model whose planes can be edited layer by layer")
    edited = EditedModel(model=model, planes=list(planes), angles=[], kept=[])
    for call, layer_planes in zip(calls, planes, strict=True):
        edited.angles.append(layer_planes.angles.expand(call.query.shape[1], -1).clone())
        edited.kept.append(torch.ones_like(edited.angles[-1], dtype=torch.bool))
    for intervention in interventions:
        _apply(intervention, edited)

    place: dict[str, Tensor | None] = {"positions": None}
    names = list(inspect.signature(model.forward).parameters)
    with contextlib.ExitStack() as stack:
        # The library's table of attention functions belongs to all models: one at a time, as with taps.
        stack.enter_context(ONE_AT_A_TIME)
        for layer, call in enumerate(calls):
            changed = _ChangedLayer(edited, layer, call, place)
            if changed.touched.any():
                # While the module runs, and not longer: so that a tap, whenever entered, looks on from within.
                stack.enter_context(replace_forward([call.module], partial(changed.run_module, model)))

        def note(module: nn.Module, args: tuple, inputs: dict[str, Any]) -> None:
            place["positions"] = inputs.get("position_ids", dict(zip(names, args, strict=False)).get("position_ids"))

        backbone = getattr(model, "base_model", model)
        for module in {id(m): m for m in (backbone, model)}.values():
            hook = module.register_forward_pre_hook(limit_to_thread(note), with_kwargs=True)
            stack.callback(hook.remove)
        yield edited


def _apply(intervention: Intervention, edited: EditedModel) -> None:
    """Change angles and kept planes of the heads that an intervention names."""
    layers = len(edited.angles)
    heads = intervention.heads
    if heads is None:
        chosen = range(layers) if intervention.layers is None else intervention.layers
        # A layer that is not there is refused below.
        heads = [(layer, head) for layer in chosen for head in range(len(edited.angles[min(layer, layers - 1)]))]
    for layer, head in heads:
        if not 0 <= layer < layers or not 0 <= head < len(edited.angles[layer]):
            raise ValueError(
                f"the model has attention layers 0 to {layers - 1} of {len(edited.angles[0])} heads, counted from 0; "
                f"got head {head} of layer {layer}"
            )
        edited.angles[layer][head], kept = intervention.change(edited.angles[layer][head])
        edited.kept[layer][head] &= kept


class _ChangedLayer:
    """One attention call with its queries and keys turned on, or their planes taken out."""

    def __init__(self, edited: EditedModel, layer: int, call: AttentionInputs, place: dict[str, Tensor | None]) -> None:
        planes = edited.planes[layer]
        self.module, self.place, self.heads = call.module, place, call.query.shape[1]
        delta = edited.angles[layer] - planes.angles
        kept = edited.kept[layer]
        self.touched = (delta != 0) | ~kept
        # Heads that share their keys can go on sharing them when all are turned alike.
        self.alike = bool(((delta == delta[:1]) & (kept == kept[:1])).all())
        chosen = self.touched.any(0)
        first, second = planes.order.chunk(2)
        self.dim, self.first, self.second = call.query.shape[-1], first[chosen], second[chosen]
        self.gain = planes.gain.chunk(2)[1][chosen]
        rows = slice(0, 1) if self.alike else slice(None)
        self.delta, self.kept, self.change = (x[rows][:, chosen] for x in (delta, kept, self.touched))

    def run_module(self, model: nn.Module, run: Callable, module: nn.Module, *args: Any, **inputs: Any) -> Any:
        """Run the module with changed queries and keys."""
        with wrap_interface(model, {module}, self.around):
            return run(*args, **inputs)

    def around(self, function: Callable, module: nn.Module, query, key, value, *rest: Any, **options: Any) -> Any:
        with self.ungroup():
            return function(module, *self.change_inputs(query, key, value), *rest, **options)

    @contextlib.contextmanager
    def ungroup(self) -> Iterator[None]:
        """Keep attention functions from repeating keys as often as the module says, where each head has its own."""
        module: Any = self.module
        groups = getattr(module, "num_key_value_groups", None)
        if self.alike or groups is None:
            yield
            return
        module.num_key_value_groups = 1
        try:
            yield
        finally:
            module.num_key_value_groups = groups

    def change_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value as the edited model has them, ``[prompt, head, token, dim]``."""
        places, keys = self.place["positions"], key.shape[2]
        if places is not None and places.ndim == 2 and places.shape[1] == keys:
            of_keys = places.double()
        else:
            of_keys = torch.arange(keys, dtype=torch.float64)[None]
        of_queries = of_keys[:, keys - query.shape[2] :]
        if not self.alike:
            key, value = (x.repeat_interleave(self.heads // x.shape[1], dim=1) for x in (key, value))
        return self.turn(query, of_queries, self.gain.reciprocal()), self.turn(key, of_keys, self.gain), value

    def turn(self, x: Tensor, positions: Float[Tensor, "prompt token"], gain: Float[Tensor, " plane"]) -> Tensor:
        positions, delta, kept, change = (y.to(x.device) for y in (positions, self.delta, self.kept, self.change))
        first, second, gain = (y.to(x.device) for y in (self.first, self.second, gain))
        dtype = torch.promote_types(x.dtype, torch.float32)
        # The one dimension too many of an odd number of unrotated ones is 0.
        full = nn.functional.pad(x, (0, 1)) if len(second) and int(second.max()) == self.dim else x.clone()
        before = full[..., first], full[..., second]
        one, other = before[0].to(dtype), before[1].to(dtype) * gain.to(dtype)
        phase = positions[:, None, :, None] * delta[:, None]
        cos, sin = (phase.cos() * kept[:, None]).to(dtype), (phase.sin() * kept[:, None]).to(dtype)
        after = one * cos - other * sin, (one * sin + other * cos) / gain.to(dtype)
        for place, old, new in zip((first, second), before, after, strict=True):
            full[..., place] = torch.where(change[:, None], new.to(x.dtype), old)
        return full[..., : self.dim]

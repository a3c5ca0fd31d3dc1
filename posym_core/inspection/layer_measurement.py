"""Layers of a language model measured as they come: one forward pass, any function of a layer's last query and keys.

Layers are measured while the model runs and are not kept, so memory stays that of the pass. Those that are alike may
wait, to be measured as one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posym_core.checks import flags_together, is_fake, require_count, waits
from posym_core.inspection.attention_calls import AttentionCall
from posym_core.inspection.capturing import check_input_ids, input_device, watched_forward
from posym_core.inspection.heads import LayerHeads, joined, layer_heads
from posym_core.inspection.padding import unpadded
from posym_core.inspection.planes import Planes, find_planes
from posym_core.inspection.wrappers import unwrapped
from posym_core.metrics.memory import budget

# Tokens of one forward pass: enough to use the machine, few enough for a small one.
TOKENS_A_BATCH = 4096
# Numbers in the keys of layers that wait to be scored together: small layers cost mostly calls, large ones memory.
NUMBERS_HELD = 2**20
# On a GPU, which has memory for more: of what scoring may take, a quarter for float32 numbers that wait.
BYTES_A_NUMBER = 16
# Numbers in results that may stay on a GPU until the pass is over.
NUMBERS_KEPT = 2**24


def profile_with(
    model: nn.Module,
    input_ids: Int[Tensor, "prompt token"] | Int[Tensor, " token"],
    measure: Callable[[LayerHeads], dict[str, Tensor]],
    *,
    attention_mask: Tensor | None = None,
    progress: bool = True,
    batch_size: int | None = None,
    planes: Sequence[Planes] | None = None,
    hold: int = 0,
) -> dict[str, Float[Tensor, "prompt layer head *rest"]]:
    """Measure the heads of every layer at the last token of every prompt, in one forward pass a batch.

    Args:
        model: see :func:`posym_core.profile`.
        input_ids: ``[prompt, token]``, or one prompt ``[token]``.
        measure: called with the :class:`LayerHeads` of every layer and batch; returns named tensors of shape
            ``[prompt, key_head, group, ...]``, as functions on heads do when given ``heads.query`` and ``heads.keys``.
            It may do several things at once: what is captured is there only now.
        attention_mask: see :func:`posym_core.profile`; ``measure`` sees no padding.
        progress: show a progress bar.
        batch_size: prompts per forward pass; by default about 4,096 tokens.
        planes: what :func:`posym_core.inspection.planes.find_planes` found for this model and length.
        hold: layers that are alike may be measured together, as if they were more prompts, while their keys are no
            more numbers than this; ``measure`` may then not ask which layer it is.

    Returns:
        The measurements by name, ``[prompt, layer, head, ...]`` on the CPU, NaN where layers or prompts differ in
        shape.

    Raises:
        UnsupportedModelError: if the model is not a decoder with rotary encoding that can be captured.
        TypeError, ValueError: if ``input_ids`` or ``attention_mask`` do not fit.
    """
    model = unwrapped(model)
    runs = unpadded(model, check_input_ids(input_ids, least=2), attention_mask, least=2)
    return measured_layers(model, runs, measure, progress=progress, batch_size=batch_size, planes=planes, hold=hold)


def measured_layers(
    model: nn.Module,
    runs: Sequence[Int[Tensor, "prompt token"]],
    measure: Callable[[LayerHeads], dict[str, Tensor]],
    *,
    progress: bool,
    batch_size: int | None,
    planes: Sequence[Planes] | None,
    hold: int,
) -> dict[str, Float[Tensor, "prompt layer head *rest"]]:
    """:func:`profile_with` of prompts without padding, on a model without wrappers."""
    from tqdm import tqdm

    if batch_size is not None:
        require_count("batch_size", batch_size, 1)
    lengths = {run.shape[1] for run in runs}
    planes_at = planes_of_lengths(model, lengths) if planes is None else dict.fromkeys(lengths, planes)
    layers = {length: _Layers(measure, hold, found) for length, found in planes_at.items()}
    route, first = None, 0
    batches: list[dict[str, Tensor]] = []
    with tqdm(total=sum(map(len, runs)), unit="prompt", disable=not progress) as bar:
        for run in runs:
            here = layers[run.shape[1]]
            for prompts in run.split(batch_size or max(1, TOKENS_A_BATCH // run.shape[1])):
                here.prompts = slice(first, first + len(prompts))
                with flags_together(input_device(model)):
                    route = watched_forward(model, prompts, here.receive, route=route, keep=bool(hold))
                    here.measure_held()
                measured = here.collected()
                batches.append({name: stacked([layer[name] for layer in measured], dim=1) for name in measured[0]})
                bar.update(len(prompts))
                first += len(prompts)
    return {name: torch.cat(_filled([batch[name] for batch in batches], but=0)) for name in batches[0]}


def planes_of_lengths(model: nn.Module, lengths: Collection[int]) -> dict[int, list[Planes]]:
    """Planes for prompts of several lengths; asked only at the ends where they are the same there."""
    found = {length: find_planes(model, length) for length in {min(lengths), max(lengths)}}
    one, other = found[min(lengths)], found[max(lengths)]
    # Angles are scaled from some length on, and the more the longer: what is equal at the ends is equal in between.
    if all(torch.equal(a.angles, b.angles) for a, b in zip(one, other, strict=True)):
        return dict.fromkeys(lengths, one)
    return {length: found.get(length) or find_planes(model, length) for length in lengths}


class _Layers:
    """Measures layers as they come, or holds back those with the same planes and shapes to measure them as one.

    Held layers stand behind each other in the dimension of prompts. No more than ``hold`` numbers of keys wait, or as
    many as memory allows on a device where each operation is dear; there layers differ in their planes, too.
    """

    def __init__(self, measure: Callable[[LayerHeads], dict[str, Tensor]], hold: int, planes: Sequence[Planes]) -> None:
        self.measure, self.hold, self.planes = measure, hold, planes
        self.prompts = slice(None)
        self.planes_there: dict[tuple[int, torch.device], Planes] = {}
        self.waiting: list[tuple[AttentionCall, slice]] = []
        self.numbers = 0
        self.results: list[tuple[list[int], dict[str, Tensor]]] = []
        self.measured: dict[int, dict[str, Tensor]] = {}

    def receive(self, call: AttentionCall) -> None:
        if call.index >= len(self.planes):
            raise ValueError(
                f"the model makes more attention calls than the {len(self.planes)} that planes were given for; "
                "pass planes=find_planes(model, length) of this model"
            )
        # What a call means is asked when all wait together: between two layers nothing of this is in a cache.
        self.waiting.append((call, self.prompts))
        self.numbers += call.keys.numel()
        hold = self.hold
        if hold and waits(call.keys.device):
            hold = max(hold, budget(call.keys.device) // BYTES_A_NUMBER)
        if self.numbers > hold:
            self.measure_held()

    def alike(self) -> Collection[list[LayerHeads]]:
        """The heads of the calls that wait, those that can be measured as one together."""
        found: dict[tuple, list[LayerHeads]] = {}
        for call, prompts in self.waiting:
            device = call.keys.device
            heads = layer_heads(call, self.planes_on(device, call.index), prompts)
            shapes = [None if x is None else x.shape for x in (heads.query, heads.keys, heads.visible, heads.sinks)]
            turned = heads.angles.shape if waits(device) else self.first_alike[call.index]
            kind = (turned, device, heads.scale, heads.softcap, heads.query.dtype, *shapes)
            found.setdefault(kind, []).append(heads)
        return found.values()

    def planes_on(self, device: torch.device, index: int) -> Planes:
        """Planes of a call, moved to its device once; angles that layers share are one tensor there."""
        if (index, device) not in self.planes_there:
            found, alike = self.planes[index], self.first_alike[index]
            parts = {name: getattr(found, name).to(device) for name in ("order", "angles", "gain")}
            if alike != index:
                parts["angles"] = self.planes_on(device, alike).angles
            self.planes_there[index, device] = replace(found, **parts)
        return self.planes_there[index, device]

    @functools.cached_property
    def first_alike(self) -> list[int]:
        """The first call with the same angles as each."""
        first: dict[Any, int] = {}
        angles = [here.angles for here in self.planes]
        return [first.setdefault(i if is_fake(x) else tuple(x.tolist()), i) for i, x in enumerate(angles)]

    def measure_held(self) -> None:
        """Measure what waits; what is found stays on its device while it is little."""
        for group in self.alike():
            found = self.measure(joined(group))
            self.results.append(([heads.layer for heads in group], {k: x.detach() for k, x in found.items()}))
        self.waiting, self.numbers = [], 0
        if sum(x.numel() for _, found in self.results for x in found.values()) > NUMBERS_KEPT:
            self.bring()

    def bring(self) -> None:
        """Move what was found to the CPU, by layer."""
        parts = brought([x for _, found in self.results for x in found.values()])
        for layers, found in self.results:
            for name in found:
                by_layer = parts.pop(0).flatten(1, 2).chunk(len(layers))
                for layer, part in zip(layers, by_layer, strict=True):
                    self.measured.setdefault(layer, {})[name] = part
        self.results = []

    def collected(self) -> list[dict[str, Tensor]]:
        """What was found of all layers in their order, on the CPU."""
        self.bring()
        measured, self.measured = self.measured, {}
        return [measured[layer] for layer in sorted(measured)]


def brought(tensors: list[Tensor]) -> list[Tensor]:
    """Tensors on the CPU, in one transfer from each device."""
    found = list(tensors)
    for device in {x.device for x in tensors if x.device.type != "cpu"}:
        there = [i for i, x in enumerate(tensors) if x.device == device]
        together = torch.cat([tensors[i].flatten().double() for i in there]).cpu()
        parts = together.split([tensors[i].numel() for i in there])
        for i, part in zip(there, parts, strict=True):
            found[i] = part.to(tensors[i].dtype).view(tensors[i].shape)
    return found


def stacked(parts: list[Tensor], dim: int) -> Tensor:
    """Parts that may differ in their trailing sizes, in one tensor; NaN where there is nothing."""
    return torch.stack(_filled(parts), dim)


def _filled(parts: list[Tensor], but: int | None = None) -> list[Tensor]:
    """Parts of one shape, but for one dimension, filled up with NaN where they are smaller than others."""
    sizes = [[n for dim, n in enumerate(part.shape) if dim != but] for part in parts]
    if all(size == sizes[0] for size in sizes):
        return parts
    whole = [max(size) for size in zip(*(part.shape for part in parts), strict=True)]
    filled = []
    for part in parts:
        size = [part.shape[dim] if dim == but else n for dim, n in enumerate(whole)]
        filled.append(torch.full(size, torch.nan, dtype=torch.promote_types(part.dtype, torch.float32)))
        filled[-1][tuple(slice(n) for n in part.shape)] = part
    return filled

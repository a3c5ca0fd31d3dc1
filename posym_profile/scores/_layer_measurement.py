"""Measure layers of a language model as they come: one forward pass, any function of a layer's query and keys.

Layers are measured while the model runs and are not kept, so memory stays that of the pass. Those that are alike may
wait, to be measured as one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posym_core._checks import Checks, is_asynchronous
from posym_core.store import map_batches
from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.capture._capturing import check_input_ids, forward_with_hook
from posym_profile.capture._padding import remove_padding
from posym_profile.capture._routes import Route
from posym_profile.capture._wrappers import unwrap
from posym_profile.planes._rotary_planes import Planes, find_planes
from posym_profile.planes._shifted_keys import move_to_cpu
from posym_profile.scores._layer_heads import LayerHeads, join_layers, read_layer_heads

# Numbers in the keys of layers that wait to be scored together: small layers cost mostly calls, large ones memory.
NUMBERS_HELD = 2**20
# On a GPU, where each operation is dear and memory larger.
NUMBERS_HELD_ON_GPU = 2**26

# Tokens whose queries are measured: negative from the end, as Python counts, or all.
Queries = Sequence[int]
LAST = (-1,)


def map_layers(
    model: nn.Module,
    input_ids: Int[Tensor, "prompt token"] | Int[Tensor, " token"],
    measure: Callable[[LayerHeads], dict[str, Tensor]],
    *,
    attention_mask: Tensor | None = None,
    progress: bool = False,
    batch_size: int | None = None,
    planes: Sequence[Planes] | None = None,
    hold: int = 0,
    queries: Queries = LAST,
) -> dict[str, Float[Tensor, "prompt *query layer head *rest"]]:
    """Measure the heads of every layer at the last token of every prompt, or at others, in one forward pass a batch.

    Args:
        model: see :func:`posym_profile.profile`.
        input_ids: ``[prompt, token]``, or one prompt ``[token]``.
        measure: called with the :class:`LayerHeads` of every layer and batch; returns named tensors of shape
            ``[prompt, key_head, group, ...]``, as functions on heads do when given ``heads.query`` and ``heads.keys``.
            It may do several things at once: what is captured is there only now. It is called for one query after the
            other, and :attr:`LayerHeads.token` says which; and again for fewer prompts where memory is short.
        attention_mask: see :func:`posym_profile.profile`; ``measure`` sees no padding.
        progress: show a progress bar.
        batch_size: prompts per forward pass; by default about 4,096 tokens, or less where memory is short.
        planes: what :func:`posym_profile.planes.find_planes` found for this model and length.
        hold: layers that are alike may be measured together, as if they were more prompts, while their keys are no
            more numbers than this; ``measure`` may then not ask which layer it is.
        queries: tokens whose queries are measured, from 0, or negative from the end.

    Returns:
        The measurements by name, ``[prompt, layer, head, ...]`` on the CPU, or ``[prompt, query, layer, head, ...]``
        of several queries; NaN where layers or prompts differ in shape.

    Raises:
        UnsupportedModelError: if the model is not a decoder with rotary encoding that can be captured.
    """
    from tqdm import tqdm

    model = unwrap(model)
    runs = remove_padding(model, check_input_ids(input_ids, least=2), attention_mask, least=2)
    lengths = {run.shape[1] for run in runs}
    numbers = resolve_queries(queries, lengths)
    planes_at = {length: find_planes(model, length) if planes is None else planes for length in lengths}
    route: Route | None = None
    first = 0

    def measure_batch(prompts: Tensor) -> dict[str, Tensor]:
        nonlocal route, first
        length, rows = prompts.shape[1], slice(first, first + len(prompts))
        tokens = [None if query % length == length - 1 else query % length for query in numbers]
        layers = _Layers(measure, hold, planes_at[length], tokens, rows)
        with Checks():
            asked = [-1 if token is None else token for token in tokens]
            route = forward_with_hook(model, prompts, layers.receive, rows=asked, route=route)
            layers.measure_held()
        measured, first = layers.collect(), rows.stop
        bar.update(len(prompts))
        return measured

    with tqdm(total=sum(map(len, runs)), unit="prompt", disable=not progress) as bar:
        batches = [measured for run in runs for measured in map_batches(measure_batch, run, batch_size)]
    return {name: torch.cat(_fill_up([batch[name] for batch in batches], but=0)) for name in batches[0]}


def resolve_queries(queries: Queries, lengths: Collection[int]) -> list[int]:
    """Return queries as whole numbers that prompts of these lengths have."""
    numbers = [operator.index(query) for query in queries]
    for length in sorted({*lengths}):
        different = {query % length for query in numbers}
        if not numbers or len(different) < len(numbers) or not -length <= min(numbers) <= max(numbers) < length:
            raise ValueError(
                f"queries must name one token or more, each once, from {-length} to {length - 1} for prompts of "
                f"{length} tokens; got {numbers}"
            )
    return numbers


class _Layers:
    """Measures the layers of a pass as they come, or holds back those that are alike to measure them as one.

    Held layers stand behind each other in the dimension of prompts. No more than ``hold`` numbers of keys wait, or as
    many as memory allows on a device where each operation is dear.
    """

    def __init__(
        self,
        measure: Callable[[LayerHeads], dict[str, Tensor]],
        hold: int,
        planes: Sequence[Planes],
        tokens: Sequence[int | None],
        prompts: slice,
    ) -> None:
        self.measure, self.hold, self.planes, self.tokens, self.prompts = measure, hold, planes, tokens, prompts
        # Planes on the device of their calls; those that layers share are one there, too.
        self.moved: dict[tuple[int, torch.device], Planes] = {}
        # Calls with the number of the row that is meant.
        self.waiting: list[tuple[AttentionInputs, int]] = []
        self.numbers = 0
        # Measurements with their layers and rows.
        self.results: list[tuple[list[tuple[int, int]], dict[str, Tensor]]] = []

    def receive(self, call: AttentionInputs) -> None:
        """Let a call wait; measure what waits when there is no room for more."""
        if call.index >= len(self.planes):
            raise ValueError(
                f"the model makes more attention calls than the {len(self.planes)} that planes were given for; "
                "pass planes=find_planes(model, length) of this model"
            )
        hold = self.hold
        if hold and is_asynchronous(call.keys.device):
            hold = max(hold, NUMBERS_HELD_ON_GPU)
        # What a call means is asked when all wait together: between two layers nothing of this is in a cache.
        for row in range(len(self.tokens)):
            self.waiting.append((call, row))
            self.numbers += call.keys.numel()
            if self.numbers > hold:
                self.measure_held()

    def measure_held(self) -> None:
        """Measure what waits, in groups that are alike; results stay on their device until the pass is over."""
        groups: dict[tuple, list[tuple[int, LayerHeads]]] = {}
        for call, row in self.waiting:
            planes = self.move_planes(call)
            heads = read_layer_heads(call, planes, self.prompts, row, self.tokens[row])
            shapes = [None if x is None else x.shape for x in (heads.query, heads.keys, heads.visible, heads.sinks)]
            kind = (id(planes), heads.scale, heads.softcap, heads.query.dtype, heads.token is None, *shapes)
            groups.setdefault(kind, []).append((row, heads))
        for group in groups.values():
            result = self.measure(join_layers([heads for _, heads in group]))
            places = [(heads.layer, row) for row, heads in group]
            self.results.append((places, {name: x.detach() for name, x in result.items()}))
        self.waiting, self.numbers = [], 0

    def move_planes(self, call: AttentionInputs) -> Planes:
        """Return the planes of a call on its device."""
        planes, device = self.planes[call.index], call.keys.device
        if (id(planes), device) not in self.moved:
            parts = {name: getattr(planes, name).to(device) for name in ("order", "angles", "gain")}
            self.moved[id(planes), device] = replace(planes, **parts)
        return self.moved[id(planes), device]

    def collect(self) -> dict[str, Float[Tensor, "prompt *query layer head *rest"]]:
        """Return the results of all layers in their order, on the CPU."""
        parts = iter(move_to_cpu([x for _, result in self.results for x in result.values()]))
        measured: dict[str, dict[tuple[int, int], Tensor]] = {}
        for places, result in self.results:
            for name in result:
                by_place = next(parts).flatten(1, 2).chunk(len(places))
                measured.setdefault(name, {}).update(zip(places, by_place, strict=True))
        together = {}
        for name, at in measured.items():
            layers = sorted({layer for layer, _ in at})
            rows = [stack_padded([at[layer, row] for layer in layers], dim=1) for row in range(len(self.tokens))]
            together[name] = rows[0] if len(rows) == 1 else stack_padded(rows, dim=1)
        return together


def stack_padded(parts: list[Tensor], dim: int) -> Tensor:
    """Stack parts that may differ in their trailing sizes; NaN where there is nothing."""
    return torch.stack(_fill_up(parts), dim)


def _fill_up(parts: list[Tensor], but: int | None = None) -> list[Tensor]:
    """Bring parts to one shape, but for one dimension; NaN fills up those that are smaller than others."""
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

"""Positional and symbolic scores of all heads of a language model, in the forward pass that yields them.

Anything else that is a function of one layer's last query and keys can be measured on the way: :func:`profile` is one
use of :func:`profile_with`. Layers are measured while the model runs and are not kept, so memory stays that of the
pass.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posym_core.checks import flags_together, is_fake, require_count, waits
from posym_core.inspection.attention_calls import AttentionCall
from posym_core.inspection.capturing import check_input_ids, input_device, watched_forward
from posym_core.inspection.heads import LayerHeads, joined, layer_heads
from posym_core.inspection.padding import unpadded
from posym_core.inspection.planes import Planes, find_planes
from posym_core.inspection.visibility import (
    WAYS_OUT,
    HiddenBlocksWarning,
    LongPromptWarning,
    hidden_blocks_said,
    listed,
    long_prompts_said,
    tokens_beyond,
)
from posym_core.inspection.wrappers import unwrapped
from posym_core.metrics.blocks import Swaps
from posym_core.metrics.memory import budget
from posym_core.metrics.swaps import SwapScores, score_swaps

# Tokens of one forward pass: enough to use the machine, few enough for a small one.
TOKENS_A_BATCH = 4096
# Numbers in the keys of layers that wait to be scored together: small layers cost mostly calls, large ones memory.
NUMBERS_HELD = 2**20
# On a GPU, which has memory for more: of what scoring may take, a quarter for float32 numbers that wait.
BYTES_A_NUMBER = 16
# Numbers in results that may stay on a GPU until the pass is over.
NUMBERS_KEPT = 2**24

Score = Literal["positional", "symbolic", "entropy"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Scores of every head of a model on every prompt, on the CPU; NaN where a layer has fewer heads or planes.

    Attributes:
        positional: ``s_POS``, ``[prompt, layer, head]`` or ``[prompt, layer, head, plane]``.
        symbolic: ``s_SYM``.
        entropy: entropy of the attention over all visible keys, divided by its maximum.
        visible_blocks: how many blocks the prompt's last token sees whole in each layer, ``[prompt, layer]``. The
            others lie beyond a sliding window, or are cut by its edge: what is swapped into them gets no attention, or
            less, whatever a head looks for, so that heads of such layers come out as positional. None if not counted.
        tokens_beyond: how many tokens each prompt has more than the model's ``max_position_embeddings``, ``[prompt]``;
            0 for all where the configuration names no limit. None if not asked.
    """

    positional: Float[Tensor, "prompt layer head *plane"]
    symbolic: Float[Tensor, "prompt layer head *plane"]
    entropy: Float[Tensor, "prompt layer head *plane"]
    visible_blocks: Int[Tensor, "prompt layer"] | None = None
    tokens_beyond: Int[Tensor, " prompt"] | None = None

    def frame(self) -> Any:
        """A row for each head on each prompt (or each plane), in their order; heads that a layer lacks have none.

        Returns:
            A pandas ``DataFrame`` if pandas is installed, else a dict of its columns as NumPy arrays: ``prompt``,
            ``layer``, ``head``, with ``per_frequency`` also ``plane``, then the scores and, where they were counted,
            ``visible_blocks``.
        """
        # A head that sees fewer than two blocks has no score and an entropy all the same.
        there = ~self.entropy.isnan()
        names = ("prompt", "layer", "head", "plane")[: there.ndim]
        places = [place.numpy() for place in there.nonzero(as_tuple=True)]
        columns: dict[str, Any] = dict(zip(names, places, strict=True))
        columns |= {name: getattr(self, name)[there].numpy() for name in get_args(Score)}
        if self.visible_blocks is not None:
            columns["visible_blocks"] = self.visible_blocks.numpy()[places[0], places[1]]
        try:
            from pandas import DataFrame
        except ModuleNotFoundError:
            return columns
        return DataFrame(columns)

    def top(self, k: int, score: Score) -> list[tuple[int, int]]:
        """The ``k`` heads of the highest score, mean over prompts, as ``(layer, head)``, the highest first.

        Layers are numbered in the order in which the model attends; those without attention do not count.

        Args:
            k: how many heads, at least 1.
            score: ``"positional"``, ``"symbolic"`` or ``"entropy"``.

        Raises:
            ValueError: if ``k`` or ``score`` is none of these, or planes are scored instead of heads.
        """
        if score not in get_args(Score):
            raise ValueError(f"score must be one of {', '.join(get_args(Score))}; got {score!r}")
        values: Tensor = getattr(self, score)
        if values.ndim != 3:
            raise ValueError("planes are scored, and top names heads; profile without per_frequency")
        require_count("k", k, 1)
        mean = values.nanmean(0)
        heads = int((~mean.isnan()).sum())
        if k > heads:
            raise ValueError(f"k must be at most the number of heads, {heads}; got {k}")
        best = mean.flatten().nan_to_num(-torch.inf).argsort(descending=True, stable=True)[:k]
        return [divmod(place, mean.shape[1]) for place in best.tolist()]


def profile(
    model: nn.Module,
    input_ids: Int[Tensor, "prompt token"] | Int[Tensor, " token"],
    attention_mask: Tensor | None = None,
    *,
    start: int,
    block_length: int,
    blocks: int | None = None,
    tau: float = 1e-4,
    eps: float = 1e-8,
    per_frequency: bool = False,
    progress: bool = True,
    batch_size: int | None = None,
    planes: Sequence[Planes] | None = None,
    visible_only: bool | None = None,
) -> Profile:
    """Positional and symbolic scores of every head at the last token of every prompt.

    Urrutia et al., *Decoupling Positional and Symbolic Attention in Transformers*, section 4: the keys of the blocks
    are swapped at each head's own input, with everything else fixed. Where keys mix neighbouring tokens before they are
    rotated (Zaya convolves them), swapped keys are not the keys of swapped tokens.

    Args:
        model: any Hugging Face decoder with rotary encoding, in evaluation mode; see :func:`posym_core.load_model`. It
            may be wrapped by what :func:`posym_core.inspection.wrappers.unwrapped` knows.
        input_ids: ``[prompt, token]``, or one prompt ``[token]``.
        attention_mask: 1 for tokens and 0 for padding, of the shape of ``input_ids``. Every prompt is run and scored
            without its padding, and those of one length that follow each other together. None for no padding.
        start: first token of the first block, counted from the prompt's first token that is no padding.
        block_length: tokens per block.
        blocks: number of blocks; by default as many as fit between ``start`` and the prompt's last token.
        tau: temperature of the weights over pairs of blocks.
        eps: floor of the norms in the cosine.
        per_frequency: score every rotation plane as a head of its own.
        progress: show a progress bar.
        batch_size: prompts per forward pass; by default about 4,096 tokens.
        planes: what :func:`posym_core.inspection.planes.find_planes` found for this model and length, to save asking
            again; for prompts of several lengths, only if the model's angles do not depend on them.
        visible_only: what to do in layers whose last token does not see all blocks. True scores those alone that it
            sees whole, as :func:`posym_core.swap_scores` does when it is given just those; fewer than two have no
            scores (NaN). False scores all. None does so, too, and warns.

    Returns:
        A :class:`Profile`; one prompt ``[token]`` gives a batch of one.

    Raises:
        UnsupportedModelError: if the model is not a decoder with rotary encoding that can be captured.
        TypeError, ValueError: if ``input_ids``, ``attention_mask`` or the blocks do not fit, prompts begin or end with
            pad tokens that no mask tells of, or ``tau`` or ``eps`` is out of range.

    Warns:
        HiddenBlocksWarning: if a layer does not see all blocks, and ``visible_only`` is None.
        LongPromptWarning: if prompts are longer than ``max_position_embeddings`` of the model's configuration.
    """
    model = unwrapped(model)
    runs = unpadded(model, check_input_ids(input_ids, least=3), attention_mask, least=3)
    swaps = Swaps(start=start, block_length=block_length, blocks=blocks, tau=tau, eps=eps)
    lengths = [run.shape[1] for run in runs for _ in run]
    blocks_of = {length: swaps.fitted(length).number for length in sorted(set(lengths))}
    if said := long_prompts_said(tokens_beyond(model, lengths)):
        warnings.warn(said, LongPromptWarning, stacklevel=2)
    measure = functools.partial(scores_of, swaps=swaps, per_frequency=per_frequency, visible_only=bool(visible_only))
    measured = _measured(
        model, runs, measure, progress=progress, batch_size=batch_size, planes=planes, hold=NUMBERS_HELD
    )
    found = profile_of(measured, model, lengths)
    if visible_only is None and not is_fake(found.entropy):
        said = hidden_blocks_said(visible_counts(measured).tolist(), [blocks_of[length] for length in lengths])
        if said:
            warnings.warn(f"{said}; {WAYS_OUT}", HiddenBlocksWarning, stacklevel=2)
    return found


def scores_of(
    heads: LayerHeads, swaps: Swaps, *, per_frequency: bool = False, visible_only: bool = False
) -> dict[str, Tensor]:
    """What a profile keeps of a layer's heads: scores, and the number of visible blocks once a head."""
    swaps = swaps.fitted(heads.keys.shape[-2])
    seen = heads.seen_blocks(swaps)
    if visible_only and not seen.all():
        scores = _scores_over(seen, heads, swaps, per_frequency)
    else:
        scores = _kept(score_swaps(heads, swaps, per_frequency=per_frequency))
    return {**scores, "visible_blocks": seen.sum(-1)[:, None, None].expand(heads.query.shape[:3])}


def _kept(scores: SwapScores) -> dict[str, Tensor]:
    return {name: getattr(scores, name) for name in get_args(Score)}


def _scores_over(
    seen: Bool[Tensor, "prompt block"], heads: LayerHeads, swaps: Swaps, per_frequency: bool
) -> dict[str, Tensor]:
    """Scores over the blocks that are seen whole; NaN where there are fewer than two."""
    found: dict[str, Tensor] = {}
    kinds, kind = seen.unique(dim=0, return_inverse=True)
    for number, run in enumerate(kinds):
        index = (kind == number).nonzero().flatten()
        first, count = int(run.int().argmax()), int(run.sum())
        if not bool(run[first : first + count].all()):
            raise ValueError(
                f"visible_only scores blocks that stand next to each other, but layer {heads.layer} sees blocks "
                f"{listed(run.nonzero().flatten().tolist())} of {len(run)}; pass visible_only=False, or other blocks"
            )
        begin = swaps.start + first * swaps.block_length
        part = replace(swaps, start=begin, blocks=count) if count > 1 else swaps
        scores = _kept(score_swaps(heads.of_prompts(index), part, per_frequency=per_frequency))
        for name, x in scores.items():
            found.setdefault(name, x.new_empty(len(seen), *x.shape[1:]))
            found[name][index] = x if count > 1 or name == "entropy" else torch.nan
    return found


def profile_of(measured: Mapping[str, Tensor], model: nn.Module, lengths: Sequence[int]) -> Profile:
    """The profile that :func:`profile_with` makes of :func:`scores_of`, with the tokens of each prompt."""
    scores = {name: measured[name] for name in get_args(Score)}
    beyond = torch.tensor(tokens_beyond(model, lengths))
    return Profile(**scores, visible_blocks=visible_counts(measured), tokens_beyond=beyond)


def visible_counts(measured: Mapping[str, Tensor]) -> Int[Tensor, "prompt layer"]:
    """Visible blocks of each layer, of which every head tells."""
    return measured["visible_blocks"][:, :, 0].long()


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
        model: see :func:`profile`.
        input_ids: ``[prompt, token]``, or one prompt ``[token]``.
        measure: called with the :class:`LayerHeads` of every layer and batch; returns named tensors of shape
            ``[prompt, key_head, group, ...]``, as functions on heads do when given ``heads.query`` and ``heads.keys``.
            It may do several things at once: what is captured is there only now.
        attention_mask: see :func:`profile`; ``measure`` sees no padding.
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
    return _measured(model, runs, measure, progress=progress, batch_size=batch_size, planes=planes, hold=hold)


def _measured(
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

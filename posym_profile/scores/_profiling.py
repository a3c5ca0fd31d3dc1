"""Score all heads of a language model, positional and symbolic, in the forward pass that yields their keys.

Anything else that is a function of one layer's query and keys is measured in the same way by
:func:`posym_profile.scores.map_layers`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

import posym_core
from posym_core.metrics import BlockLayout, score_swaps
from posym_core.store import list_library_versions
from posym_profile.capture._capturing import check_input_ids
from posym_profile.capture._padding import remove_padding
from posym_profile.capture._wrappers import unwrap
from posym_profile.prompts._drafts import ORIGIN, OriginWarning, Prompts, are_bare_lists
from posym_profile.scores._head_table import SCORES, make_dataset
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import LAST, NUMBERS_HELD, Queries, map_layers, resolve_queries
from posym_profile.scores._visibility import (
    POSITIONAL,
    HiddenBlocksWarning,
    describe_hidden_blocks,
    format_count,
    shorten_name,
)

if TYPE_CHECKING:
    from xarray import Dataset


def profile(
    model: nn.Module,
    prompts: Prompts | Int[Tensor, "prompt token"] | Int[Tensor, " token"],
    attention_mask: Tensor | None = None,
    *,
    start: int | None = None,
    block_length: int | None = None,
    blocks: int | None = None,
    tau: float = 1e-4,
    per_frequency: bool = False,
    energy: bool = False,
    progress: bool = False,
    batch_size: int | None = None,
    visible_only: bool | None = None,
    queries: Queries = LAST,
    labels: bool = False,
    products: torch.dtype | None = None,
) -> Dataset:
    """Score every head, positional and symbolic, at the last token of every prompt, or at others.

    Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*, section 4: the keys of the
    blocks are swapped at each head's own input, with everything else fixed. Where keys mix neighbouring tokens before
    they are rotated (Zaya convolves them), swapped keys are not the keys of swapped tokens.

    Args:
        model: any Hugging Face decoder with rotary encoding, in evaluation mode; see :func:`posym_profile.load_model`.
            It may be wrapped by what :func:`posym_profile.capture.unwrap` knows.
        prompts: a task's, which know their blocks; or token ids ``[prompt, token]``, or one prompt ``[token]``, with
            ``start`` and ``block_length``.
        attention_mask: 1 for tokens and 0 for padding, of the shape of the token ids. Every prompt is run and scored
            without its padding, and those of one length that follow each other together. None for no padding.
        start: first token of the first block, counted from the prompt's first token that is no padding.
        block_length: tokens per block.
        blocks: number of blocks; by default as many as fit between ``start`` and the prompt's last token, whichever
            are the queries.
        tau: temperature of the weights over pairs of blocks; more pairs count than those whose attention differs most,
            the higher it is.
        per_frequency: also score every rotation plane as a head of its own.
        energy: also tell what part of the logits' energy every rotation plane has.
        progress: show a progress bar.
        batch_size: prompts per forward pass; by default about 4,096 tokens.
        visible_only: what to do in layers where a query does not see all blocks. True scores those alone that it sees
            whole, as :func:`posym_core.swap_scores` does when it is given just those; fewer than two have no scores
            (NaN). False scores all. None does so, too, and warns.
        queries: tokens whose queries are scored, counted like ``start``, or negative from the prompt's end. A model
            with a causal mask sees no block behind a query: with ``visible_only=True`` a token has the scores of the
            last token of a prompt that ends there. Each costs as much as the last token.
        labels: also say how much each head is of the kinds that :func:`posym_profile.scores.measure_head_labels`
            tells; a pass more over short prompts of its own.
        products: dtype in which queries and keys are multiplied, see :func:`posym_core.swap_scores`. By default
            ``torch.float64``, but ``torch.float32`` on cards where that is many times slower: those whose compute
            capability is not 6.0, 7.0, 8.0, 9.0 or 10.0.

    Returns:
        An :class:`xarray.Dataset` with the dimensions ``prompt``, ``layer``, ``head``, and behind the prompts'
        ``query`` where several were asked for. NaN where a layer has fewer heads or planes than others.

        * ``positional``, ``symbolic``: the scores; ``entropy`` of the attention over all visible keys, divided by its
          maximum.
        * ``visible_blocks`` ``[prompt, layer]``: blocks that the query sees whole. The others lie beyond a sliding
          window, are cut by its edge, or do not stand before the query: what is swapped into them gets no attention,
          or less, whatever a head looks for, so that heads of such layers come out as positional.
        * ``length``, ``start``, ``block_length``, ``blocks`` ``[prompt]``.
        * with ``labels``: ``previous_token``, ``first_token``, ``induction`` and ``copying`` ``[layer, head]``.
        * with ``per_frequency``: ``plane_positional``, ``plane_symbolic``, ``plane_entropy``; with ``energy``:
          ``plane_energy``; ``[prompt, layer, head, plane]``, and ``plane_angle`` ``[prompt, layer, plane]`` of either,
          in radians a token.

        Its attributes say which model, prompts, options and versions these are.

    Raises:
        UnsupportedModelError: if the model is not a decoder with rotary encoding that can be captured.

    Warns:
        HiddenBlocksWarning: if a layer does not see all blocks, and ``visible_only`` is None.
        OriginWarning: if a task's prompts are lists of one frame, where a symbolic score can be due to origin.

    >>> scores = profile(model, prompts)  # doctest: +SKIP
    >>> scores.symbolic.mean("prompt")[5, 3], scores.to_dataframe(), scores.sel(layer=5)  # doctest: +SKIP
    >>> scores.to_netcdf("scores.nc")  # doctest: +SKIP
    """
    model = unwrap(model)
    input_ids, swaps = read_layout(prompts, start, block_length, blocks, tau)
    runs = remove_padding(model, check_input_ids(input_ids, least=3), attention_mask, least=3)
    lengths = [run.shape[1] for run in runs for _ in run]
    fitted = [swaps.fit(length).number for length in lengths]
    numbers = resolve_queries(queries, lengths)
    scored: dict[str, Any] = {"visible_only": bool(visible_only), "products": products}
    measured = map_layers(
        model,
        input_ids,
        functools.partial(measure_layer, swaps=swaps, per_frequency=per_frequency, energy=energy, **scored),
        attention_mask=attention_mask,
        progress=progress,
        batch_size=batch_size,
        hold=NUMBERS_HELD,
        queries=numbers,
    )
    if isinstance(prompts, Prompts) and are_bare_lists(prompts):
        tell = "Pass binding_prompts(lead=8), say, or ask origin_cube how much of it that is"
        warnings.warn(f"prompts are {ORIGIN}. {tell}", OriginWarning, stacklevel=2)
    scores = describe_prompts(make_dataset(measured, numbers), model, lengths, swaps)
    if labels:
        scores = scores.merge(measure_head_labels(model))
    if visible_only is None:
        counts = scores.visible_blocks.values.reshape(len(lengths) * len(numbers), -1).tolist()
        consequence = (
            f"{POSITIONAL}; pass visible_only=True to score visible blocks alone, visible_only=False if hidden ones "
            "are meant to count, or shorter prompts"
        )
        if warning := describe_hidden_blocks(counts, np.repeat(fitted, len(numbers)).tolist(), consequence):
            warnings.warn(warning, HiddenBlocksWarning, stacklevel=2)
    return scores.assign_attrs(tau=float(tau), visible_only=str(visible_only))


def read_layout(
    prompts: Any, start: int | None, block_length: int | None, blocks: int | None, tau: float = BlockLayout.tau
) -> tuple[Tensor, BlockLayout]:
    """Return token ids and the layout of their blocks, which a task's prompts know and others are given."""
    if isinstance(prompts, Prompts):
        given = {"start": start, "block_length": block_length, "blocks": blocks}
        layout = prompts.layout | {name: value for name, value in given.items() if value is not None}
        return prompts.input_ids, BlockLayout(**layout, tau=tau)
    if start is None or block_length is None:
        raise TypeError(
            "token ids do not say where their blocks are; pass start, the first token of the first block, and "
            "block_length, or the prompts of a task instead of their ids"
        )
    return prompts, BlockLayout(start=start, block_length=block_length, blocks=blocks, tau=tau)


def measure_layer(
    heads: LayerHeads, swaps: BlockLayout, *, per_frequency: bool, energy: bool, **options: Any
) -> dict[str, Tensor]:
    """Measure what a profile holds of a layer."""
    measured = score_layer(heads, swaps, **options)
    if per_frequency:
        of_planes = score_layer(heads, swaps, per_frequency=True, **options)
        measured |= {f"plane_{name}": of_planes[name] for name in SCORES}
    if energy:
        of_all = heads.frequency_shares().energy
        measured["plane_energy"] = of_all / of_all.sum(-1, keepdim=True)
    if per_frequency or energy:
        measured["plane_angle"] = heads.angles.expand(*heads.query.shape[:3], -1)
    return measured


def score_layer(
    heads: LayerHeads,
    swaps: BlockLayout,
    *,
    per_frequency: bool = False,
    visible_only: bool = False,
    products: torch.dtype | None = None,
) -> dict[str, Tensor]:
    """Score a layer's heads, and count their visible blocks, as a profile keeps them."""
    swaps = swaps.fit(heads.keys.shape[-2])
    seen = heads.find_seen_blocks(swaps)
    products = products or choose_products(heads.keys.device)

    def score(some: LayerHeads, swaps: BlockLayout) -> dict[str, Tensor]:
        scores = score_swaps(some, swaps, per_frequency=per_frequency, products=products)
        return {name: getattr(scores, name) for name in SCORES}

    scores = _score_seen(score, seen, heads, swaps) if visible_only and not seen.all() else score(heads, swaps)
    return {**scores, "visible_blocks": seen.sum(-1)[:, None, None].expand(heads.query.shape[:3])}


def choose_products(device: torch.device) -> torch.dtype:
    """Return the dtype for products on a device, float64 unless it is many times slower there than float32."""
    if device.type != "cuda":
        return torch.float64
    major, minor = torch.cuda.get_device_capability(device)
    return torch.float64 if minor == 0 and major <= 10 else torch.float32


def _score_seen(
    score: Callable[[LayerHeads, BlockLayout], dict[str, Tensor]],
    seen: Bool[Tensor, "prompt block"],
    heads: LayerHeads,
    swaps: BlockLayout,
) -> dict[str, Tensor]:
    """Score over the blocks that are seen whole; NaN where there are fewer than two."""
    whole: dict[str, Tensor] = {}
    kinds, kind = seen.unique(dim=0, return_inverse=True)
    for number, run in enumerate(kinds):
        index = (kind == number).nonzero().flatten()
        first, count = int(run.int().argmax()), int(run.sum())
        if not bool(run[first : first + count].all()):
            raise ValueError(
                f"visible_only scores blocks that stand next to each other, but layer {heads.layer} sees blocks "
                f"{run.nonzero().flatten().tolist()} of {len(run)}; pass visible_only=False, or other blocks"
            )
        begin = swaps.start + first * swaps.block_length
        part = replace(swaps, start=begin, blocks=count) if count > 1 else swaps
        for name, x in score(heads.select_prompts(index), part).items():
            whole.setdefault(name, x.new_empty(len(seen), *x.shape[1:]))
            whole[name][index] = x if count > 1 or name == "entropy" else torch.nan
    return whole


def describe_prompts(
    scores: Dataset, model: nn.Module, lengths: Sequence[int], swaps: BlockLayout | None = None
) -> Dataset:
    """Add numbers of prompts, layers and heads, sizes of prompts, and which model, prompts and versions these are."""
    added: dict[str, Any] = {name: (name, np.arange(scores.sizes[name])) for name in ("prompt", "layer", "head")}
    if swaps is not None:
        blocks = [swaps.fit(length).number for length in lengths]
        added |= {"length": ("prompt", [*lengths]), "blocks": ("prompt", blocks)}
        added |= {name: ("prompt", [getattr(swaps, name)] * len(lengths)) for name in ("start", "block_length")}
    sizes = " to ".join(f"{length:,}" for length in sorted({min(lengths), max(lengths)}))
    versions = {**list_library_versions(), "posym-core": posym_core.__version__}
    return scores.assign(added).assign_attrs(
        model=shorten_name(getattr(getattr(model, "config", None), "name_or_path", "") or type(model).__name__),
        prompts=f"{format_count(len(lengths), 'prompt')} of {sizes} tokens",
        versions=", ".join(f"{name} {version}" for name, version in sorted(versions.items())),
    )

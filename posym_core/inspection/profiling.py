"""Positional and symbolic scores of all heads of a language model, in the forward pass that yields them.

Anything else that is a function of one layer's last query and keys is measured in the same way by
:func:`posym_core.inspection.layer_measurement.profile_with`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posym_core.checks import is_fake, require_count
from posym_core.inspection.capturing import check_input_ids
from posym_core.inspection.heads import LayerHeads
from posym_core.inspection.layer_measurement import NUMBERS_HELD, measured_layers, profile_with
from posym_core.inspection.padding import unpadded
from posym_core.inspection.planes import Planes
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
from posym_core.metrics.swaps import SwapScores, score_swaps

__all__ = ["Profile", "Score", "profile", "profile_of", "profile_with", "scores_of", "visible_counts"]

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
    measured = measured_layers(
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

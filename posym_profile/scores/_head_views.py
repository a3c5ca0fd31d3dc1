"""Measure all that the head explorer shows of a model's heads on prompts of one shape, in one or two passes.

The same keys are cut into blocks of several lengths, and each cut is scored at several temperatures. Urrutia et al.
(2026a, section 4) score heads at one temperature with one sentence a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from posym_core.metrics import BlockLayout, exclusion, score_swaps, student_margin, tabulate_blocks
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import map_layers
from posym_profile.scores._profiling import score_layer

# Planes are scored on so many prompts: they are some hundred heads each, and nearly alike from prompt to prompt.
PLANE_PROMPTS = 8


@dataclass(frozen=True)
class Cuts:
    """The blocks into which the tokens of prompts of one shape are cut, and the temperatures of their scores.

    Args:
        start: first token of the first block.
        span: tokens that are cut.
        lengths: tokens a block, each a divisor of ``span``.
        taus: temperatures of the weights over pairs of blocks.
        shown: the length and the temperature that rotation planes are scored with.
        visible_only: score only the blocks that a layer's last token sees whole, as :func:`posym_profile.profile` does.
    """

    start: int
    span: int
    _: KW_ONLY
    lengths: Sequence[int]
    taus: Sequence[float]
    shown: tuple[int, float]
    visible_only: bool = False

    def make_layout(self, length: int, tau: float) -> BlockLayout:
        """Return the layout of blocks of a length."""
        blocks = {"start": self.start, "block_length": length, "blocks": self.span // length}
        return BlockLayout(**blocks, tau=tau)


def make_head_views(
    model: nn.Module, input_ids: Int[Tensor, "prompt token"], cuts: Cuts, *, progress: bool = False
) -> dict[str, np.ndarray]:
    """Measure what the explorer shows of every head on every prompt; :func:`average_views` makes means of it.

    Args:
        model: see :func:`posym_profile.profile`.
        input_ids: ``[prompt, token]``, of one shape.
        cuts: how they are cut and scored.
        progress: see :func:`posym_profile.profile`.

    Returns:
        ``positional``, ``symbolic`` ``[prompt, layer, head, length, tau]``; ``positional_share``, ``symbolic_share``
        ``[prompt, layer, head, length]`` of the variance of the logarithms of the table of block sums, which at length
        1 is the cross-logit matrix, and NaN where a block gets no attention at all, as beyond a window; ``entropy``
        ``[prompt, layer, head]``; ``attention`` ``[prompt, layer, head, token]`` over all tokens of the prompt; and of
        each plane, ``[prompt, layer, head, plane]``, ``plane_positional`` and ``plane_symbolic`` at the cut and
        temperature that is shown, NaN but for the first prompts, and ``plane_positional_share``,
        ``plane_symbolic_share``, ``plane_energy_share`` over the tokens that are cut. ``plane_angle``
        ``[layer, plane]``, radians a token, 0 where a layer has fewer planes.
    """
    inside = slice(cuts.start, cuts.start + cuts.span)

    def measure_layer(heads: LayerHeads) -> dict[str, Tensor]:
        grid = [[cuts.make_layout(length, tau) for tau in cuts.taus] for length in cuts.lengths]
        scores = [[score_layer(heads, swaps, visible_only=cuts.visible_only) for swaps in row] for row in grid]
        shares = [_measure_shares(heads, row[0]) for row in grid]
        planes = heads.frequency_shares(inside)
        views = {
            name: torch.stack([torch.stack([s[name] for s in row], -1) for row in scores], -2)
            for name in ("positional", "symbolic")
        }
        return views | {
            "positional_share": torch.stack([positional for positional, _ in shares], -1),
            "symbolic_share": torch.stack([symbolic for _, symbolic in shares], -1),
            "entropy": scores[0][0]["entropy"],
            "attention": _compute_attention(heads),
            "plane_positional_share": planes.positional_share,
            "plane_symbolic_share": planes.symbolic_share,
            "plane_energy_share": planes.energy / planes.energy.sum(-1, keepdim=True),
            "plane_angle": heads.angles.expand(*heads.query.shape[:3], -1),
        }

    def measure_planes(heads: LayerHeads) -> dict[str, Tensor]:
        scores = score_swaps(heads, cuts.make_layout(*cuts.shown), per_frequency=True, products=torch.float32)
        return {"plane_positional": scores.positional, "plane_symbolic": scores.symbolic}

    views = map_layers(model, input_ids, measure_layer, progress=progress)
    alone = map_layers(model, input_ids[:PLANE_PROMPTS], measure_planes, progress=progress)
    for name, x in alone.items():
        views[name] = torch.cat([x, x.new_full((len(input_ids) - len(x), *x.shape[1:]), torch.nan)])
    views["plane_angle"] = views["plane_angle"][0, :, 0].nan_to_num(0)
    return {name: x.numpy() for name, x in views.items()}


def _compute_attention(heads: LayerHeads) -> Tensor:
    """Compute the attention of the last token to every token, its own included; a sink keeps its part."""
    products = torch.einsum("...d,...kd->...k", heads.query.double(), heads.keys.double()) * heads.scale
    logits = heads.cap(products).masked_fill(~heads.visible, -torch.inf)
    if heads.sinks is not None:
        logits = torch.cat([logits, heads.sinks[..., None].double().expand(*logits.shape[:-1], 1)], -1)
    return logits.softmax(-1)[..., : heads.keys.shape[-2]].float()


def _measure_shares(heads: LayerHeads, swaps: BlockLayout) -> tuple[Tensor, Tensor]:
    """Measure the positional and symbolic share of logarithms of block sums; NaN where a block gets nothing."""
    logs = tabulate_blocks(heads, swaps).logs
    known = logs.isfinite().all(-1).all(-1)
    shares = exclusion(torch.where(known[..., None, None], logs, 0))
    positional, symbolic = (torch.where(known, x, torch.nan) for x in (shares.positional_share, shares.symbolic_share))
    return positional, symbolic


def average_views(views: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Average :func:`make_head_views` over prompts, in the shapes of ``posym_figures.ARRAYS``; float32.

    Returns:
        ``positional``, ``symbolic`` ``[length, tau, layer, head]`` with the half widths of their 95% intervals over
        prompts (Student's t; NaN for one prompt) as ``positional_margin``, ``symbolic_margin``; ``positional_share``,
        ``symbolic_share`` ``[length, layer, head]``; the others without their first dimension; ``examples``
        ``[prompt, layer, head, token]``, the attention on each prompt; ``angles`` ``[layer, plane]``.
    """
    defined = {name: np.ma.masked_invalid(x) for name, x in views.items() if name != "plane_angle"}
    arrays = {name: x.mean(0, np.float64).filled(np.nan).astype(np.float32) for name, x in defined.items()}
    for name in ("positional", "symbolic"):
        scores = views[name]
        margin = student_margin(scores) if len(scores) > 1 else np.full(scores.shape[1:], np.nan)
        arrays |= {
            name: np.moveaxis(arrays[name], (2, 3), (0, 1)),
            f"{name}_margin": np.moveaxis(margin.astype(np.float32), (2, 3), (0, 1)),
        }
        arrays[f"{name}_share"] = np.moveaxis(arrays[f"{name}_share"], 2, 0)
    return arrays | {"examples": views["attention"].astype(np.float32), "angles": views["plane_angle"]}

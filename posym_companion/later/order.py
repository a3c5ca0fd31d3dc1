"""Order in ``C`` of a prompt's tokens at distances that the prompt does not reach (Du et al., 2026)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.head_measurements import LayerLook, block_tokens, look
from posym_companion.later.later_subjects import LaterClaims, context_prompts, visible_tokens
from posym_companion.later.lost_orders import far_preferred, inversions
from posym_core.metrics import BlockLayout, rotate
from posym_profile.interventions import change_base
from posym_profile.prompts import Prompts
from posym_profile.scores import LayerHeads

# Farthest distances from the query, the last one the context of the packaged model.
LENGTHS = (64, 512, 4096, 32768)
# What every layer's base is multiplied with.
BASES = (0.01, 1.0, 100.0)
# Distances of one length that are looked at.
PLACES = 128
# Text is scored in so many blocks.
BLOCKS = 16
MEASURED = ("contents", "positions", "far", "by_position")
DIMS = {
    "positional symbolic": "prompt layer head",
    " ".join(MEASURED): "base length prompt layer head",
    "sees": "layer",
}


def measure(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Order in ``C`` of a prompt's tokens, put at distances that the prompt does not reach, under three bases.

    Returns:
        ``contents`` and ``positions`` (:func:`posym_companion.later.lost_orders.inversions`), ``far``
        (:func:`posym_companion.later.lost_orders.far_preferred`) and ``by_position``, the part of the variance of ``C``
        that content alone does not explain; ``positional`` and ``symbolic``, the scores on the prompt as it is;
        ``sees``, see :func:`posym_companion.later.later_subjects.visible_tokens`.
    """
    prompts = context_prompts(source, setting)
    swaps = context_swaps(prompts).fit(prompts.input_ids.shape[1])

    def measure_orders(layer: LayerLook) -> Tensor:
        rows = []
        for factor in BASES:
            angles, _ = change_base(times=factor).change(layer.heads.angles)
            for length in LENGTHS:
                distance = distances(length, setting.seed)
                C = logits_at(layer.heads, block_tokens(prompts), distance, angles)
                turned, far = inversions(C), far_preferred(C, distance)
                rows.append(torch.stack([turned.contents, turned.positions, far, 1 - measure_content_share(C)], dim=-1))
        return torch.stack(rows, -2).unflatten(-2, (len(BASES), len(LENGTHS)))

    wanted = {"positional": "positional", "symbolic": "symbolic", "table": measure_orders}
    measured = look(model, prompts, wanted, layout=lambda heads: swaps)
    table = measured["table"].movedim((3, 4, 5), (1, 2, 0))
    arrays = dict(zip(MEASURED, table, strict=True)) | {name: measured[name] for name in ("positional", "symbolic")}
    return {name: x.float().numpy() for name, x in arrays.items()} | {"sees": visible_tokens(model)}


def context_swaps(prompts: Prompts) -> BlockLayout:
    """Text in blocks of some tokens, facts as they are."""
    tokens = prompts.blocks * prompts.block_length
    block = max(prompts.block_length, tokens // BLOCKS)
    return BlockLayout(start=prompts.start, block_length=block, blocks=tokens // block)


def distances(length: int, seed: int) -> Float[Tensor, " position"]:
    """Distances from 1 to ``length``, all or :data:`PLACES` of them drawn at random, in order; float64."""
    drawn = torch.randperm(length, generator=torch.Generator().manual_seed(seed))[:PLACES]
    return 1 + drawn.sort().values.double()


def logits_at(
    heads: LayerHeads, contents: slice, distance: Float[Tensor, " position"], angles: Float[Tensor, " plane"]
) -> Float[Tensor, "prompt key_head group content position"]:
    """``C`` of some keys at any distances behind the query, with any angles; before a soft-cap."""
    count = heads.keys.shape[-2]
    places = torch.arange(count, dtype=torch.float64, device=heads.keys.device)[contents]
    home = rotate(heads.keys[..., contents, :], -places, heads.angles)
    query = rotate(heads.query, -(count - 1), heads.angles)[..., None, :] * heads.scale
    seen = query.expand(*query.shape[:-2], len(distance), -1)
    return home @ rotate(seen, distance.to(query.device), angles).transpose(-1, -2)


def measure_content_share(C: Float[Tensor, "*batch content position"]) -> Float[Tensor, "*batch"]:
    """Part of the variance of ``C`` that the content alone explains; also of matrices that are not square."""
    wide = C.double()
    return wide.mean(-1).var(-1, unbiased=False) / wide.flatten(-2).var(-1, unbiased=False)

"""All that is measured of every head on prompts with blocks, in one pass: scores, shares, attention, planes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from posym_core.metrics import BlockLayout, exclusion, simulate_random_swaps
from posym_profile.interventions import EditedModel
from posym_profile.prompts import Prompts
from posym_profile.scores import LayerHeads, map_layers

SHARES = ("positional", "symbolic", "interaction")
BANDS = 8


def measure_head_scores(operated: EditedModel, prompts: Prompts, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Scores of every head at the last token of prompts, under surgery or none, in float16.

    Args:
        operated: the model; see :func:`posym_profile.interventions.edit_rope`.
        prompts: with their blocks and the block asked about.
        seed: of the null model.

    Returns:
        ``[prompt, layer, head]``: ``positional``, ``symbolic``, ``entropy``; ``null_positional`` and ``null_symbolic``
        of :func:`posym_core.metrics.simulate_random_swaps`; ``facts_attention`` and ``asked_attention``,
        on all blocks and on the one asked about; shares of the variance ``positional_share`` and so on, and ``spread``,
        the standard deviation, of the logits over the blocks' tokens. ``[layer, head, band]``, means over prompts in
        eight bands of planes, fast to slow: ``band_positional_share`` and so on, and ``band_energy_share``, the bands'
        part of the energy.
    """
    swaps = BlockLayout(**prompts.layout)
    inside = slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    generator = torch.Generator().manual_seed(seed)

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        scores = heads.swap_scores(swaps)
        target = prompts.target[heads.prompts].to(scores.attention.device)
        attention = scores.attention * prompts.block_length
        index = target[:, None, None, None].expand(*attention.shape[:-1], 1)
        null = simulate_random_swaps(scores.attention, generator=generator)
        logits = exclusion(heads.cross_logits(inside))
        shares = heads.frequency_shares(inside)
        found = {name: getattr(scores, name) for name in ("positional", "symbolic", "entropy")}
        found |= {"null_positional": null[0], "null_symbolic": null[1], "spread": logits.variance.sqrt()}
        found |= {"facts_attention": attention.sum(-1), "asked_attention": attention.gather(-1, index)[..., 0]}
        found |= {f"{name}_share": getattr(logits, f"{name}_share") for name in SHARES}
        found |= {f"band_{name}_share": getattr(shares, f"{name}_share") for name in SHARES}
        return found | {"band_energy_share": shares.energy / shares.energy.sum(-1, keepdim=True)}

    measured = map_layers(
        operated.model, prompts.input_ids, operated.measuring(one_layer), planes=operated.planes, progress=False
    )
    arrays = {}
    for name, x in measured.items():
        if name.startswith("band_"):
            bands = np.array_split(x.nanmean(0).numpy(), BANDS, axis=-1)
            gather = np.nansum if name == "band_energy_share" else _mean
            x = np.stack([gather(band, axis=-1) for band in bands], axis=-1)
        arrays[name] = np.asarray(x, dtype=np.float16)
    return arrays


def measure_plane_scores(operated: EditedModel, prompts: Prompts, count: int) -> dict[str, np.ndarray]:
    """Of every plane, means over the first prompts: shares, part of the energy, softmax scores of its own.

    Returns:
        ``plane_positional_share`` and so on, ``plane_energy_share``, ``plane_positional`` and ``plane_symbolic``, each
        ``[layer, head, plane]``, in float16.
    """
    swaps = BlockLayout(**prompts.layout)
    inside = slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        shares = heads.frequency_shares(inside)
        single = heads.swap_scores(swaps, per_frequency=True, products=torch.float32)
        found = {f"plane_{name}_share": getattr(shares, f"{name}_share") for name in SHARES}
        found["plane_energy_share"] = shares.energy / shares.energy.sum(-1, keepdim=True)
        return found | {"plane_positional": single.positional, "plane_symbolic": single.symbolic}

    ids = prompts.input_ids[:count]
    measured = map_layers(operated.model, ids, operated.measuring(one_layer), planes=operated.planes, progress=False)
    return {name: x.nanmean(0).numpy().astype(np.float16) for name, x in measured.items()}


def _mean(x: np.ndarray, axis: int) -> np.ndarray:
    """Mean of what is defined; NaN where nothing is."""
    counted = np.isfinite(x)
    total = np.where(counted, x, 0).sum(axis)
    return np.where(counted.any(axis), total / np.maximum(counted.sum(axis), 1), np.nan)

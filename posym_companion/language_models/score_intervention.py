"""Keys swapped inside each head, against a new forward pass over the prompt with the two blocks swapped."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from posym_companion.head_measurements import EPS, TAU
from posym_core.metrics import BlockLayout, list_swap_orders, permute_blocks, score_permutations, tabulate_blocks
from posym_profile.prompts import Prompts
from posym_profile.scores import LayerHeads, map_layers

DIMS = {
    "scores": "task way score prompt layer head",
    "share_error": "task prompt layer head",
    "share_r": "task layer",
}


def measure_intervention(model: torch.nn.Module, prompts: Prompts, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return both ways of swapping blocks on prompts of one task, inside and re-run, over all swaps of two blocks.

    ``share_error`` is how far the share of the pair's attention that its first place gets lies apart, mean over swaps.
    """
    orders = list_swap_orders(prompts.blocks)
    layout = {"start": prompts.start, "block_length": prompts.block_length}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        table = tabulate_blocks(heads, BlockLayout(**layout, blocks=prompts.blocks))
        return {"before": table.attention(), "inside": table.attention(orders)}

    measured = map_layers(model, prompts.input_ids, one_layer, progress=progress)
    permuted = permute_blocks(prompts.input_ids, orders, **layout).flatten(0, 1)
    again = map_layers(model, permuted, lambda heads: {"before": one_layer(heads)["before"]}, progress=progress)[
        "before"
    ]
    after = {
        "inside": measured["inside"],
        "rerun": again.unflatten(0, (len(prompts.input_ids), len(orders))).movedim(1, 3),
    }
    ways = [score_permutations(measured["before"], x, orders, tau=TAU, eps=EPS) for x in after.values()]
    first, second = torch.triu_indices(prompts.blocks, prompts.blocks, 1)
    pair = torch.arange(len(orders))
    shares = [x[..., pair, first] / (x[..., pair, first] + x[..., pair, second]) for x in after.values()]
    by_layer = [x.movedim(1, 0).flatten(1).numpy() for x in shares]
    arrays = {
        "scores": np.stack([np.stack([way.positional.numpy(), way.symbolic.numpy()]) for way in ways]),
        "share_error": (shares[0] - shares[1]).abs().mean(-1).numpy(),
        "share_r": np.array([np.corrcoef(*rows)[0, 1] for rows in zip(*by_layer, strict=True)]),
    }
    return {name: x.astype(np.float32) for name, x in arrays.items()}

"""Scores under other temperatures, floors, blocks and permutations, and shares of the logits' variance."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.head_measurements import EPS, TAU, block_tokens
from posym_core.metrics import (
    BlockLayout,
    Estimate,
    correlate_heads,
    draw_orders,
    exclusion,
    list_swap_orders,
    score_permutations,
    score_swaps,
    tabulate_blocks,
)
from posym_profile.prompts import Prompts
from posym_profile.scores import LayerHeads, map_layers

TAUS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FLOORS = (0.0, 1e-12, 1e-8, 1e-4)
CUTS = (
    "at the facts",
    "single tokens",
    "two tokens a block",
    "two facts a block",
    "one token early",
    "one token late",
    "two tokens late",
    "three tokens late",
    "one fact late",
)
# Draws of the bootstrap whose intervals are kept.
DRAWS = 500
DIMS = {
    "grid": "wording tau eps score layer head",
    "grid_r": "wording tau eps bound",
    "grid_below": "wording tau eps",
    "cut": "wording cut score layer head",
    "cut_r": "wording cut bound",
    "orders": "wording source kind layer head",
    "orders_below": "wording source weighting",
    "orders_rho": "wording weighting score bound",
    "shares": "wording table score layer head",
    "shares_rho": "wording table score bound",
}


def measure(
    model: torch.nn.Module, prompts: Prompts, *, permutations: int, seed: int, progress: bool = True
) -> dict[str, np.ndarray]:
    """Return means over prompts of one wording, correlations over heads, and how often scores add up to less than 1.

    Scores are by temperature and floor (``grid``), by blocks (``cut``), and of swaps and permutations (``orders``).
    """
    generator = torch.Generator().manual_seed(seed)
    orders = draw_orders(prompts.blocks, permutations, generator)
    choices = measure_choices(model, prompts, orders, progress=progress)
    return {name: x.astype(np.float32) for name, x in _summaries(choices).items()}


def measure_choices(
    model: torch.nn.Module, prompts: Prompts, orders: Tensor, *, progress: bool = True
) -> dict[str, Tensor]:
    """Return everything that one capture of queries and keys says about the choices, ``[prompt, layer, head, ...]``."""
    swaps = list_swap_orders(prompts.blocks)
    inside = block_tokens(prompts)
    cuts = list_cuts(prompts)

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        home = prompts.layout

        def both(cut: dict[str, int], tau: float = TAU, eps: float = EPS) -> Tensor:
            scores = score_swaps(heads, BlockLayout(**cut, tau=tau, eps=eps))
            return torch.stack([scores.positional, scores.symbolic], -1)

        table = tabulate_blocks(heads, BlockLayout(**home))
        before = table.attention()
        kinds = []
        for source in (swaps, orders):
            after = table.attention(source)
            # With so high a temperature all orders weigh the same.
            both_ways = [score_permutations(before, after, source, tau=tau, eps=EPS) for tau in (TAU, 1e30)]
            kinds.append(torch.stack([x for way in both_ways for x in vars(way).values()], -1))
        parts = [exclusion(heads.cross_logits()[..., inside, inside].double()), exclusion(table.logs)]
        return {
            "grid": torch.stack([torch.stack([both(home, tau, eps) for eps in FLOORS], -2) for tau in TAUS], -3),
            "cut": torch.stack([both(cut) for cut in cuts.values()], -2),
            "orders": torch.stack(kinds, -2),
            "shares": torch.stack([torch.stack([x.positional_share, x.symbolic_share], -1) for x in parts], -2),
        }

    return map_layers(model, prompts.input_ids, one_layer, progress=progress)


def list_cuts(prompts: Prompts) -> dict[str, dict[str, int]]:
    """Return the blocks of every cut of :data:`CUTS`, as many as fit within the facts.

    Only the cut that begins a token early takes in what stands before the facts, and it has as many blocks as facts.
    """
    fact = prompts.block_length
    stop = prompts.start + prompts.blocks * fact
    shifts = (0, 0, 0, 0, -1, 1, 2, 3, fact)
    lengths = (fact, 1, 2, 2 * fact, fact, fact, fact, fact, fact)
    return {
        name: {
            "start": prompts.start + shift,
            "block_length": length,
            "blocks": (stop - prompts.start - max(shift, 0)) // length,
        }
        for name, shift, length in zip(CUTS, shifts, lengths, strict=True)
    }


def _summaries(found: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Return means with heads last, correlations with intervals, and how often scores add up to less than 1."""
    grid, cut, orders, shares = (found[name].double() for name in ("grid", "cut", "orders", "shares"))
    right = found["cut"][..., 0, :].double()

    def rows(x: Tensor, statistic: Any) -> np.ndarray:
        """Return a statistic of every ``[prompt, layer, head]`` along the dimensions before the last."""
        flat = x.flatten(3, -2) if x.ndim > 4 else x[..., None, :]
        estimates = [statistic(flat[..., place, 0], flat[..., place, 1]) for place in range(flat.shape[3])]
        return np.array(estimates).reshape(*x.shape[3:-1], 3)

    def spearman(x: Tensor, y: Tensor) -> list[float]:
        return _three(correlate_heads(x, y, draws=DRAWS, by_rank=True))

    def below(x: Tensor) -> np.ndarray:
        return (x.sum(-1) < 1 - 1e-6).double().mean((0, 1, 2)).numpy()

    kinds = orders.unflatten(-1, (2, 2))
    return {
        "grid": grid.mean(0).movedim((0, 1), (-2, -1)).numpy(),
        "grid_r": rows(grid, lambda x, y: _three(correlate_heads(x, y, draws=DRAWS))),
        "grid_below": below(grid),
        "cut": cut.mean(0).movedim((0, 1), (-2, -1)).numpy(),
        "cut_r": rows(cut, lambda x, y: _three(correlate_heads(x, y, draws=DRAWS))),
        "orders": orders.mean(0).movedim((0, 1), (-2, -1)).numpy(),
        "orders_below": below(kinds),
        "orders_rho": np.array(
            [[spearman(kinds[..., 0, way, s], kinds[..., 1, way, s]) for s in range(2)] for way in range(2)]
        ),
        "shares": shares.mean(0).movedim((0, 1), (-2, -1)).numpy(),
        "shares_rho": np.array([[spearman(right[..., s], shares[..., k, s]) for s in range(2)] for k in range(2)]),
    }


def _three(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]

"""How exactly each architecture is captured: tiny random models against their own eager attention, contents moved."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from posym_core.inspection.capture import capture
from posym_core.inspection.heads import layer_heads
from posym_core.inspection.planes import find_planes

LENGTH = 44


def rows() -> Iterator[str]:
    """A row an architecture: largest difference of attention weights, and of logits after contents were moved."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
    from architectures import ROTARY, Swapped, shared, tokens  # pyright: ignore[reportMissingImports]

    ids = tokens(2, LENGTH)
    for name in ROTARY:
        with torch.no_grad():
            eager = shared(name, "eager")(ids, output_attentions=True, use_cache=False).attentions
        model = shared(name)
        calls, planes = capture(model, ids), find_planes(model, LENGTH)
        weights = max(
            float((call.weights()[:, :, 0] - own[:, :, -1]).abs().max()) for call, own in zip(calls, eager, strict=True)
        )
        order = [*torch.randperm(LENGTH - 1, generator=torch.Generator().manual_seed(0)).tolist(), LENGTH - 1]
        moved = 0.0
        for call, found in zip(Swapped(model, ids).calls_in_order(order), planes, strict=True):
            still = layer_heads(calls[call.index], found).cross_logits().flatten(1, 2)
            if call.softcap is not None:
                still = call.softcap * torch.tanh(still / call.softcap)
            moved = max(moved, float((still[..., order, range(LENGTH)] - call.logits()[:, :, 0]).abs().max()))
        layouts = dict.fromkeys(found.description.split(",")[0] + f", {found.rotated} planes turn" for found in planes)
        yield f"| {name} ({'; '.join(layouts)}): weights, logits of moved contents | {weights:.0e}, {moved:.0e} |"

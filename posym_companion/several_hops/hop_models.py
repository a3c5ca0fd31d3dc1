"""Trained models as a page runs them in the browser."""

from __future__ import annotations

from typing import Any

import torch

from posym_companion.results import load_result
from posym_companion.several_hops.gptj import run_with_edits
from posym_companion.several_hops.hop_figure import HopModel
from posym_companion.several_hops.multihop import MultihopSettings


def hop_model(model: Any, settings: MultihopSettings) -> HopModel:
    """Return a trained model with the example of its result, and what it does there.

    Until a page has loaded the weights it shows this first state: attention of the model's heads, and its answer.
    """
    example = load_result(settings.name)["example_tokens"][settings.hops - 1]
    seen: list[torch.Tensor] = []
    logits = run_with_edits(
        model, torch.tensor(example)[None], seen=lambda layer, weights, _: seen.append(weights[0, 0])
    )
    return HopModel(
        settings.make_task(),
        {name: x.detach().numpy() for name, x in model.named_parameters()},
        angles=settings.angles,
        example=example,
        label=settings.task.capitalize(),
        source=settings.name,
        attention=torch.stack(seen),
        logits=logits[0],
    )

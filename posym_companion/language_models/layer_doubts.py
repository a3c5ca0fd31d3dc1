"""Doubts about scores by layer, before a trend is believed: attention, weights of pairs, what stands in front.

A score of a head that gives the facts next to no attention may say nothing. Pairs may be weighed alike, the mark of
beginning may be left out, and facts of the same frame may stand in front. Both packaged families are asked on the same
kinds of prompt. This project's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.language_models.origins import LEAD, WORDINGS, Origins, draw_prompts
from posym_companion.language_models.random_weights import TAUS
from posym_companion.loop import SECOND, Experiment, load_experiment_model, slug
from posym_core.metrics import BlockLayout, measure_block_attention
from posym_profile.language_models import PACKAGED
from posym_profile.scores import LayerHeads, map_layers

# What is done to the prompts.
KINDS: dict[str, dict[str, Any]] = {"as they come": {}, "unmarked": {"beginning": False}, "lead": {"lead": LEAD}}
DIMS = {"kinds": "kind", "positional symbolic": "kind weighting prompt layer head", "mass": "kind prompt layer head"}


@dataclass(frozen=True, kw_only=True)
class LayerDoubts:
    """One model.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        facts: of a prompt.
        prompts: of each kind.
        seed: of the prompts.
    """

    model: str = PACKAGED
    facts: int = 16
    prompts: int = 6
    seed: int = 0

    @property
    def name(self) -> str:
        return f"layer_doubts/{slug(self.model)}"


def full_size() -> list[LayerDoubts]:
    """Both packaged families."""
    return [LayerDoubts(model=model) for model in (PACKAGED, SECOND)]


def small(setting: LayerDoubts | None = None) -> LayerDoubts:
    """A size for trying out."""
    return replace(setting or LayerDoubts(), facts=4, prompts=2)


def measure(model: Any, tokenizer: Any, setting: LayerDoubts, *, progress: bool = True) -> dict[str, np.ndarray]:
    """All arrays of one model.

    Returns:
        By kind of prompt, in half precision: ``positional`` and ``symbolic``
        ``[kind, weighting, prompt, layer, head]``, at the papers' temperature and with all pairs of facts weighed
        alike, and ``mass``, the attention to all facts together, ``[kind, prompt, layer, head]``.
    """
    size: dict[str, Any] = {"facts": setting.facts, "prompts": setting.prompts, "seed": setting.seed}
    rows = []
    for kind in KINDS.values():
        prompts = draw_prompts(tokenizer, Origins(wording=WORDINGS[0], **size, **kind))

        def one_layer(heads: LayerHeads, layout: Any = prompts.layout) -> dict[str, Tensor]:
            scores = [heads.swap_scores(BlockLayout(**layout, tau=tau)) for tau in TAUS.values()]
            groups, back = heads.group_queries(torch.float64)
            _, _, attention, _ = measure_block_attention(groups, BlockLayout(**layout))
            return {
                "positional": torch.stack([x.positional for x in scores], -1),
                "symbolic": torch.stack([x.symbolic for x in scores], -1),
                "mass": back(attention.sum(-1)),
            }

        found = map_layers(model, prompts.input_ids, one_layer, progress=progress)
        rows.append({name: x.movedim(-1, 0) if name != "mass" else x for name, x in found.items()})
    arrays = {name: torch.stack([row[name] for row in rows]).half().numpy() for name in rows[0]}
    return {"kinds": np.array(list(KINDS)), **arrays}


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=load_experiment_model)

"""Doubts about scores by layer, before a trend is believed: attention, weights of pairs, what stands in front.

A score of a head that gives the facts next to no attention may say nothing. Pairs may be weighed alike, the mark of
beginning may be left out, and facts of the same frame may stand in front. Both packaged families are asked on the same
kinds of prompt. This project's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from posym_companion.experiments import SECOND, Experiment, PromptSetting, load_experiment_model, slug
from posym_companion.head_measurements import TAUS, look
from posym_companion.language_models.origins import LEAD, WORDINGS, Origins, draw_prompts
from posym_profile.language_models import PACKAGED

# What is done to the prompts.
KINDS: dict[str, dict[str, Any]] = {"as they come": {}, "unmarked": {"beginning": False}, "lead": {"lead": LEAD}}
DIMS = {"kinds": "kind", "positional symbolic": "kind weighting prompt layer head", "mass": "kind prompt layer head"}


@dataclass(frozen=True, kw_only=True)
class LayerDoubts(PromptSetting):
    """One model."""

    prompts: int = 6

    @property
    def name(self) -> str:
        return f"layer_doubts/{slug(self.model)}"


def full_size() -> list[LayerDoubts]:
    """Both packaged families."""
    return [LayerDoubts(model=model) for model in (PACKAGED, SECOND)]


def measure(model: Any, tokenizer: Any, setting: LayerDoubts, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Scores at the papers' temperature and with all pairs of facts weighed alike, and ``mass``, the attention to all
    facts together, in half precision, by kind of prompt.
    """
    size: dict[str, Any] = {"facts": setting.facts, "prompts": setting.prompts, "seed": setting.seed}
    rows = []
    for kind in KINDS.values():
        prompts = draw_prompts(tokenizer, Origins(wording=WORDINGS[0], **size, **kind))
        measured = look(model, prompts, ("positional", "symbolic", "mass"), taus=TAUS.values(), progress=progress)
        rows.append(
            {name: measured[name].movedim(-1, 0) for name in ("positional", "symbolic")} | {"mass": measured["mass"]}
        )
    arrays = {name: torch.stack([row[name] for row in rows]).half().numpy() for name in rows[0]}
    return {"kinds": np.array(list(KINDS)), **arrays}


EXPERIMENT = Experiment(
    settings=full_size, small={"facts": 4, "prompts": 2}, measure=measure, dims=DIMS, load=load_experiment_model
)

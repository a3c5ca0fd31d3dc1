"""Controls from random weights: scores, frequency use and the planes' law of a language model that has learned nothing.

A number that a trained model shares with its own architecture and random weights is not a trace of learning. Here the
packaged Gemma is measured as it is, taught to bind, and three times with weights drawn again, as training would begin
with them, on the same prompts: two wordings at two lengths. This project's own. Scores are given at the papers'
temperature of the weights over pairs of blocks and with all pairs weighed alike, since correlations depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from posym_companion.experiments import SECOND, Experiment, PromptSetting, load_experiment_model, slug
from posym_companion.head_measurements import TAUS, look, measure_answers
from posym_companion.language_models.binding_profile import FRAMED, FRAMES, name_variant
from posym_companion.one_head.head_geometry import with_random_weights
from posym_profile.language_models import PACKAGED
from posym_profile.prompts import binding_prompts

Weights = Literal["trained", "taught", "random"]
WORDINGS = ("likes", "bought")
FACTS = (16, 64)
DRAWS = (0, 1, 2)
# At how many facts each remedy is measured, by model. Both models are also measured as taught to bind.
MEASURED = {PACKAGED: FRAMED, SECOND: {"none": FRAMED["none"]}}
DIMS = {
    "positional symbolic": "weighting prompt layer head",
    "kept energy": "layer head plane",
    "angles": "layer plane",
    "keys": "",
    "correct alternatives": "prompt",
}


@dataclass(frozen=True, kw_only=True)
class RandomWeights(PromptSetting):
    """One model on one kind of prompt.

    Attributes:
        weights: ``"trained"`` as they come, ``"taught"`` the packaged model taught to bind, or ``"random"``.
        draw: seed of random weights.
        wording: of the binding prompts.
        lead: facts of the same frame in front, in no block.
        half: keep numbers in half precision.
    """

    weights: Weights = "random"
    draw: int = 0
    wording: str = "likes"
    lead: int = 0
    half: bool = False

    @property
    def name(self) -> str:
        kind = f"random{self.draw}" if self.weights == "random" else self.weights
        return f"random_weights/{slug(self.model)}-{kind}_{self.wording}_{self.facts}{name_variant(self)}"


def full_size(model: str = PACKAGED) -> list[RandomWeights]:
    """Return three draws of weights, the trained model and, of a packaged one, the taught, as in ``MEASURED``."""
    kinds: list[dict[str, Any]] = [{"draw": draw} for draw in DRAWS]
    kinds += [{"weights": "trained"}, *([{"weights": "taught"}] if model in MEASURED else [])]
    return [
        RandomWeights(model=model, wording=wording, facts=facts, half=model == SECOND, **kind, **FRAMES[remedy])
        for remedy, lengths in MEASURED.get(model, FRAMED).items()
        for facts in lengths
        for wording in WORDINGS
        for kind in kinds
    ]


def measure(
    setting: RandomWeights, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Return scores, first at the papers' temperature, then with equal weights; means by plane of ``kept``, the part of
    the contents' variance that is symbol, over all keys from the first fact on, and of ``energy``; and the answers.
    """
    name = f"{setting.model}-binds" if setting.weights == "taught" else setting.model
    model, tokenizer = load_experiment_model(name, device=device)
    if setting.weights == "random":
        model = with_random_weights(model, setting.draw)
    drawn: dict[str, Any] = {"facts": setting.facts, "count": setting.prompts, "seed": setting.seed}
    prompts = binding_prompts(tokenizer, template=setting.wording, lead=setting.lead, **drawn)
    keys = slice(prompts.start, prompts.input_ids.shape[1] - 1)
    wanted = {"positional": "positional", "symbolic": "symbolic", "kept": "kept", "energy": "plane_energy_share"}
    measured = look(model, prompts, wanted, keys=keys, taus=TAUS.values(), progress=progress)
    kind = torch.float16 if setting.half else torch.float32
    return {
        **{name: measured[name].movedim(-1, 0).to(kind).numpy() for name in ("positional", "symbolic")},
        **{name: measured[name].nanmean(0).to(kind).numpy() for name in ("kept", "energy")},
        "angles": measured["angles"].numpy(),
        "keys": np.array(keys.stop - keys.start),
        **measure_answers(model, prompts),
    }


EXPERIMENT = Experiment(settings=full_size, small={"facts": 4, "prompts": 3}, measure=measure, dims=DIMS)

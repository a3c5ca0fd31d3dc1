"""What random weights give: scores, frequency use and the planes' law of a language model that has learned nothing.

A number that a trained model shares with its own architecture and random weights is not a trace of learning. Here the
packaged Gemma is measured as it is, taught to bind, and three times with weights drawn anew as training would begin
with them, on the same prompts: two wordings at two lengths. This project's own. Scores are given at the papers'
temperature of the weights over pairs of blocks and with all pairs weighed alike, since correlations depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from posym_companion.language_models.binding_profile import FRAMED, FRAMES, name_variant
from posym_companion.loop import SECOND, Experiment, load_experiment_model, slug
from posym_companion.one_head.head_geometry import with_random_weights
from posym_core.metrics import BlockLayout
from posym_profile.language_models import PACKAGED, choose_answers
from posym_profile.prompts import binding_prompts
from posym_profile.scores import LayerHeads, map_layers

Weights = Literal["trained", "taught", "random"]
WORDINGS = ("likes", "bought")
FACTS = (16, 64)
DRAWS = (0, 1, 2)
# Temperatures of the weights over pairs of blocks: the papers', and one at which all pairs weigh alike.
TAUS = {"1e-4": 1e-4, "equal": 1e6}
DIMS = {
    "positional symbolic": "weighting prompt layer head",
    "kept energy": "layer head plane",
    "angles": "layer plane",
    "keys": "",
    "correct alternatives": "prompt",
}


@dataclass(frozen=True, kw_only=True)
class RandomWeights:
    """One model on one kind of prompt.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        weights: ``"trained"`` as they come, ``"taught"`` the packaged model taught to bind, or ``"random"``.
        draw: seed of random weights.
        wording: of the binding prompts.
        facts: of a prompt.
        prompts: how many.
        seed: of the prompts.
        lead: facts of the same frame in front, in no block.
        varied: whether each fact has a verb of its own.
        half: keep numbers in half precision.
    """

    model: str = PACKAGED
    weights: Weights = "random"
    draw: int = 0
    wording: str = "likes"
    facts: int = 16
    prompts: int = 12
    seed: int = 0
    lead: int = 0
    varied: bool = False
    half: bool = False

    @property
    def name(self) -> str:
        kind = f"random{self.draw}" if self.weights == "random" else self.weights
        return f"random_weights/{slug(self.model)}-{kind}_{self.wording}_{self.facts}{name_variant(self)}"


def full_size(model: str = PACKAGED) -> list[RandomWeights]:
    """Three draws of weights, the trained model and, of a packaged one, the taught, on four kinds of prompt.

    And once more, of all but the second packaged model, on those of them that :func:`framed_lengths` names.
    """
    kinds: list[dict[str, Any]] = [{"draw": draw} for draw in DRAWS]
    kinds += [{"weights": "trained"}, *([{"weights": "taught"}] if model in (PACKAGED, SECOND) else [])]
    return [
        RandomWeights(model=model, wording=wording, facts=facts, half=model == SECOND, **kind, **frame)
        for remedy, frame in FRAMES.items()
        for facts in framed_lengths(remedy, model)
        for wording in WORDINGS
        for kind in kinds
    ]


def framed_lengths(remedy: str, model: str = PACKAGED) -> tuple[int, ...]:
    """At how many facts random weights are measured with a remedy; of the second packaged model without one alone."""
    return FRAMED.get(remedy, ()) if model != SECOND or remedy == "none" else ()


def small(setting: RandomWeights | None = None) -> RandomWeights:
    """A size for trying out."""
    return replace(setting or RandomWeights(), facts=4, prompts=3)


def measure(
    setting: RandomWeights, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """All arrays of one setting.

    Returns:
        ``positional`` and ``symbolic`` ``[weighting, prompt, layer, head]``, first at the papers' temperature, then
        with equal weights; means over prompts ``[layer, head, plane]`` of ``kept``, the part of the contents' variance
        that is symbol, ``S / (S + I)``, over all keys from the first fact to the query's neighbour (``keys`` of them),
        and of ``energy``, the plane's part of its head's; ``angles [layer, plane]``; ``correct`` and
        ``alternatives`` ``[prompt]``.
    """
    name = f"{setting.model}-binds" if setting.weights == "taught" else setting.model
    model, tokenizer = load_experiment_model(name, device=device)
    if setting.weights == "random":
        model = with_random_weights(model, setting.draw)
    drawn: dict[str, Any] = {"facts": setting.facts, "count": setting.prompts, "seed": setting.seed}
    drawn |= {"lead": setting.lead, "vary_frame": setting.varied}
    prompts = binding_prompts(tokenizer, template=setting.wording, **drawn)
    home = prompts.layout
    keys = slice(prompts.start, prompts.input_ids.shape[1] - 1)
    angles: dict[int, Tensor] = {}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        angles[heads.layer] = heads.angles.cpu()
        scores = [heads.swap_scores(BlockLayout(**home, tau=tau)) for tau in TAUS.values()]
        shares = heads.frequency_shares(keys)
        contents = shares.symbolic_share + shares.interaction_share
        return {
            "positional": torch.stack([x.positional for x in scores], -1),
            "symbolic": torch.stack([x.symbolic for x in scores], -1),
            "kept": torch.where(contents > 0, shares.symbolic_share / contents, torch.nan),
            "energy": shares.energy / shares.energy.sum(-1, keepdim=True),
        }

    measured = map_layers(model, prompts.input_ids, one_layer, progress=progress)
    choices = choose_answers(model, prompts)
    kind = torch.float16 if setting.half else torch.float32
    return {
        **{name: measured[name].movedim(-1, 0).to(kind).numpy() for name in ("positional", "symbolic")},
        **{name: measured[name].nanmean(0).to(kind).numpy() for name in ("kept", "energy")},
        "angles": np.stack([angles[layer].numpy() for layer in sorted(angles)]),
        "keys": np.array(keys.stop - keys.start),
        "correct": choices.correct.numpy(),
        "alternatives": choices.alternatives.numpy(),
    }


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS)

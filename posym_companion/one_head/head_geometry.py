"""Queries and keys of a language model in its rotation planes: do heads trace the curves of the constructed head?

Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*, show that toys trained on Index
have keys with one direction and a query that points at the target, and that heads of Gemma look alike on their
positional frequencies. Here this is measured on every plane of every head, at the keys of the prompt's blocks, and the
curve ``amplitude cos(angle (distance - crest))`` is fitted on one half of the prompts and tested on the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.experiments import Experiment, PromptSetting, load_experiment_model, slug
from posym_companion.one_head.plane_geometry import (
    coherence,
    concentration,
    crest,
    explained,
    fit_wave,
    unrotated_planes,
)
from posym_core.metrics import dirichlet_kernel, exclusion
from posym_profile.language_models import PACKAGED, choose_answers
from posym_profile.prompts import index_prompts, make_prompts
from posym_profile.scores import LayerHeads, map_layers

TASKS = {"binding-lives": 16, "binding-likes": 16, "index": 16, "text": 64}
# Arrows of this many prompts are kept to be drawn.
DRAWN = 2
KINDS = ("positional", "turning", "symbolic")
# R^2 below this says the same as this.
WORST = -99.0
DIMS = {
    "distance": "key",
    "angles kernel": "layer plane",
    "head_positional_share": "half layer head",
    "concentration coherence *_share crest r2_test": "layer head plane",
    "dominant": "kind layer head",
    "curve": "kind half layer head key",
    "wave": "kind layer head coefficient",
    "drawn_query": "kind prompt layer head part",
    "drawn_keys": "kind prompt layer head key part",
    "place_correct": "place prompt",
    "place_*": "place layer head",
}


@dataclass(frozen=True, kw_only=True)
class HeadGeometry(PromptSetting):
    """One setting.

    Attributes:
        task: one of ``PROMPT_TASKS``.
        prompts: how many prompts; an even number, since halves are compared.
        seed: of the prompts, and of the weights of an untrained model.
        trained: False measures the same architecture with fresh random weights.
    """

    task: str = "binding-lives"
    prompts: int = 32
    trained: bool = True

    def __post_init__(self):
        if self.prompts < 2 or self.prompts % 2:
            raise ValueError(f"prompts must be an even number, a half to fit and a half to test; got {self.prompts}")

    @property
    def name(self) -> str:
        return f"head_geometry/{slug(self.model)}_{self.task}_{self.facts}" + ("" if self.trained else "_untrained")


def full_size(model: str = PACKAGED) -> list[HeadGeometry]:
    """Return every task, 32 prompts each, and the first and the last of them also with random weights."""
    settings = [HeadGeometry(model=model, task=task, facts=facts) for task, facts in TASKS.items()]
    return [*settings, *(replace(setting, trained=False) for setting in (settings[0], settings[-1]))]


def measure_heads(
    model: torch.nn.Module, tokenizer: Any, setting: HeadGeometry, *, progress: bool = True
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return what every prompt shows, the angles ``[layer, plane]`` and the keys' distances from the query ``[key]``.

    Only keys of the prompt's blocks count. The measurements are ``[prompt, layer, head, ...]``:
    ``head_positional_share``; per plane ``concentration``, ``coherence``, ``positional_share``, ``symbolic_share`` and
    ``energy_share`` ``[..., plane]``, ``arrow`` ``[..., plane, 2]``, the mean over keys of ``scale q conj(k)``
    unrotated, and ``logits`` ``[..., plane, key]``; of the first prompts only, ``query`` ``[..., plane, 2]`` and
    ``keys`` ``[..., plane, key, 2]``, unrotated.
    """
    prompts = make_prompts(tokenizer, setting.task, facts=setting.facts, count=setting.prompts, seed=setting.seed)
    last = prompts.input_ids.shape[1] - 1
    places = torch.arange(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    angles: dict[int, Tensor] = {}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        angles[heads.layer] = heads.angles.cpu()
        position = places.to(heads.keys.device)
        context = heads.keys[..., position, :]
        query = unrotated_planes(heads.query, last, heads.angles)  # [prompt, key_head, group, plane]
        keys = unrotated_planes(context, position, heads.angles).mT  # [prompt, key_head, 1, plane, key]
        product = heads.scale * query[..., None] * keys.conj()
        turned = torch.exp(1j * heads.angles.to(position.device)[:, None] * (last - position))
        # Over the blocks alone: the slots that trade places.
        inside = slice(prompts.start, prompts.start + len(places))
        shares, matrix = heads.frequency_shares(inside), heads.cross_logits(inside)
        measured = {
            "head_positional_share": exclusion(matrix).positional_share,
            "concentration": concentration(keys),
            "coherence": coherence(keys),
            "positional_share": shares.positional_share,
            "symbolic_share": shares.symbolic_share,
            "energy_share": shares.energy / shares.energy.sum(-1, keepdim=True),
            "arrow": torch.view_as_real(product.mean(-1)),
            "logits": (product * turned).real,
        }
        drawn = slice(max(0, DRAWN - heads.prompts.start))
        measured |= {"query": torch.view_as_real(query[drawn]), "keys": torch.view_as_real(keys[drawn])}
        groups = heads.query.shape[1:3]
        return {name: x.expand(-1, *groups, *x.shape[3:]).float() for name, x in measured.items()}

    # Few prompts at a time: logits of all planes are large.
    by_name = map_layers(model, prompts.input_ids, one_layer, progress=progress, batch_size=8)
    return by_name, torch.stack([angles[layer] for layer in sorted(angles)]), (last - places).double()


def summarize(found: dict[str, Tensor], angles: Tensor, distance: Tensor) -> dict[str, np.ndarray]:
    """Return arrays of one setting from what the prompts show: planes and waves by even prompts, tests by odd ones.

    ``dominant`` is the plane with the largest energy times positional share; the same among planes that turn by half a
    turn or more over the blocks; and that with the largest energy times symbolic share.
    """
    halves = [{name: x[half::2] for name, x in found.items()} for half in (0, 1)]
    planes = ("concentration", "coherence", "positional_share", "symbolic_share", "energy_share")
    arrays = {name: found[name].double().nanmean(0) for name in planes}
    arrays["head_positional_share"] = torch.stack([half["head_positional_share"].double().mean(0) for half in halves])
    turning = angles.clamp_min(torch.finfo(torch.float64).tiny)[:, None]  # a still plane's crest is infinitely far
    even = torch.view_as_complex(halves[0]["arrow"].double().mean(0))
    arrays["crest"] = crest(even, turning)
    curves = torch.stack([half["logits"].double().mean(0) for half in halves])  # [half, layer, head, plane, key]
    wave = fit_wave(curves[0], distance, turning.expand_as(even.real))
    arrays["r2_test"] = explained(wave.at(distance), curves[1]).clamp_min(WORST)

    energy = halves[0]["energy_share"]
    positional, symbolic = (
        (energy * halves[0][f"{share}_share"]).nanmean(0).nan_to_num(0) for share in ("positional", "symbolic")
    )
    fast = angles[:, None] * len(distance) >= torch.pi
    dominant = torch.stack([weight.argmax(-1) for weight in (positional, positional * fast, symbolic)])
    arrays["dominant"] = dominant

    def at_dominant(x: Tensor, plane: int) -> Tensor:
        """Return ``[kind, ...]`` without planes, of ``x`` with layer and head just before the dimension ``plane``."""
        before, after = [1] * (plane - 2), [1] * (x.ndim - plane - 1)
        chosen = dominant[:2].view(2, *before, *dominant.shape[1:], 1, *after)
        chosen = chosen.expand(2, *x.shape[:plane], 1, *x.shape[plane + 1 :])
        return x.expand(2, *x.shape).gather(plane + 1, chosen).squeeze(plane + 1)

    arrays["curve"] = at_dominant(curves, 3)
    arrays["wave"] = at_dominant(torch.stack([wave.amplitude, wave.crest], dim=-1), 2)
    arrays["drawn_query"], arrays["drawn_keys"] = at_dominant(found["query"], 3), at_dominant(found["keys"], 3)
    # Three digits are enough for shares and drawings; a crest can be far away.
    stored = {
        name: x.short().numpy() if name == "dominant" else x.numpy().astype(np.float16)
        for name, x in arrays.items()
        if name not in ("crest", "wave")
    }
    stored |= {name: arrays[name].float().numpy() for name in ("crest", "wave")}
    kernel = dirichlet_kernel(angles, len(distance))
    return stored | {"angles": angles.numpy(), "distance": distance.numpy(), "kernel": kernel.numpy()}


def measure(
    model: torch.nn.Module, tokenizer: Any, setting: HeadGeometry, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Return all arrays of one setting, see :func:`summarize`; for the task ``"index"`` also
    :func:`measure_places`'s.
    """
    model = model if setting.trained else with_random_weights(model, setting.seed)
    arrays = summarize(*measure_heads(model, tokenizer, setting, progress=progress))
    if setting.task == "index":
        arrays |= measure_places(model, tokenizer, setting, arrays, progress=progress)
    return arrays


def measure_places(
    model: torch.nn.Module,
    tokenizer: Any,
    setting: HeadGeometry,
    arrays: dict[str, np.ndarray],
    *,
    progress: bool = True,
) -> dict[str, np.ndarray]:
    """Return cosines of the turn that a query makes when another place is asked for, over planes that turn.

    To point ``D`` positions nearer, the query of a plane must turn by ``D angle`` against the keys.
    """
    angles: dict[int, Tensor] = {}
    asked, correct = [], []
    for place in ("first", "second", "third", "fourth"):
        prompts = index_prompts(tokenizer, facts=setting.facts, count=setting.prompts, seed=setting.seed, place=place)
        last = prompts.input_ids.shape[1] - 1
        position = torch.arange(prompts.start, prompts.start + prompts.blocks * prompts.block_length)

        def one_layer(heads: LayerHeads, last: int = last, position: Tensor = position) -> dict[str, Tensor]:
            angles[heads.layer] = heads.angles.cpu()
            query = unrotated_planes(heads.query, last, heads.angles)
            places = position.to(heads.keys.device)
            keys = unrotated_planes(heads.keys[..., places, :], places, heads.angles)
            return {"arrow": torch.view_as_real(query * keys.mean(-2).conj())}

        arrow = map_layers(model, prompts.input_ids, one_layer, progress=progress)["arrow"]
        asked.append(torch.view_as_complex(arrow).mean(0))
        correct.append(choose_answers(model, prompts).correct.cpu())
    angle = torch.stack([angles[layer] for layer in sorted(angles)])[:, None]
    length = setting.facts * prompts.block_length
    weight = torch.tensor(np.nan_to_num(arrays["energy_share"] * arrays["positional_share"])).double()
    weight = weight * (angle * length >= torch.pi)
    turn = torch.stack([(arrow * asked[0].conj()).angle() for arrow in asked[1:]])  # [place, layer, head, plane]
    nearer = prompts.block_length * torch.arange(1, len(asked)).double()[:, None, None, None]

    def mean(cosine: Tensor) -> np.ndarray:
        return ((weight * cosine).sum(-1) / weight.sum(-1)).float().numpy()

    return {
        "place_correct": torch.stack(correct).numpy(),
        "place_followed": mean((turn - nearer * angle).cos()),
        "place_unmoved": mean(turn.cos()),
    }


def with_random_weights(model: Any, seed: int) -> Any:
    """Return a model of the same class and configuration as it is before training, on its device and as precise."""
    weight = next(model.parameters())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(model)(model.config)
    return fresh.to(weight.device, weight.dtype).eval()


EXPERIMENT = Experiment(
    settings=full_size, small={"prompts": 8}, measure=measure, dims=DIMS, load=load_experiment_model
)

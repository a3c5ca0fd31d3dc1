"""Mechanisms of trained multi-hop models: the program of every head, and what breaks when it is taken away.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 3 and figures 3 and 4, and beside them:
heads classified by agreement, not by eye; every head silenced, and all replaced by their programs; and how many heads a
model can do without. One result for every trained model of :mod:`posym_companion.several_hops.multihop`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.experiments import Experiment
from posym_companion.several_hops import multihop
from posym_companion.several_hops.gptj import average_by_hops, average_outputs, run_with_edits
from posym_companion.several_hops.hop_scores import CapturedLayers, capture_layers
from posym_companion.several_hops.multihop import TEST, MultihopSettings, load_weights
from posym_companion.several_hops.programs import NONE, agreement, candidates
from posym_core.metrics import frequency_use, rotate_unchecked
from posym_core.models import LayerHead
from posym_core.tasks import MultihopBatch

DIMS = {
    "accuracy all_programmed": "hop",
    "hits": "layer head candidate",
    "silenced": "layer head hop",
    "removed": "step coordinate",
    "left_accuracy": "step hop",
    "flow": "hop layer head station place",
    "plane": "layer head",
    "query keys": "layer head sequence token part",
    "tokens": "sequence token",
}


@dataclass(frozen=True, kw_only=True)
class HopMechanism:
    """One trained model to look into.

    Attributes:
        model: name of the trained model's result.
        sequences: test sequences, in equal parts of every number of hops.
        kept: sequences whose queries and keys in each head's dominant plane are kept.
    """

    model: str
    sequences: int = 400
    kept: int = 24

    @property
    def name(self) -> str:
        return self.model.replace("multihop", "hop_mechanism", 1)


def full_size() -> list[HopMechanism]:
    """Return all models of the full-size run; there is no ``model`` to choose."""
    return [HopMechanism(model=setting.name) for setting in multihop.paper_size()]


def measure(
    model: Any, trained: MultihopSettings, setting: HopMechanism, *, progress: bool = False
) -> dict[str, np.ndarray]:
    """Return what heads do and what they are needed for.

    Returns:
        ``accuracy [hop]``; ``hits [layer, head, candidate]`` of
        :func:`posym_companion.several_hops.programs.agreement`; ``silenced [layer, head, hop]``, the accuracy when a
        head says its mean instead; ``all_programmed [hop]`` when every head with a function attends as that program;
        ``removed [step, (layer, head)]`` and ``left_accuracy [step, hop]``, heads silenced one after the other, that of
        least damage first; ``flow [hop, layer, head, station, place]``, mean attention from each station to the query,
        the stations, the answer, and everywhere else together; and of each head's plane of largest use ``plane [layer,
        head]``, ``query`` and ``keys`` ``[layer, head, sequence, token, 2]`` before rotation, and ``tokens``.
    """
    from tqdm import tqdm

    task, device = trained.make_task(), model.device
    batch = trained.sample(setting.sequences, TEST)
    tokens = batch.tokens.to(device)
    layers = capture_layers(model, batch.tokens)
    attention = layers.attention()
    agreed = agreement(attention.cpu(), batch.tokens, task, hops=trained.hops)
    programs = candidates(tokens, task, hops=trained.hops)
    heads = [(layer, head) for layer in range(trained.layers) for head in range(trained.heads)]

    def accuracy(**altered: Any) -> np.ndarray:
        right = run_with_edits(model, tokens, **altered).argmax(-1).cpu() == batch.answer
        return average_by_hops(right, batch.hops, trained.hops).numpy()

    def by_head(values: list[np.ndarray]) -> np.ndarray:
        return np.stack(values).reshape(trained.layers, trained.heads, -1)

    mean = average_outputs(model, tokens)
    one_by_one = tqdm(heads, desc=setting.name, disable=not progress, leave=False)
    silenced = [accuracy(output={head: mean[head]}) for head in one_by_one]
    functions = {head: agreed.function(*head)[0] for head in heads}
    known = {head: programs.attention(name) for head, name in functions.items() if name != NONE}
    removed, left = _remove(accuracy, mean, heads, progress=progress)
    return {
        "accuracy": accuracy(),
        "hits": agreed.hits.numpy(),
        "silenced": by_head(silenced),
        "all_programmed": accuracy(attention=known),
        "removed": np.array(removed),
        "left_accuracy": left,
        "flow": flow(attention.cpu(), batch, trained.hops).numpy(),
        **_planes(layers, batch, trained, setting.kept),
    }


def flow(attention: Tensor, batch: MultihopBatch, longest: int) -> Tensor:
    """Return mean attention ``[hop, layer, head, station, place]`` between the places of a path.

    Places are the query, the stations, the answer, and everything else together; NaN where a path is shorter.
    """
    path = batch.path
    here = path.clamp_min(0)
    rows = attention.gather(-2, here[:, None, None, :-1, None].expand(*attention.shape[:3], -1, attention.shape[-1]))
    places = rows.gather(-1, here[:, None, None, None, :].expand(*rows.shape[:4], -1))
    missing = path < 0
    places = places.masked_fill(missing[:, None, None, None, :], 0)
    places = torch.cat([places, 1 - places.sum(-1, keepdim=True)], dim=-1)
    asks = path[:, 1:] >= 0
    places = places.masked_fill(~asks[:, None, None, :, None], torch.nan)
    return torch.stack([places[batch.hops == number].mean(0) for number in range(1, longest + 1)])


def _remove(
    accuracy: Any, mean: Mapping[LayerHead, Tensor], heads: list[LayerHead], *, progress: bool
) -> tuple[list, Any]:
    """Silence heads greedily, always the one after which mean accuracy is highest."""
    from tqdm import tqdm

    gone: list[LayerHead] = []
    left = []
    for _ in tqdm(heads, desc="heads removed", disable=not progress, leave=False):
        rest = [head for head in heads if head not in gone]
        tried = [accuracy(output={head: mean[head] for head in [*gone, candidate]}) for candidate in rest]
        best = int(np.argmax([x.mean() for x in tried]))
        gone.append(rest[best])
        left.append(tried[best])
    return gone, np.stack(left)


def _planes(
    layers: CapturedLayers, batch: MultihopBatch, trained: MultihopSettings, kept: int
) -> dict[str, np.ndarray]:
    """Return queries and keys of the plane of largest use at the last token, before rotation."""
    angles = trained.angles
    options = {"scale": layers.scale, "pairing": "neighbours"}
    use = frequency_use(layers.query[..., -1, :], layers.keys, angles, **options).float().mean(1)
    plane = use.argmax(-1)
    positions = torch.arange(batch.tokens.shape[1])
    here = {}
    for name, x in (("query", layers.query), ("keys", layers.keys)):
        plain = rotate_unchecked(
            x[:, :kept].cpu(), -positions, angles, "neighbours"
        )  # [layer, sequence, head, token, dim]
        pairs = plain.unflatten(-1, (-1, 2)).transpose(1, 2)  # [layer, head, sequence, token, plane, 2]
        chosen = plane.cpu()[:, :, None, None, None, None].expand(*pairs.shape[:4], 1, 2)
        here[name] = pairs.gather(-2, chosen)[..., 0, :].half().numpy()
    return {
        "plane": plane.cpu().numpy(),
        **here,
        "tokens": batch.tokens[:kept].numpy(),
    }


EXPERIMENT = Experiment(
    settings=full_size,
    small={"model": multihop.small_model, "sequences": 120, "kept": 4},
    measure=measure,
    dims=DIMS,
    load=load_weights,
)

"""How far trained multi-hop models reach: accuracy and attention against the length of the sequence.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 4 and figure 5B: letters are added in front
of the target window, where no path leads. Beside the accuracy we ask why: how much attention every head keeps on the
next station, and how much of it the head's rotation planes alone foretell from sequences of the trained length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_companion.experiments import Experiment
from posym_companion.several_hops import multihop
from posym_companion.several_hops.gptj import measure_accuracy_by_length, set_angles
from posym_companion.several_hops.hop_scores import CapturedLayers, capture_layers
from posym_companion.several_hops.multihop import TEST, MultihopSettings, load_weights
from posym_core.metrics import rotate_unchecked

LENGTHS = (17, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 80, 96, 128, 192, 256, 512, 850, 1020)
# Distances behind a target at which the logit of an average key is foretold.
DISTANCES = 128
DIMS = {
    "lengths": "length",
    "accuracy": "length hop",
    "profile": "layer head distance",
    "onward added foretold": "length layer head",
}


@dataclass(frozen=True, kw_only=True)
class HopLength:
    """One trained model and the lengths to try.

    Attributes:
        model: name of the trained model's result.
        lengths: tokens of whole sequences, the shortest being that of training.
        sequences: at each length, in equal parts of every number of hops.
        watched: of these, sequences whose attention is looked at.
    """

    model: str
    lengths: tuple[int, ...] = LENGTHS
    sequences: int = 200
    watched: int = 32

    @property
    def name(self) -> str:
        return self.model.replace("multihop", "hop_length", 1)


def full_size() -> list[HopLength]:
    """Return all models of the full-size run; there is no ``model`` to choose."""
    return [HopLength(model=setting.name) for setting in multihop.full_size()]


def measure(
    model: Any, trained: MultihopSettings, setting: HopLength, *, progress: bool = False
) -> dict[str, np.ndarray]:
    """Return accuracy and attention at every length.

    Returns:
        ``lengths``; ``accuracy [length, hop]``; ``onward [length, layer, head]``, mean attention from stations to
        where they point; ``added [length, layer, head]``, mean attention from stations to all tokens in front of the
        window together; ``foretold`` of the same shape, what :func:`predict_onward_attention` expects of ``onward``;
        and ``profile [layer, head, distance]`` of :func:`logit_profile`.
    """
    task = trained.make_task()
    least = task.window + task.steps + 1
    set_angles(model, trained.angles, positions=max(*setting.lengths, model.config.n_positions))
    accuracy = measure_accuracy_by_length(
        model, task, setting.lengths, count=setting.sequences, seed=trained.seed, progress=progress
    )
    generator = trained.generator(TEST)
    base = task.sample(setting.watched, generator=generator)
    captured = capture_layers(model, base.tokens)
    arrays: dict[str, list[Tensor]] = {"onward": [], "added": [], "foretold": []}
    for length in setting.lengths:
        extra = length - least
        batch = task.sample(setting.watched, generator=trained.generator(TEST), extra=extra)
        rows, path = _station_rows(capture_layers(model, batch.tokens), batch.path)
        asks = path >= 0
        onward = rows.gather(-1, path.clamp_min(0)[None, :, :, None, None].expand(*rows.shape[:4], 1))[..., 0]
        arrays["onward"].append(onward[:, asks].mean(1))
        arrays["added"].append(rows[..., :extra].sum(-1)[:, asks].mean(1))
        arrays["foretold"].append(
            predict_onward_attention(captured, base.path, trained.angles, window=task.window, extra=extra)
        )
    return {
        "lengths": np.array(setting.lengths),
        "accuracy": accuracy.numpy(),
        "profile": logit_profile(captured, base.path, trained.angles, window=task.window).float().cpu().numpy(),
        **{name: torch.stack(values).float().cpu().numpy() for name, values in arrays.items()},
    }


def predict_onward_attention(
    captured: CapturedLayers,
    path: Int64[Tensor, "sequence reached"],
    angles: Float[Tensor, " plane"],
    *,
    window: int,
    extra: int,
) -> Float[Tensor, "layer head"]:
    """Return attention to the next station that planes alone foretell when letters are added in front.

    The logits of the tokens that are there stay what they are, since rotary encodings see distances only. Those of the
    tokens added are taken to be those of an average key of the target window, turned back to where they stand. Exact
    in the first layer but for the spread of letters' keys; later layers could change what they read.
    """
    is_station, here = path[:, 1:] >= 0, path[:, :-1].clamp_min(0)
    query = _station_queries(captured, path)
    future = torch.arange(captured.keys.shape[-2]) > here[..., None]  # [sequence, station, key]
    logits = (query @ captured.keys.transpose(-1, -2) * captured.scale).double()
    logits = logits.masked_fill(future.to(logits.device)[None, :, None], -torch.inf)
    onward = path[:, 1:].clamp_min(0).to(logits.device)[None, :, None, :, None]
    wanted = logits.gather(-1, onward.expand(*logits.shape[:4], 1))[..., 0]
    total = logits.logsumexp(-1)
    if extra:
        key = _mean_key(captured, angles, window)
        front = rotate_unchecked(
            key[:, :, None].expand(-1, -1, extra, -1), torch.arange(-extra, 0), angles, "neighbours"
        )
        added = query.double() @ front[:, None].transpose(-1, -2).to(query.device) * captured.scale
        total = torch.logaddexp(total, added.logsumexp(-1))
    share = (wanted - total).exp().permute(0, 1, 3, 2)  # [layer, sequence, station, head]
    return share[:, is_station].mean(1)


def logit_profile(
    captured: CapturedLayers,
    path: Int64[Tensor, "sequence reached"],
    angles: Float[Tensor, " plane"],
    *,
    window: int,
    distances: int = DISTANCES,
) -> Float[Tensor, "layer head distance"]:
    """Return how an average letter would draw a station's query, at so many places before the one it points to.

    Logits relative to that of the same letter at the target, averaged over stations: 0 at distance 0, and near 0 again
    where the planes in use come full circle, which is where a letter too far away to have been seen in training draws
    as much as the target does.
    """
    is_station, onward = path[:, 1:] >= 0, path[:, 1:].clamp_min(0).to(captured.query.device)
    query = _station_queries(captured, path).double()
    # Queries as the target sees them: turned by how far it is, so that one key serves all stations.
    seen = rotate_unchecked(query, -onward[None, :, None], angles.to(query.device), "neighbours")
    key = _mean_key(captured, angles, window)
    back = rotate_unchecked(
        key[:, :, None].expand(-1, -1, distances, -1), -torch.arange(distances), angles, "neighbours"
    )
    back = back[:, None].transpose(-1, -2).to(seen.device)
    logits = seen @ back * captured.scale  # [layer, sequence, head, station, distance]
    relative = (logits - logits[..., :1]).transpose(2, 3)
    return relative[:, is_station].mean(1)


def _mean_key(captured: CapturedLayers, angles: Tensor, window: int) -> Float[Tensor, "layer head dim"]:
    """Return mean key of the target window's tokens before rotation, on the CPU."""
    seen = torch.arange(window)
    return rotate_unchecked(captured.keys[..., :window, :].double().cpu(), -seen, angles, "neighbours").mean((1, 3))


def _station_queries(captured: CapturedLayers, path: Tensor) -> Float[Tensor, "layer sequence head station dim"]:
    """Return queries of the stations that ask, the first token's behind the end of a path."""
    here = path[:, :-1].clamp_min(0).to(captured.query.device)
    place = here[None, :, None, :, None]
    return captured.query.gather(-2, place.expand(*captured.query.shape[:3], -1, captured.query.shape[-1]))


def _station_rows(captured: CapturedLayers, path: Tensor) -> tuple[Tensor, Tensor]:
    """Return attention of stations ``[layer, sequence, station, head, key]``, and where each points, on its device."""
    here = path[:, :-1].clamp_min(0).to(captured.query.device)
    logits = _station_queries(captured, path) @ captured.keys.transpose(-1, -2) * captured.scale
    future = torch.arange(captured.keys.shape[-2], device=here.device) > here[..., None]
    rows = logits.masked_fill(future[None, :, None], -torch.inf).softmax(-1)
    return rows.transpose(2, 3), path[:, 1:].to(here.device)


EXPERIMENT = Experiment(
    settings=full_size,
    small={"model": multihop.small_model, "lengths": (17, 36, 52, 64, 128), "sequences": 80, "watched": 8},
    measure=measure,
    dims=DIMS,
    load=load_weights,
)

"""Scores of every head at every hop station, in closed form, while a model trains.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 3, score each station of a path as a
query, with the tokens before it as blocks of one. A forward pass gives all that is needed; nothing is stored, so
heads can be watched at every checkpoint instead of being scored from files afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from posym_core.metrics import Pairing, frequency_use, mean_frequency, swap_scores
from posym_profile.capture import AttentionInputs, Route, forward_with_hook


@dataclass(frozen=True, kw_only=True)
class StationScores:
    """Heads of a model with the stations of paths as queries; NaN behind the end of shorter paths. On the CPU.

    Station 0 is the last token and station ``k`` where ``k`` hops lead; the answer's own token is no query.

    Attributes:
        positional: ``s_POS``.
        symbolic: ``s_SYM``.
        entropy: entropy of the attention, divided by that of uniform attention.
        onward: attention to the next station, where the query's own token points.
        use: largest logit that each plane contributes.
    """

    positional: Float[Tensor, "sequence station layer head"]
    symbolic: Float[Tensor, "sequence station layer head"]
    entropy: Float[Tensor, "sequence station layer head"]
    onward: Float[Tensor, "sequence station layer head"]
    use: Float[Tensor, "sequence station layer head plane"]


@dataclass(frozen=True, kw_only=True)
class CapturedLayers:
    """Rotated queries and keys of all tokens in all layers; layers of one shape, one scale and no sinks or caps."""

    query: Float[Tensor, "layer sequence head token dim"]
    keys: Float[Tensor, "layer sequence head token dim"]
    scale: float

    def attention(self, sequences: slice | Tensor = slice(None)) -> Float[Tensor, "sequence layer head query key"]:
        """Return causal attention of all tokens of some sequences."""
        logits = self.query[:, sequences] @ self.keys[:, sequences].transpose(-1, -2) * self.scale
        future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        return logits.masked_fill(future, -torch.inf).softmax(-1).transpose(0, 1)


def capture_layers(
    model: Any, tokens: Int64[Tensor, "sequence token"], *, route: Route | None = "functions"
) -> CapturedLayers:
    """Return queries and keys of every token in one forward pass of a model in evaluation mode.

    Raises:
        ValueError: if layers differ in shape or scale, or share keys among heads.
    """
    calls: list[AttentionInputs] = []
    forward_with_hook(model, tokens, calls.append, rows=None, route=route)
    first = calls[0]
    if any(call.keys.shape != first.query.shape or abs(call.scale / first.scale - 1) > 1e-5 for call in calls):
        raise ValueError(
            "layers must have one shape and one scale, with a key head for every head; measure layers one by one "
            "with posym_profile.scores._layer_measurement.map_layers"
        )
    # The scale is read off products in float32; it is one over the root of the dimension up to their rounding.
    exact = first.query.shape[-1] ** -0.5
    scale = exact if abs(first.scale / exact - 1) < 1e-5 else first.scale
    return CapturedLayers(
        query=torch.stack([call.query for call in calls]), keys=torch.stack([call.keys for call in calls]), scale=scale
    )


def station_scores(
    layers: CapturedLayers,
    path: Int64[Tensor, "sequence reached"],
    *,
    angles: Float[Tensor, " plane"],
    pairing: Pairing = "neighbours",
    tau: float = 1e-4,
    eps: float = 1e-8,
) -> StationScores:
    """Score all heads at all stations, with every token before the station as a block of its own.

    A path has positions from the query over the stations to the answer, and -1 behind its end.
    """
    depth, sequences, heads, _, dim = layers.query.shape
    path = path.cpu()
    is_query = stations_that_ask(path)
    stations = is_query.shape[1]
    positions = path[:, :-1].masked_fill(~is_query, -1)
    if bool(is_query.any()) and int(positions[is_query].min()) < 2:
        raise ValueError(
            f"a station needs two tokens before it to swap; one stands at position {int(positions[is_query].min())}"
        )
    shape = (sequences, stations, depth, heads)
    names = ("positional", "symbolic", "entropy", "onward")
    arrays = {name: torch.full(shape, torch.nan) for name in names}
    use = torch.full((*shape, dim // 2), torch.nan)
    device = layers.query.device
    for position in positions[is_query].unique().tolist():
        # Stations at one position see equally many tokens, so they are scored in one call over all layers.
        sequence, station = (positions == position).nonzero(as_tuple=True)
        rows = sequence.to(device)
        query = layers.query[:, rows, :, position]
        keys = layers.keys[:, rows, :, : position + 1]
        options = {"scale": layers.scale, "pairing": pairing}
        scores = swap_scores(query, keys, angles, tau=tau, eps=eps, **options)
        target = path[sequence, station + 1]
        logits = (keys @ query[..., None])[..., 0].double() * layers.scale
        attention = logits.softmax(-1)
        index = target.to(device)[None, :, None, None].expand(depth, -1, heads, 1)
        measured = {
            "positional": scores.positional,
            "symbolic": scores.symbolic,
            "entropy": scores.entropy,
            "onward": attention.gather(-1, index)[..., 0],
        }
        for name, x in measured.items():
            arrays[name][sequence, station] = x.transpose(0, 1).float().cpu()
        use[sequence, station] = frequency_use(query, keys, angles, **options).transpose(0, 1).float().cpu()
    return StationScores(**arrays, use=use)


def stations_that_ask(path: Int64[Tensor, "sequence reached"]) -> Bool[Tensor, "sequence station"]:
    """Return which entries of a path are queries: those that another follows."""
    return path[:, 1:] >= 0


def summary(scores: StationScores, hops: Int64[Tensor, " sequence"], *, longest: int) -> dict[str, Tensor]:
    """Return means over the sequences of each number of hops.

    Returns:
        ``positional``, ``symbolic``, ``entropy``, ``onward`` ``[hop, station, layer, head]``, NaN where a path has no
        such station; ``use`` ``[layer, head, plane]`` over all queries; ``frequency`` ``[layer, head]``, its mean ID.
    """
    names = ("positional", "symbolic", "entropy", "onward")
    means = {name: _by_hops(getattr(scores, name), hops, longest) for name in names}
    means["use"] = scores.use.nanmean((0, 1))
    means["frequency"] = mean_frequency(means["use"])
    return means


def _by_hops(x: Tensor, hops: Tensor, longest: int) -> Tensor:
    return torch.stack([x[hops == number].mean(0) for number in range(1, longest + 1)])

"""One look at the heads of a model on some prompts: what experiments measure alike, each by its name, in one pass.

Experiments differ in models, prompts and in what they ask for; these are arguments of :func:`look`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.metrics import (
    BlockLayout,
    Exclusion,
    FrequencyShares,
    SwapScores,
    exclusion,
    measure_block_attention,
    score_pair,
    score_swaps,
)
from posym_profile.language_models import choose_answers
from posym_profile.prompts import Prompts
from posym_profile.scores import LayerHeads, map_layers

PARTS = ("positional", "symbolic", "interaction")
# Temperatures of the weights over pairs of blocks: the papers', and one at which all pairs weigh alike.
TAUS = {"1e-4": 1e-4, "equal": 1e6}
TAU, EPS = 1e-4, 1e-8
BANDS = 8


Measurement = Callable[["LayerLook"], Tensor]


@dataclass(frozen=True, kw_only=True)
class LayerLook:
    """The heads of one layer on some prompts; what several measurements need is measured once.

    Attributes:
        heads: of the layer.
        layout: which blocks change places.
        keys: over which the logits' variance is taken apart.
        taus: temperatures; of several, scores have a last dimension for them.
        target: the block asked about, of each prompt.
        generator: of the null model.
        products: type of the numbers in which planes are scored.
    """

    heads: LayerHeads
    layout: BlockLayout
    keys: slice
    taus: tuple[float, ...] = (TAU,)
    target: Tensor | None = None
    generator: torch.Generator = field(default_factory=torch.Generator)
    products: torch.dtype = torch.float64

    @cached_property
    def all_scores(self) -> list[SwapScores]:
        """Scores at each temperature."""
        return [score_swaps(self.heads, replace(self.layout, tau=tau)) for tau in self.taus]

    @cached_property
    def scores(self) -> SwapScores:
        """Scores at the first temperature."""
        return self.all_scores[0]

    @cached_property
    def null(self) -> tuple[Tensor, Tensor]:
        """Both scores of the null model."""
        return simulate_random_swaps(self.scores.attention, tau=self.taus[0], generator=self.generator)

    @cached_property
    def matrix(self) -> Tensor:
        """Return the cross-logit matrix."""
        return self.heads.cross_logits(self.keys)

    @cached_property
    def logits(self) -> Exclusion:
        """Return the same taken apart."""
        return exclusion(self.matrix)

    @cached_property
    def shares(self) -> FrequencyShares:
        """Return the same of every plane."""
        return self.heads.frequency_shares(self.keys)

    @cached_property
    def planes(self) -> SwapScores:
        """Scores of every plane."""
        layout = replace(self.layout, tau=self.taus[0])
        return score_swaps(self.heads, layout, per_frequency=True, products=self.products)

    @cached_property
    def attention(self) -> Tensor:
        """Attention to every block."""
        return self.scores.attention * self.layout.block_length

    def measure(self, wanted: str | Measurement) -> Tensor:
        """Return what a name of :data:`MEASURED` says, or what a function makes of the layer."""
        return MEASURED[wanted](self) if isinstance(wanted, str) else wanted(self)

    def at_temperatures(self, name: str) -> Tensor:
        """Return a score at the only temperature, or at each along a last dimension."""
        values = [getattr(scores, name) for scores in self.all_scores]
        return values[0] if len(values) == 1 else torch.stack(values, -1)

    def asked_attention(self) -> Tensor:
        """Return attention to the block asked about."""
        if self.target is None:
            raise ValueError("attention to the block asked about needs the prompts' target")
        target = self.target[self.heads.prompts].to(self.attention.device)
        index = target[:, None, None, None].expand(*self.attention.shape[:-1], 1)
        return self.attention.gather(-1, index)[..., 0]

    def mass(self) -> Tensor:
        """Return attention to all blocks, summed in double precision."""
        groups = self.heads.group_queries(torch.float64)
        return self.heads.ungroup(measure_block_attention(groups, self.layout).mass.sum(-1))

    def kept(self) -> Tensor:
        """Return the part of the contents' variance that is symbol in every plane, ``S / (S + I)``."""
        contents = self.shares.symbolic_share + self.shares.interaction_share
        return torch.where(contents > 0, self.shares.symbolic_share / contents, torch.nan)


def plane_energy(shares: FrequencyShares) -> Tensor:
    """Return each plane's part of the sum of all planes' variances."""
    return shares.energy / shares.energy.sum(-1, keepdim=True)


def _read(place: str, name: str) -> Callable[[LayerLook], Tensor]:
    return lambda layer: getattr(getattr(layer, place), name)


MEASURED: Mapping[str, Measurement] = {
    "positional": lambda layer: layer.at_temperatures("positional"),
    "symbolic": lambda layer: layer.at_temperatures("symbolic"),
    "entropy": _read("scores", "entropy"),
    "null_positional": lambda layer: layer.null[0],
    "null_symbolic": lambda layer: layer.null[1],
    **{name: _read("logits", name) for name in ("variance", "bound", "slack", *(f"{part}_share" for part in PARTS))},
    "spread": lambda layer: layer.logits.variance.sqrt(),
    **{f"plane_{name}": _read("planes", name) for name in PARTS[:2]},
    **{f"plane_{part}_share": _read("shares", f"{part}_share") for part in PARTS},
    "plane_energy_share": lambda layer: plane_energy(layer.shares),
    "kept": LayerLook.kept,
    "use": lambda layer: layer.heads.frequency_use(layer.keys),
    "facts_attention": lambda layer: layer.attention.sum(-1),
    "asked_attention": LayerLook.asked_attention,
    "mass": LayerLook.mass,
}
"""What can be measured: names, and how each comes from a layer, ``[prompt, key_head, group, ...]``."""


def look(
    model: Any,
    prompts: Prompts,
    wanted: Iterable[str] | Mapping[str, str | Measurement],
    *,
    layout: Callable[[LayerHeads], BlockLayout] | None = None,
    keys: slice | Callable[[LayerHeads], slice] | None = None,
    taus: Iterable[float] = (TAU,),
    eps: float = EPS,
    products: torch.dtype = torch.float64,
    seed: int = 0,
    progress: bool = False,
) -> dict[str, Tensor]:
    """Measure what is wanted of every head at the last token of prompts, in one pass: ``[prompt, layer, head, ...]``.

    ``wanted`` are names of :data:`MEASURED`, or what results are called, and which of these or what else makes them.
    Variances are taken apart over ``keys``, by default those of the blocks; ``angles`` are NaN where planes are fewer.
    """
    named = dict(wanted) if isinstance(wanted, Mapping) else {name: name for name in wanted}
    blocks = BlockLayout(**prompts.layout, eps=eps)
    some = block_tokens(prompts) if keys is None else keys
    angles: dict[int, Tensor] = {}
    options = {"taus": tuple(taus), "products": products, "generator": torch.Generator().manual_seed(seed)}

    def measure_layer(heads: LayerHeads) -> dict[str, Tensor]:
        angles[heads.layer] = heads.angles.cpu()
        layer = LayerLook(
            heads=heads,
            layout=blocks if layout is None else layout(heads),
            keys=some if isinstance(some, slice) else some(heads),
            target=prompts.target,
            **options,
        )
        return {name: layer.measure(maker) for name, maker in named.items()}

    measured = map_layers(model, prompts.input_ids, measure_layer, progress=progress)
    return measured | {"angles": pad_angles([angles[number] for number in sorted(angles)])}


def pad_angles(rows: Iterable[Tensor], filled: float = torch.nan) -> Tensor:
    """Return angles of layers as ``[layer, plane]``, filled up where a layer has fewer planes."""
    listed = list(rows)
    width = max(len(row) for row in listed)
    return torch.stack([torch.nn.functional.pad(row, (0, width - len(row)), value=filled) for row in listed])


def block_tokens(prompts: Prompts) -> slice:
    """Return the tokens of all blocks."""
    return slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)


def measure_answers(model: Any, prompts: Prompts) -> dict[str, np.ndarray]:
    """Return whether each prompt is answered right, ``correct``, and of how many ``alternatives``."""
    choices = choose_answers(model, prompts)
    return {"correct": choices.correct.numpy(), "alternatives": choices.alternatives.numpy()}


def average_defined(x: np.ndarray, axis: int = 0) -> np.ndarray:
    """Return means along an axis of what is defined; NaN where nothing is."""
    counted = np.isfinite(x)
    total = np.where(counted, x, 0).sum(axis)
    return np.where(counted.any(axis), total / np.maximum(counted.sum(axis), 1), np.nan)


def gather_bands(planes: np.ndarray, gather: Callable[..., np.ndarray]) -> np.ndarray:
    """Return eight bands of planes, fast to slow: what ``gather`` makes of each along its last axis."""
    return np.stack([gather(band, axis=-1) for band in np.array_split(planes, BANDS, axis=-1)], axis=-1)


def simulate_random_swaps(
    attention: Float[Tensor, "*batch block"], *, tau: float = 1e-4, generator: torch.Generator
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Draw the scores that heads with this attention would have if every swap sent it in a random direction.

    Pairs and their weights, of temperature ``tau``, are the head's own; the angle after each swap is drawn uniformly
    from [0, pi/2]. What correlation this null model shows owes nothing to being positional or symbolic.
    """
    wide = attention.double()
    i, j = torch.triu_indices(wide.shape[-1], wide.shape[-1], 1)
    first, second = wide[..., i], wide[..., j]
    gap = (first - second).abs()
    weights = ((gap - gap.amax(-1, keepdim=True)) / tau).softmax(-1)
    after = torch.rand(first.shape, generator=generator, dtype=torch.float64).to(wide.device) * (math.pi / 2)
    positional, symbolic = score_pair(torch.atan2(second, first), after)
    return (weights * positional).sum(-1), (weights * symbolic).sum(-1)

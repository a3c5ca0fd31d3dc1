"""What a head with each encoding can be made to do: for every setting of its knob, its ``C``, scores and shares."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from posym_core.encodings.base import Encoding, LayerShape, UndefinedCrossLogits
from posym_core.encodings.bias import ALiBi, T5Bias
from posym_core.encodings.carope import CARoPE
from posym_core.encodings.layer import EncodedHeads
from posym_core.encodings.path import PaTH
from posym_core.encodings.registry import ENCODINGS, make_encoding
from posym_core.metrics.exclusion import exclusion
from posym_core.metrics.permutations import cross_scores
from posym_core.metrics.rope import rope_angles

KEYS = 6
PLAY = LayerShape(heads=1, dim=14, length=KEYS + 1)
SPREADS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""How far the contents of the playground's keys lie apart."""
LEVELS = 7
"""Settings of an encoding's own knob."""
COMMON = 5.0  # logit of what all inputs share, the query's included, where nothing turns


@dataclass(frozen=True, kw_only=True)
class Playground:
    """What a head with each encoding does, for every spread of contents and every setting of the encoding's knob.

    Arrays lead with ``[encoding, spread, knob]``.

    Attributes:
        C: ``[..., content, position]``, less its mean, which attention does not see; NaN where the encoding has none.
        movement: ``[..., content, position]``: largest minus smallest logit of that content at that position over all
            orders of the other keys.
        attention: ``[..., position]``, of the keys in their own order; the query's own token takes no part.
        shares: ``[..., (positional, symbolic, interaction)]`` of the variance of ``C``.
        scores: ``[..., (positional, symbolic)]``.
        knobs: what the knob sets, ``[encoding][knob]``.
    """

    C: np.ndarray
    movement: np.ndarray
    attention: np.ndarray
    shares: np.ndarray
    scores: np.ndarray
    knobs: tuple[tuple[str, ...], ...]


def playground(names: Sequence[str] = tuple(ENCODINGS)) -> Playground:
    """Frames for a figure with a list of encodings and two sliders; some seconds."""
    orders = torch.tensor(list(itertools.permutations(range(KEYS))))
    generator = torch.Generator().manual_seed(3)
    apart = torch.randn(KEYS + 1, PLAY.width, generator=generator, dtype=torch.float64)
    shared = apart[KEYS] * (COMMON / PLAY.scale) ** 0.5 / apart[KEYS].norm()
    apart[KEYS] = 0  # the query
    size = (len(names), len(SPREADS), LEVELS)
    C, movement = np.full((2, *size, KEYS, KEYS), np.nan)
    attention, shares, scores = (np.full((*size, last), np.nan) for last in (KEYS, 3, 2))
    plain = torch.eye(PLAY.dim, dtype=torch.float64)[None]
    texts = []
    for row, name in enumerate(names):
        texts.append(tuple(text for text, _ in knob(name)))
        for (column, spread), (level, (_, encoding)) in itertools.product(enumerate(SPREADS), enumerate(knob(name))):
            at = row, column, level
            inputs = shared + spread * apart
            layer = EncodedHeads(encoding=encoding, query_map=plain, key_map=plain)
            logits = layer.logits(inputs)
            logits[:, -1, -1] = -math.inf
            attention[at] = encoding.attention(logits)[0, -1, :-1]
            movement[at] = _movement(layer.permuted_logits(inputs, orders)[:, 0], orders)
            try:
                found = layer.cross_logits(inputs)[0]
            except UndefinedCrossLogits:
                continue
            parts, score = exclusion(found), cross_scores(found)
            C[at] = found - found.mean()
            shares[at] = [parts.positional_share, parts.symbolic_share, parts.interaction_share]
            scores[at] = [score.positional, score.symbolic]
    return Playground(C=C, movement=movement, attention=attention, shares=shares, scores=scores, knobs=tuple(texts))


def _movement(logits: torch.Tensor, orders: torch.Tensor) -> np.ndarray:
    """Range of ``logits [order, position]`` over the orders that put a content at a position."""
    pairs = orders * KEYS + torch.arange(KEYS)
    empty = logits.new_zeros(KEYS**2)
    high = empty.scatter_reduce(0, pairs.flatten(), logits.flatten(), "amax", include_self=False)
    low = empty.scatter_reduce(0, pairs.flatten(), logits.flatten(), "amin", include_self=False)
    return (high - low).reshape(KEYS, KEYS).numpy()


@functools.cache
def knob(name: str) -> tuple[tuple[str, Encoding], ...]:
    """The settings of an encoding's knob: what each says, and the encoding set so; float64, without gradients."""
    made = []
    for level in range(LEVELS):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            text, encoding = _set(name, level)
        made.append((text, encoding.double().requires_grad_(False)))
    return tuple(made)


AMOUNTS = (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0)
BASES = (10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 1e6)


def _set(name: str, level: int) -> tuple[str, Encoding]:
    amount, planes = AMOUNTS[level], PLAY.dim // 2
    if name == "learned":
        return f"spread of the table {amount:g}", make_encoding(name, PLAY, spread=amount)
    if name == "t5":
        return f"spread of the biases {2 * amount:g}", make_encoding(name, PLAY, spread=2 * amount)
    if name == "alibi":
        slope = 2.0 ** (level - 4)
        return f"slope {slope:g}", ALiBi(PLAY, slopes=torch.tensor([slope]))
    if name in ("sinusoidal", "pope"):
        return f"base {BASES[level]:g}", make_encoding(name, PLAY, base=BASES[level])
    if name == "rope":
        factor = 2.0 ** (level - 4)
        return f"angles times {factor:g}", make_encoding(name, PLAY, angles=factor * rope_angles(PLAY.dim))
    if name == "rope-500k":
        base = (10.0, 100.0, 1e3, 1e4, 5e5, 1e7, 1e9)[level]
        return f"base {base:g}", make_encoding("rope", PLAY, base=base)
    if name in ("p-rope", "partial-rope", "mla"):
        turning = level + 1
        return f"{turning} of {planes} planes turn", make_encoding(name, PLAY, share=turning / planes)
    encoding = make_encoding(name, PLAY)
    if name == "dape":
        encoding = make_encoding(name, PLAY, bias=ALiBi(PLAY, slopes=torch.tensor([0.5])))
        weights = encoding.get_parameter("map.0.weight").data
        # Units bend where contents and biases lie: beyond, the network would be a plane, and rows and columns add.
        encoding.get_parameter("map.0.bias").data = -weights @ torch.tensor([COMMON, -1.5])
        encoding.get_parameter("map.2.weight").data.mul_(4 * amount)
        return f"network times {4 * amount:g}", encoding
    if isinstance(encoding, CARoPE):
        encoding.weight.data = 4 * amount * torch.randn(1, PLAY.width) / PLAY.width**0.5
        return f"pull of contents {4 * amount:g}", encoding
    if isinstance(encoding, PaTH):
        beta = (0.001, 0.25, 0.5, 0.75, 1.0, 1.5, 1.999)[level]
        encoding.constant.data.fill_(math.log(beta / (2 - beta)))
        return f"strength β of the maps {beta:g}", encoding
    if name == "urpe":
        encoding = make_encoding(name, PLAY, bias=T5Bias(PLAY, spread=0.5))
        swing = level / 4
        distance = torch.arange(1 - PLAY.length, PLAY.length)
        encoding.get_parameter("factors").data = 1 + swing * torch.cos(1.3 * distance)[None]
        return f"factors 1 ± {swing:g}", encoding
    return "nothing to set", encoding

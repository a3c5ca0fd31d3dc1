"""What a head with each encoding can be made to do: for every setting of its knob, its ``C``, scores and shares."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch

from posym_core.encodings.base import Encoding, UndefinedCrossLogits
from posym_core.encodings.knobs import COMMON, KEYS, LEVELS, PLAY
from posym_core.encodings.layer import EncodedHeads, movement
from posym_core.encodings.registry import ENCODINGS, find_entry
from posym_core.metrics.exclusion import exclusion
from posym_core.metrics.permutations import cross_scores

SPREADS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""How far the contents of the playground's keys lie apart."""


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


def playground(names: Collection[str] = ENCODINGS) -> Playground:
    """Frames for a figure with a list of encodings and two sliders; some seconds."""
    orders = torch.tensor(list(itertools.permutations(range(KEYS))))
    generator = torch.Generator().manual_seed(3)
    apart = torch.randn(KEYS + 1, PLAY.width, generator=generator, dtype=torch.float64)
    shared = apart[KEYS] * (COMMON / PLAY.scale) ** 0.5 / apart[KEYS].norm()
    apart[KEYS] = 0  # the query
    size = (len(names), len(SPREADS), LEVELS)
    C, moved = np.full((2, *size, KEYS, KEYS), np.nan)
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
            moved[at] = movement(layer.permuted_logits(inputs, orders), orders)[0]
            try:
                found = layer.cross_logits(inputs)[0]
            except UndefinedCrossLogits:
                continue
            parts, score = exclusion(found), cross_scores(found)
            C[at] = found - found.mean()
            shares[at] = [parts.positional_share, parts.symbolic_share, parts.interaction_share]
            scores[at] = [score.positional, score.symbolic]
    return Playground(C=C, movement=moved, attention=attention, shares=shares, scores=scores, knobs=tuple(texts))


@functools.cache
def knob(name: str) -> tuple[tuple[str, Encoding], ...]:
    """The settings of an encoding's knob: what each says, and the encoding set so; float64, without gradients."""
    entry, made = find_entry(name), []
    for level in range(LEVELS):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            text, encoding = entry.knob(entry.make, level)
        made.append((text, encoding.double().requires_grad_(False)))
    return tuple(made)

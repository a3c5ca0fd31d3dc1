"""What a head with an encoding can be made to do: for every setting of its knob, its ``C``, scores and shares."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from posym_companion.encodings.knobs import COMMON, KEYS, LEVELS, PLAY
from posym_companion.encodings.known_heads import known_heads
from posym_core.encodings import ENCODINGS, EncodedHeads, Encoding, UndefinedCrossLogits, measure_movement
from posym_core.metrics import exclusion, score_cross_logits

SPREADS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""How far the contents of the playground's keys lie apart, in its figure."""
ORDERS = torch.tensor(list(itertools.permutations(range(KEYS))))


@dataclass(frozen=True, kw_only=True)
class Playground:
    """What a head with one encoding does, for every setting of the encoding's knob.

    Arrays lead with ``[knob]``.

    Attributes:
        C: ``[knob, content, position]``, less its mean, which attention does not see; NaN where the encoding has none.
        movement: ``[knob, content, position]``: largest minus smallest logit of that content at that position over all
            orders of the other keys.
        attention: ``[knob, position]``, of the keys in their own order; the query's own token takes no part.
        shares: ``[knob, (positional, symbolic, interaction)]`` of the variance of ``C``.
        scores: ``[knob, (positional, symbolic)]``.
        knobs: what the knob sets, ``[knob]``.
    """

    C: np.ndarray
    movement: np.ndarray
    attention: np.ndarray
    shares: np.ndarray
    scores: np.ndarray
    knobs: tuple[str, ...]


def playground(name: str, spread: float) -> Playground:
    """Return what a head with an encoding can be made to do; some hundredths of a second.

    Args:
        name: an encoding of the registry.
        spread: how far the contents of the keys lie apart; equal contents at 0.

    Raises:
        ValueError: if there is no such encoding, or ``spread`` is negative or not finite.
    """
    if not 0 <= spread < math.inf:
        raise ValueError(f"spread must be a finite number of at least 0; got {spread}")
    generator = torch.Generator().manual_seed(3)
    apart = torch.randn(KEYS + 1, PLAY.width, generator=generator, dtype=torch.float64)
    shared = apart[KEYS] * (COMMON / PLAY.scale) ** 0.5 / apart[KEYS].norm()
    apart[KEYS] = 0  # the query
    inputs = shared + spread * apart
    C, moved = np.full((2, LEVELS, KEYS, KEYS), np.nan)
    attention, shares, scores = (np.full((LEVELS, last), np.nan) for last in (KEYS, 3, 2))
    plain = torch.eye(PLAY.dim, dtype=torch.float64)[None]
    for level, (_, encoding) in enumerate(knob(name)):
        layer = EncodedHeads(encoding=encoding, query_map=plain, key_map=plain)
        logits = layer.logits(inputs)
        logits[:, -1, -1] = -math.inf
        attention[level] = encoding.attention(logits)[0, -1, :-1]
        moved[level] = measure_movement(layer.permuted_logits(inputs, ORDERS), ORDERS)[0]
        try:
            cross = layer.cross_logits(inputs)[0]
        except UndefinedCrossLogits:
            continue
        parts, score = exclusion(cross), score_cross_logits(cross)
        C[level] = cross - cross.mean()
        shares[level] = [parts.positional_share, parts.symbolic_share, parts.interaction_share]
        scores[level] = [score.positional, score.symbolic]
    texts = tuple(text for text, _ in knob(name))
    return Playground(C=C, movement=moved, attention=attention, shares=shares, scores=scores, knobs=texts)


@functools.cache
def knob(name: str) -> tuple[tuple[str, Encoding], ...]:
    """The settings of an encoding's knob: what each says, and the encoding set so; float64, without gradients."""
    entry, turn, made = ENCODINGS.find(name), known_heads(name).knob, []
    for level in range(LEVELS):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            text, encoding = turn(entry.make, level)
        made.append((text, encoding.double().requires_grad_(False)))
    return tuple(made)

"""Heads built by hand that are positional, symbolic or additive under an encoding, or as nearly so as may be.

All are given by the ``C`` of a query that stands behind :data:`PLACES` keys. Contents differ in one amount each; the
amounts add up to zero, so that contents alone move no average over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.encodings import Encoding, LayerShape
from posym_core.metrics import rope_angles, rotate

PLACES = 24
SHAPE = LayerShape(heads=2, dim=4, width=8, length=PLACES + 1)
# Large enough for attention that is decided.
STRENGTH = 6.0


def amounts() -> Float[Tensor, " content"]:
    """Return what tells contents apart."""
    drawn = STRENGTH * torch.cos(2.4 * torch.arange(PLACES, dtype=torch.float64))
    return drawn - drawn.mean()


def closest_symbolic(angles: Float[Tensor, " plane"], places: int) -> tuple[float, Tensor, Tensor]:
    """Return the most symbolic head of a rotary encoding on so many keys.

    Every row of ``C`` is a sum of the angles' cosines and sines. Among such rows the nearest to a constant one is the
    projection of the constant onto their span, and no contents do better than multiples of it that add up to 0: the
    symbolic share is at most ``|projection|^2 / places``.

    Returns:
        The part of the variance that is not symbolic, at the least; and the projection's coefficients on cosines and
        on sines, each ``[plane]``.

    >>> missing, _, _ = closest_symbolic(torch.tensor([1.0, 0.01]), 24)
    >>> f"{missing:.1e}"
    '4.5e-06'
    """
    if places < 2:
        raise ValueError(f"places must be at least 2; got {places}")
    phase = torch.arange(places, dtype=torch.float64, device=angles.device)[:, None] * angles.double()
    curves = torch.cat([phase.cos(), phase.sin()], dim=-1)
    constant = torch.ones(places).to(curves)
    # Curves of slow planes are nearly parallel: an orthogonal basis of their span keeps the residual accurate.
    left, sizes, right = torch.linalg.svd(curves, full_matrices=False)
    nonzero = sizes > 1e-15 * places * sizes[0]
    left, sizes, right = left[:, nonzero], sizes[nonzero], right[nonzero]
    residual = constant - left @ (left.T @ constant)
    residual = residual - left @ (left.T @ residual)
    cosines, sines = ((left.T @ constant / sizes) @ right).chunk(2)
    return float(residual @ residual / places), cosines, sines


def _cross_logits(encoding: Encoding, query: Tensor, keys: Tensor, **inputs: Any) -> Tensor:
    """Return the same query and keys in all heads."""
    heads = encoding.shape.heads
    return encoding.cross_logits(query.expand(heads, -1), keys.expand(heads, *keys.shape), **inputs)


def two_directions_witness(still: Sequence[float], moving: Sequence[float]) -> Callable[[Encoding, str], Tensor]:
    """Return contents along what position leaves alone, and one equal part of all keys along what it moves."""

    def build(encoding: Encoding, question: str) -> Tensor:
        along = torch.tensor(still, dtype=torch.float64), torch.tensor(moving, dtype=torch.float64)
        keys = torch.zeros(PLACES, SHAPE.dim, dtype=torch.float64)
        if question != "positional":
            keys = keys + amounts()[:, None] * along[0]
        if question != "symbolic":
            keys = keys + STRENGTH * along[1]
        return _cross_logits(encoding, along[0] + along[1], keys)

    return build


def whole_turn_witness(encoding: Encoding, question: str) -> Tensor:
    """Return, of GRAPE, contents in a plane of whole turns; one equal part of all keys in one that turns by 1."""
    begin = encoding.get_buffer("begin")
    encoding.get_parameter("growth").copy_(torch.tensor([1.0, 2 * math.pi], dtype=torch.float64).log() - begin)
    return two_directions_witness([0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])(encoding, question)


def slope_witness(encoding: Encoding, question: str) -> Tensor:
    """Return, of GRAPE, contents that only the query reads, and a slope that the query alone sets."""
    still, moving = torch.eye(SHAPE.dim, dtype=torch.float64)[:2]
    encoding.get_parameter("slopes").fill_(0.0 if question == "symbolic" else 1.0)
    encoding.get_parameter("key_gate").zero_()
    encoding.get_parameter("query_gate").copy_(moving.expand(SHAPE.heads, -1))
    query = moving if question == "positional" else still + moving
    return _cross_logits(encoding, query, amounts()[:, None] * still)


def wave_witness(encoding: Encoding, question: str) -> Tensor:
    """Return, of TAPA, no phases, or one wave for all keys whose amplitudes differ little beside their size, or not."""
    common, phase = {"positional": (STRENGTH, 1.0), "symbolic": (0.0, 0.0), "additive": (100 * STRENGTH, 0.05)}[
        question
    ]
    keys = torch.tensor([0.0, common, phase, 0.0], dtype=torch.float64).repeat(PLACES, 1)
    if question != "positional":
        keys[:, 0] = amounts()
    return _cross_logits(encoding, torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64), keys)


def turned_witness(encoding: Encoding, question: str) -> Tensor:
    """Return contents along the rows nearest to constant ones; one equal part of all keys in the fastest plane."""
    angles = rope_angles(SHAPE.dim) if encoding.needs_content else encoding.get_buffer("angles")
    _, cosines, sines = closest_symbolic(angles, PLACES)
    keys = torch.zeros(PLACES, SHAPE.dim, dtype=torch.float64)
    if question != "positional":
        keys = keys + amounts()[:, None] * torch.cat([cosines, -sines])
    if question != "symbolic":
        keys[:, 0] += STRENGTH
    # Turned so that a key (c, -s) in plane f at position b gets c cos(b angle_f) + s sin(b angle_f).
    first = torch.cat([torch.ones_like(cosines), torch.zeros_like(sines)])
    query = rotate(first, -float(PLACES), angles)
    if not encoding.needs_content:
        return _cross_logits(encoding, query, keys)
    for parameter in encoding.parameters():
        parameter.zero_()
    content = torch.zeros(PLACES + 1, SHAPE.width, dtype=torch.float64)
    return _cross_logits(encoding, query, keys, content=content)


def magnitude_witness(encoding: Encoding, question: str) -> Tensor:
    """Return, of PoPE, contents in the slowest frequency, one equal part of all keys in the fastest."""
    encoding.get_parameter("phases").zero_()
    keys = torch.full((PLACES, SHAPE.dim), -50.0, dtype=torch.float64)
    query = torch.full((SHAPE.dim,), -50.0, dtype=torch.float64)
    if question != "positional":
        keys[:, -1], query[-1] = amounts() + 10, STRENGTH
    if question != "symbolic":
        keys[:, 0], query[0] = STRENGTH, STRENGTH
    return _cross_logits(encoding, query, keys)


def bias_witness(encoding: Encoding, question: str) -> Tensor:
    """Return a query of 0, which leaves the bias alone; where that hurts, it is 0 or cancelled by DAPE's network."""
    biases = dict(encoding.named_parameters())
    if question == "symbolic" and "biases" in biases:
        biases["biases"].zero_()
    if "map.0.weight" in biases:
        _set_map(biases, cancel=question == "symbolic")
    keys = amounts()[:, None] * torch.ones(SHAPE.dim, dtype=torch.float64)
    size = {"positional": 0.0, "symbolic": 1.0, "additive": 0.1}[question]
    query = torch.full((SHAPE.dim,), size, dtype=torch.float64)
    return _cross_logits(encoding, query, keys)


def _set_map(parameters: Mapping[str, Tensor], *, cancel: bool) -> None:
    """Set DAPE's network to 0, or minus the bias: ``relu(x) - relu(-x)``, leaky, is ``x`` times 1.01."""
    for parameter in parameters.values():
        parameter.zero_()
    if cancel:
        for head in range(SHAPE.heads):
            for unit, sign in ((2 * head, 1.0), (2 * head + 1, -1.0)):
                parameters["map.0.weight"][unit, SHAPE.heads + head] = sign
                parameters["map.2.weight"][head, unit] = -sign / 1.01


def absolute_witness(encoding: Encoding, question: str) -> Tensor:
    """Return embeddings that differ in one dimension; the key map reads it, another by position, or both.

    A learned table leaves the contents' dimension alone. Sinusoids leave none alone: contents take the one in which
    they move least, the slowest cosine.
    """
    for name, parameter in encoding.named_parameters():
        if name == "vectors":
            parameter[:, -1] = 0
    inputs = torch.zeros(PLACES, SHAPE.width, dtype=torch.float64)
    inputs[:, -1] = amounts()
    key_map = torch.zeros(SHAPE.heads, SHAPE.width, SHAPE.dim, dtype=torch.float64)
    if question != "positional":
        key_map[:, -1, 0] = 1.0
    if question != "symbolic":
        key_map[:, 0, 1] = STRENGTH
    query = torch.ones(SHAPE.dim, dtype=torch.float64)
    return _cross_logits(encoding, query, (inputs @ key_map)[0], key_map=key_map)

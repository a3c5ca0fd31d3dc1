"""What the playground can set on an encoding: for every level, what the setting says and the encoding set so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from posym_core.encodings import ALiBi, Encoding, LayerShape, T5Bias

KEYS = 6
PLAY = LayerShape(heads=1, dim=14, length=KEYS + 1)
COMMON = 5.0  # logit of what all inputs share, the query's included, where nothing turns
AMOUNTS = (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0)
BASES = (10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 1e6)
FACTORS = tuple(2.0 ** (level - 4) for level in range(len(AMOUNTS)))
LEVELS = len(AMOUNTS)
"""Settings of an encoding's own knob."""

Make = Callable[..., Encoding]
Knob = Callable[[Make, int], tuple[str, Encoding]]


def option(text: str, name: str, values: Sequence[float], convert: Callable[[Any], Any] = lambda value: value) -> Knob:
    """A knob that passes one of ``values``, converted, as the encoding's option of that name."""
    return lambda make, level: (text.format(values[level]), make(PLAY, **{name: convert(values[level])}))


def turning(make: Make, level: int) -> tuple[str, Encoding]:
    """How many planes turn, from one to all."""
    planes = PLAY.dim // 2
    return f"{level + 1} of {planes} planes turn", make(PLAY, share=(level + 1) / planes)


def nothing(make: Make, level: int) -> tuple[str, Encoding]:
    return "nothing to set", make(PLAY)


def network(make: Make, level: int) -> tuple[str, Encoding]:
    """How much DAPE's network adds."""
    make(PLAY)  # moves the generator on to the network that the figure has always shown
    encoding = make(PLAY, bias=ALiBi(PLAY, slopes=torch.tensor([0.5])))
    weights = encoding.get_parameter("map.0.weight").data
    # Units bend where contents and biases lie: beyond, the network would be a plane, and rows and columns add.
    encoding.get_parameter("map.0.bias").data = -weights @ torch.tensor([COMMON, -1.5])
    encoding.get_parameter("map.2.weight").data.mul_(4 * AMOUNTS[level])
    return f"network times {4 * AMOUNTS[level]:g}", encoding


def pull(make: Make, level: int) -> tuple[str, Encoding]:
    """How much contents change CARoPE's frequencies."""
    encoding = make(PLAY)
    encoding.get_parameter("weight").data = 4 * AMOUNTS[level] * torch.randn(1, PLAY.width) / PLAY.width**0.5
    return f"pull of contents {4 * AMOUNTS[level]:g}", encoding


def part_of_a_turn(make: Make, level: int) -> tuple[str, Encoding]:
    """To what part of a turn the angles of GRAPE's planes have been trained, the same for all."""
    encoding = make(PLAY)
    part = (level + 1) / LEVELS
    encoding.get_parameter("growth").data = math.log(2 * math.pi * part) - encoding.get_buffer("begin")
    return f"angles {level + 1}/{LEVELS} of a turn", encoding


def selection(make: Make, level: int) -> tuple[str, Encoding]:
    """How much contents change Selective RoPE's turns."""
    encoding = make(PLAY)
    encoding.get_parameter("strength").data.fill_(8 * AMOUNTS[level])
    return f"strength of the map {8 * AMOUNTS[level]:g}", encoding


def reflection(make: Make, level: int) -> tuple[str, Encoding]:
    """How strongly PaTH's maps reflect."""
    beta = (0.001, 0.25, 0.5, 0.75, 1.0, 1.5, 1.999)[level]
    encoding = make(PLAY)
    encoding.get_parameter("constant").data.fill_(math.log(beta / (2 - beta)))
    return f"strength β of the maps {beta:g}", encoding


def swing(make: Make, level: int) -> tuple[str, Encoding]:
    """How far URPE's factors swing about 1."""
    make(PLAY)  # as in :func:`network`
    encoding = make(PLAY, bias=T5Bias(PLAY, spread=0.5))
    distance = torch.arange(1 - PLAY.length, PLAY.length)
    encoding.get_parameter("factors").data = 1 + level / 4 * torch.cos(1.3 * distance)[None]
    return f"factors 1 ± {level / 4:g}", encoding

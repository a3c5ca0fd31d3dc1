"""Every encoding by name, made with defaults from the sizes of a layer alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from posym_core.encodings.additive import LearnedAbsolute, Sinusoidal
from posym_core.encodings.base import Encoding, LayerShape, NoPE
from posym_core.encodings.bias import DAPE, ALiBi, T5Bias
from posym_core.encodings.carope import CARoPE
from posym_core.encodings.path import PaTH
from posym_core.encodings.rotary import DecoupledRoPE, PartialRoPE, PoPE, PRoPE, RollPE, RoPE
from posym_core.encodings.urpe import URPE

LABELS = MappingProxyType(
    {
        "nope": "NoPE",
        "sinusoidal": "sinusoidal",
        "learned": "learned",
        "t5": "T5 bias",
        "alibi": "ALiBi",
        "dape": "DAPE",
        "rope": "RoPE",
        "rope-500k": "RoPE 500k",
        "p-rope": "p-RoPE",
        "partial-rope": "partial RoPE",
        "mla": "MLA",
        "rollpe": "RollPE",
        "pope": "PoPE",
        "carope": "CARoPE",
        "carope-own": "CARoPE own",
        "path": "PaTH",
        "urpe": "URPE",
    }
)
"""How encodings are called in tables and lists."""

TABLES = ("learned", "urpe")
"""Encodings with one trained number or vector per position or distance, which end where their table ends."""

ENCODINGS: Mapping[str, Callable[..., Encoding]] = MappingProxyType(
    {
        "nope": NoPE,
        "sinusoidal": Sinusoidal,
        "learned": LearnedAbsolute,
        "t5": T5Bias,
        "alibi": ALiBi,
        "dape": DAPE,
        "rope": RoPE,
        "rope-500k": partial(RoPE, base=500_000.0),
        "p-rope": PRoPE,
        "partial-rope": PartialRoPE,
        "mla": DecoupledRoPE,
        "rollpe": RollPE,
        "pope": PoPE,
        "carope": CARoPE,
        "carope-own": partial(CARoPE, accumulate=False),
        "path": PaTH,
        "urpe": URPE,
    }
)


def make_encoding(name: str, shape: LayerShape, **options: Any) -> Encoding:
    """The encoding of that name for a layer.

    Trained parameters are drawn from torch's global generator.

    Args:
        name: a key of :data:`ENCODINGS`.
        shape: of the layer.
        options: of the encoding, in place of its defaults.

    Raises:
        ValueError: if there is no such encoding or it does not fit the layer.

    >>> make_encoding("rope", LayerShape(heads=2, dim=4)).angles
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    if name not in ENCODINGS:
        raise ValueError(f"name must be one of {', '.join(map(repr, ENCODINGS))}; got {name!r}")
    return ENCODINGS[name](shape, **options)

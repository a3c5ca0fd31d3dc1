"""Every encoding by name: a new one is a class of its own and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from posym_core.encodings.additive import LearnedAbsolute, Sinusoidal
from posym_core.encodings.base import Encoding, LayerShape, NoPE
from posym_core.encodings.bias import DAPE, ALiBi, T5Bias
from posym_core.encodings.carope import CARoPE
from posym_core.encodings.grape import AdditiveGRAPE, MultiplicativeGRAPE
from posym_core.encodings.path import PaTH
from posym_core.encodings.rotary import DecoupledRoPE, PartialRoPE, PoPE, PRoPE, RollPE, RoPE
from posym_core.encodings.selective import SelectiveRoPE
from posym_core.encodings.tapa import TAPA
from posym_core.encodings.urpe import URPE


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One encoding.

    Attributes:
        make: makes it for a layer, with options in place of its defaults.
        label: its name in tables and lists.
        bounded: whether it has one trained number or vector per position or distance, and ends where that table ends.
    """

    make: Callable[..., Encoding]
    label: str
    bounded: bool = False


ENCODINGS: dict[str, Entry] = {
    "nope": Entry(make=NoPE, label="NoPE"),
    "sinusoidal": Entry(make=Sinusoidal, label="sinusoidal"),
    "learned": Entry(make=LearnedAbsolute, label="learned", bounded=True),
    "t5": Entry(make=T5Bias, label="T5 bias"),
    "alibi": Entry(make=ALiBi, label="ALiBi"),
    "dape": Entry(make=DAPE, label="DAPE"),
    "rope": Entry(make=RoPE, label="RoPE"),
    "rope-500k": Entry(make=partial(RoPE, base=500_000.0), label="RoPE 500k"),
    "p-rope": Entry(make=PRoPE, label="p-RoPE"),
    "partial-rope": Entry(make=PartialRoPE, label="partial RoPE"),
    "mla": Entry(make=DecoupledRoPE, label="MLA"),
    "rollpe": Entry(make=RollPE, label="RollPE"),
    "pope": Entry(make=PoPE, label="PoPE"),
    "grape-m": Entry(make=MultiplicativeGRAPE, label="GRAPE-M"),
    "grape-a": Entry(make=AdditiveGRAPE, label="GRAPE-A"),
    "tapa": Entry(make=TAPA, label="TAPA"),
    "carope": Entry(make=CARoPE, label="CARoPE"),
    "carope-own": Entry(make=partial(CARoPE, accumulate=False), label="CARoPE own"),
    "selective-rope": Entry(make=SelectiveRoPE, label="Selective RoPE"),
    "path": Entry(make=PaTH, label="PaTH"),
    "urpe": Entry(make=URPE, label="URPE", bounded=True),
}

LABELS: Mapping[str, str] = MappingProxyType({name: entry.label for name, entry in ENCODINGS.items()})
"""How encodings are called in tables and lists."""


def find_entry(name: str) -> Entry:
    """The entry of that name.

    Raises:
        ValueError: if there is none.
    """
    if name not in ENCODINGS:
        raise ValueError(f"name must be one of {', '.join(map(repr, ENCODINGS))}; got {name!r}")
    return ENCODINGS[name]


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
    return find_entry(name).make(shape, **options)

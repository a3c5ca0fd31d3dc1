"""Positional encodings of one attention layer, interchangeable, each with its logits and its cross-logit matrix."""

from collections.abc import Callable
from functools import partial
from typing import Any

from posym_core.encodings._additive import Absolute, LearnedAbsolute, Sinusoidal
from posym_core.encodings._base import Encoding, LayerShape, UndefinedCrossLogits
from posym_core.encodings._bias import DAPE, ALiBi, Biased, T5Bias
from posym_core.encodings._carope import CARoPE
from posym_core.encodings._grape import AdditiveGRAPE, MultiplicativeGRAPE
from posym_core.encodings._layer import EncodedHeads
from posym_core.encodings._nope import NoPE
from posym_core.encodings._path import PaTH
from posym_core.encodings._rotary import DecoupledRoPE, PartialRoPE, PoPE, PRoPE, RollPE, RoPE
from posym_core.encodings._selective import SelectiveRoPE
from posym_core.encodings._tapa import TAPA
from posym_core.encodings._urpe import URPE

__all__ = [
    "DAPE",
    "ENCODINGS",
    "LABELS",
    "TAPA",
    "URPE",
    "ALiBi",
    "Absolute",
    "AdditiveGRAPE",
    "Biased",
    "CARoPE",
    "EncodedHeads",
    "Encoding",
    "LayerShape",
    "LearnedAbsolute",
    "MultiplicativeGRAPE",
    "NoPE",
    "PRoPE",
    "PaTH",
    "PartialRoPE",
    "PoPE",
    "RoPE",
    "RollPE",
    "SelectiveRoPE",
    "Sinusoidal",
    "T5Bias",
    "UndefinedCrossLogits",
    "make_encoding",
]

ENCODINGS: dict[str, Callable[..., Encoding]] = {
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
    "grape-m": MultiplicativeGRAPE,
    "grape-a": AdditiveGRAPE,
    "tapa": TAPA,
    "carope": CARoPE,
    "carope-own": partial(CARoPE, accumulate=False),
    "selective-rope": SelectiveRoPE,
    "path": PaTH,
    "urpe": URPE,
}
"""Every encoding: what makes it of a :class:`LayerShape`, by name."""

LABELS: dict[str, str] = {
    **{name: name for name in ENCODINGS},
    **{name: name.upper() for name in ("dape", "mla", "grape-m", "grape-a", "tapa", "urpe")},
    "nope": "NoPE",
    "t5": "T5 bias",
    "alibi": "ALiBi",
    "rope": "RoPE",
    "rope-500k": "RoPE 500k",
    "p-rope": "p-RoPE",
    "partial-rope": "partial RoPE",
    "rollpe": "RollPE",
    "pope": "PoPE",
    "carope": "CARoPE",
    "carope-own": "CARoPE own",
    "selective-rope": "Selective RoPE",
    "path": "PaTH",
}
"""How encodings are called in tables and lists."""


def make_encoding(name: str | Callable[..., Encoding], shape: LayerShape, **options: Any) -> Encoding:
    """Make the encoding of that name for a layer.

    Trained parameters are drawn from torch's global generator.

    Args:
        name: a key of :data:`ENCODINGS`, or a class of one's own.
        shape: of the layer.
        options: of the encoding, in place of its defaults.

    Raises:
        ValueError: if no encoding has this name.

    >>> make_encoding("rope", LayerShape(heads=2, dim=4)).angles
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    if isinstance(name, str) and name not in ENCODINGS:
        raise ValueError(f"encoding must be one of {', '.join(map(repr, ENCODINGS))}, or a class; got {name!r}")
    return (ENCODINGS[name] if isinstance(name, str) else name)(shape, **options)

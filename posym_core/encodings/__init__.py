"""Positional encodings of one attention layer, interchangeable, each with its logits and its cross-logit matrix."""

from posym_core.encodings._additive import Absolute, LearnedAbsolute, Sinusoidal
from posym_core.encodings._base import Encoding, LayerShape, UndefinedCrossLogits
from posym_core.encodings._bias import DAPE, ALiBi, Biased, T5Bias
from posym_core.encodings._carope import CARoPE
from posym_core.encodings._grape import AdditiveGRAPE, MultiplicativeGRAPE
from posym_core.encodings._layer import EncodedHeads, measure_movement
from posym_core.encodings._nope import NoPE
from posym_core.encodings._path import PaTH
from posym_core.encodings._registry import ENCODINGS, LABELS, make_encoding
from posym_core.encodings._rotary import PartialRoPE, PoPE, PRoPE, RollPE, RoPE
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
    "measure_movement",
]

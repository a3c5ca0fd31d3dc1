"""Positional encodings of one attention layer, interchangeable, each with its logits and its cross-logit matrix."""

from posym_core.encodings.additive import LearnedAbsolute, Sinusoidal
from posym_core.encodings.base import Encoding, LayerShape, UndefinedCrossLogits
from posym_core.encodings.bias import DAPE, ALiBi, Biased, T5Bias, alibi_slopes
from posym_core.encodings.carope import CARoPE
from posym_core.encodings.grape import AdditiveGRAPE, MultiplicativeGRAPE
from posym_core.encodings.latent import LatentProjections
from posym_core.encodings.layer import EncodedHeads
from posym_core.encodings.mixed import MixedHeads
from posym_core.encodings.nope import NoPE
from posym_core.encodings.path import PaTH
from posym_core.encodings.registry import ENCODINGS, LABELS, EncodingEntry, make_encoding, register_encoding
from posym_core.encodings.rotary import DecoupledRoPE, PartialRoPE, PoPE, PRoPE, RollPE, RoPE
from posym_core.encodings.selective import SelectiveRoPE
from posym_core.encodings.tapa import TAPA
from posym_core.encodings.urpe import URPE

__all__ = [
    "DAPE",
    "ENCODINGS",
    "LABELS",
    "TAPA",
    "URPE",
    "ALiBi",
    "AdditiveGRAPE",
    "Biased",
    "CARoPE",
    "DecoupledRoPE",
    "EncodedHeads",
    "Encoding",
    "EncodingEntry",
    "LatentProjections",
    "LayerShape",
    "LearnedAbsolute",
    "MixedHeads",
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
    "alibi_slopes",
    "make_encoding",
    "register_encoding",
]

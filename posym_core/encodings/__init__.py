"""Positional encodings of one attention layer, interchangeable, each with its logits and its cross-logit matrix."""

from posym_core.encodings.additive import LearnedAbsolute, Sinusoidal
from posym_core.encodings.base import Encoding, LayerShape, NoPE, UndefinedCrossLogits
from posym_core.encodings.bias import DAPE, ALiBi, T5Bias, alibi_slopes
from posym_core.encodings.context import CARoPE
from posym_core.encodings.heads import EncodedHeads
from posym_core.encodings.latent import LatentProjections
from posym_core.encodings.mixed import MixedHeads
from posym_core.encodings.path import PaTH
from posym_core.encodings.registry import ENCODINGS, make_encoding
from posym_core.encodings.rotary import DecoupledRoPE, PartialRoPE, PoPE, PRoPE, RollPE, RoPE
from posym_core.encodings.urpe import URPE

__all__ = [
    "DAPE",
    "ENCODINGS",
    "URPE",
    "ALiBi",
    "CARoPE",
    "DecoupledRoPE",
    "EncodedHeads",
    "Encoding",
    "LatentProjections",
    "LayerShape",
    "LearnedAbsolute",
    "MixedHeads",
    "NoPE",
    "PRoPE",
    "PaTH",
    "PartialRoPE",
    "PoPE",
    "RoPE",
    "RollPE",
    "Sinusoidal",
    "T5Bias",
    "UndefinedCrossLogits",
    "alibi_slopes",
    "make_encoding",
]

"""Every encoding by name, with all that is said of it: a new one is a class of its own and an entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, get_args

from torch import Tensor

from posym_core.encodings import knobs, witnesses
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
from posym_core.metrics.rope import rope_angles

Question = Literal["positional", "symbolic", "additive"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
Answer = tuple[bool, str]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One encoding.

    Attributes:
        make: makes it for a layer, with options in place of its defaults.
        label: its name in tables and lists.
        answers: to each of :data:`QUESTIONS`, whether a head can be that, and how or why not; one text, the reason, if
            the definition of such heads does not cover the encoding.
        witness: gives ``C`` ``[head, content, position]`` of a head that is what a question asks for, or of the nearest
            known; ``None`` if the definition does not cover the encoding. Takes the encoding, whose parameters it may
            set, for the layer ``SHAPE``.
        options: for that small layer, where the defaults do not fit.
        knob: what the playground can set.
        bounded: whether it has one trained number or vector per position or distance, and ends where that table ends.
    """

    make: Callable[..., Encoding]
    label: str
    answers: tuple[Answer, Answer, Answer] | str
    witness: Callable[[Encoding, Question], Tensor] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    knob: knobs.Knob = knobs.nothing
    bounded: bool = False

    def __post_init__(self):
        if isinstance(self.answers, str) != (self.witness is None):
            raise ValueError(f"{self.label} needs either answers with a witness or the reason why it has neither")


_ADDED = (
    (True, "a key map that reads positions in dimensions in which contents agree"),
    (True, "every head is a sum in the layer that reads the embeddings"),
)
_SUM = (True, "every head is a sum")
_EQUAL_KEYS = (True, "if all keys are equal, only the turning tells them apart")
_APART = "rows of an additive head differ by constants, and a difference of turning rows is constant only if it is 0"
_TURNS = (
    _EQUAL_KEYS,
    (False, "on more keys than dimensions a turning row is constant only if it is 0"),
    (False, _APART),
)
_TURNS_IN_PART = (
    _EQUAL_KEYS,
    (True, "contents in dimensions that do not turn"),
    (True, "contents in dimensions that do not turn, one equal part of all keys in a plane that does"),
)

ENCODINGS: dict[str, Entry] = {
    "nope": Entry(
        make=NoPE,
        label="NoPE",
        answers=(
            (False, "a logit does not know the position"),
            (True, "every head is"),
            (False, "there is no positional part"),
        ),
        witness=lambda encoding, _: witnesses.two_directions([1.0, 0.0, 0.0, 0.0], [0.0] * 4)(encoding, "symbolic"),
    ),
    "sinusoidal": Entry(
        make=Sinusoidal,
        label="sinusoidal",
        answers=(
            _ADDED[0],
            (False, "on more positions than the width no direction of the embeddings is free of the sinusoids"),
            _ADDED[1],
        ),
        witness=witnesses.absolute,
        knob=knobs.option("base {:g}", "base", knobs.BASES),
    ),
    "learned": Entry(
        make=LearnedAbsolute,
        label="learned",
        answers=(_ADDED[0], (True, "a table that leaves the contents' dimensions alone"), _ADDED[1]),
        witness=witnesses.absolute,
        knob=knobs.option("spread of the table {:g}", "spread", knobs.AMOUNTS),
        bounded=True,
    ),
    "t5": Entry(
        make=T5Bias,
        label="T5 bias",
        answers=((True, "a query of 0 leaves the bias"), (True, "a bias of 0"), _SUM),
        witness=witnesses.biased,
        knob=knobs.option("spread of the biases {:g}", "spread", [2 * amount for amount in knobs.AMOUNTS]),
    ),
    "alibi": Entry(
        make=ALiBi,
        label="ALiBi",
        answers=(
            (True, "a query of 0 leaves the slope: later keys get more"),
            (False, "the slope is fixed; large logits drown it without end, but never switch it off"),
            _SUM,
        ),
        witness=witnesses.biased,
        knob=knobs.option("slope {:g}", "slopes", knobs.FACTORS, lambda slope: [slope]),
    ),
    "dape": Entry(
        make=DAPE,
        label="DAPE",
        answers=(
            (True, "a query of 0 leaves a function of the bias"),
            (True, "two units a head make the network minus the bias"),
            (True, "a network of 0"),
        ),
        witness=witnesses.biased,
        knob=knobs.network,
    ),
    "rope": Entry(
        make=RoPE,
        label="RoPE",
        answers=_TURNS,
        witness=witnesses.turned,
        knob=knobs.option(
            "angles times {:g}", "angles", knobs.FACTORS, lambda factor: factor * rope_angles(knobs.PLAY.dim)
        ),
    ),
    "rope-500k": Entry(
        make=partial(RoPE, base=500_000.0),
        label="RoPE 500k",
        answers=_TURNS,
        witness=witnesses.turned,
        knob=knobs.option("base {:g}", "base", (10.0, 100.0, 1e3, 1e4, 5e5, 1e7, 1e9)),
    ),
    "p-rope": Entry(
        make=PRoPE,
        label="p-RoPE",
        answers=_TURNS_IN_PART,
        witness=witnesses.two_directions([0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]),
        knob=knobs.turning,
    ),
    "partial-rope": Entry(
        make=PartialRoPE,
        label="partial RoPE",
        answers=_TURNS_IN_PART,
        witness=witnesses.two_directions([0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]),
        options={"share": 0.5},  # the default quarter of four dimensions is no plane
        knob=knobs.turning,
    ),
    "mla": Entry(
        make=DecoupledRoPE,
        label="MLA",
        answers=_TURNS_IN_PART,
        witness=witnesses.two_directions([1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]),
        knob=knobs.turning,
    ),
    "rollpe": Entry(
        make=RollPE,
        label="RollPE",
        answers=(
            (
                True,
                "if all keys are equal, only the shift tells them apart; positions repeat after as many as dimensions",
            ),
            (True, "contents in the mean over dimensions, which no shift changes"),
            (True, "contents in the mean over dimensions, one equal part of all keys in the rest"),
        ),
        witness=witnesses.two_directions([1.0, 1.0, 1.0, 1.0], [1.5, -0.5, -0.5, -0.5]),
    ),
    "pope": Entry(
        make=PoPE,
        label="PoPE",
        answers=(
            (True, "if all keys are equal, only the phases tell them apart"),
            (False, "on more keys than twice the dimensions a turning row is constant only if it is 0"),
            (False, _APART),
        ),
        witness=witnesses.magnitudes,
        knob=knobs.option("base {:g}", "base", knobs.BASES),
    ),
    "grape-m": Entry(
        make=MultiplicativeGRAPE,
        label="GRAPE-M",
        answers=(
            _EQUAL_KEYS,
            (True, "contents in a plane whose trained angle is a whole turn"),
            (True, "contents in a plane whose trained angle is a whole turn, one equal part of all keys in another"),
        ),
        witness=witnesses.whole_turn,
        knob=knobs.part_of_a_turn,
    ),
    "grape-a": Entry(
        make=AdditiveGRAPE,
        label="GRAPE-A",
        answers=(
            (True, "contents at right angles to the query and to the keys' gate leave the query's slope"),
            (True, "a slope of 0"),
            (True, "contents at right angles to the keys' gate leave their row and the query's slope"),
        ),
        witness=witnesses.sloped,
        knob=knobs.option("slope {:g}", "slopes", knobs.FACTORS, lambda slope: [slope]),
    ),
    "tapa": Entry(
        make=TAPA,
        label="TAPA",
        answers=(
            (True, "if all keys are equal, only the distance tells them apart"),
            (True, "phases at right angles to the query's"),
            (False, "a difference of waves in a power of the distance is constant at all distances only if it is 0"),
        ),
        witness=witnesses.waved,
        knob=knobs.option("distance to the power {:g}", "power", (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)),
    ),
    "carope": Entry(
        make=CARoPE,
        label="CARoPE",
        answers="phases add up token by token, so a logit depends on the tokens between; equal frequencies make it "
        "RoPE",
        knob=knobs.pull,
    ),
    "carope-own": Entry(
        make=partial(CARoPE, accumulate=False),
        label="CARoPE own",
        answers=(
            (True, "if all keys are equal and so are their frequencies, only positions tell them apart"),
            (False, "frequencies are above 0: on more keys than dimensions a turning row is constant only if it is 0"),
            (False, "rows, each with its own frequencies, differ by a constant only if they share them or are 0"),
        ),
        witness=witnesses.turned,
        knob=knobs.pull,
    ),
    "selective-rope": Entry(
        make=SelectiveRoPE,
        label="Selective RoPE",
        answers="turns add up token by token, so a logit depends on the tokens between; equal turns make it RoPE",
        knob=knobs.selection,
    ),
    "path": Entry(
        make=PaTH,
        label="PaTH",
        answers="maps multiply token by token, so a logit depends on the tokens between; maps of strength 0 make it "
        "NoPE",
        knob=knobs.reflection,
    ),
    "urpe": Entry(
        make=URPE,
        label="URPE",
        answers="factors multiply the attention weights, so logits do not say where a head attends; positive factors "
        "are one more bias",
        knob=knobs.swing,
        bounded=True,
    ),
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

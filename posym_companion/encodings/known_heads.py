"""Kinds of heads that each encoding allows, and how one of each kind is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from torch import Tensor

from posym_companion.encodings import witnesses
from posym_core.encodings import ENCODINGS, Encoding

Question = Literal["positional", "symbolic", "additive"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
Answer = tuple[bool, str]


@dataclass(frozen=True, kw_only=True)
class KnownHeads:
    """Heads with one encoding.

    Attributes:
        answers: to each of :data:`QUESTIONS`, whether a head can be that, and how or why not; one text, the reason, if
            the definition of such heads does not cover the encoding.
        witness: gives ``C`` ``[head, content, position]`` of a head that is what a question asks for, or of the nearest
            known; ``None`` if the definition does not cover the encoding. Takes the encoding, whose parameters it may
            set, for the layer :data:`posym_companion.encodings.witnesses.SHAPE`.
        options: for that small layer, where the defaults do not fit.
    """

    answers: tuple[Answer, Answer, Answer] | str
    witness: Callable[[Encoding, Question], Tensor] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if isinstance(self.answers, str) != (self.witness is None):
            raise ValueError(
                "known heads need either answers with a witness or the reason why there are neither; got "
                f"answers={self.answers!r} and witness={self.witness!r}"
            )


_ADDED = (
    (True, "a key map that reads positions in dimensions in which contents agree"),
    (True, "every head is a sum in the layer that reads the embeddings"),
)
_SUM = (True, "every head is a sum")
_EQUAL_KEYS = (True, "if all keys are equal, only the rotation distinguishes them")
_APART = (
    "the rows of an additive head differ by constants, and a difference of rotating rows is constant only if it is 0"
)
_TURNS = (
    _EQUAL_KEYS,
    (False, "on more keys than dimensions a rotating row is constant only if it is 0"),
    (False, _APART),
)
_TURNS_IN_PART = (
    _EQUAL_KEYS,
    (True, "contents in dimensions that do not rotate"),
    (True, "contents in dimensions that do not rotate, and one equal part of all keys in a plane that does"),
)

KNOWN_HEADS: dict[str, KnownHeads] = {
    "nope": KnownHeads(
        answers=(
            (False, "a logit does not depend on the position"),
            (True, "every head is symbolic"),
            (False, "there is no positional part"),
        ),
        witness=lambda encoding, _: witnesses.two_directions_witness([1.0, 0.0, 0.0, 0.0], [0.0] * 4)(
            encoding, "symbolic"
        ),
    ),
    "sinusoidal": KnownHeads(
        answers=(
            _ADDED[0],
            (False, "on more positions than the width no direction of the embeddings is free of the sinusoids"),
            _ADDED[1],
        ),
        witness=witnesses.absolute_witness,
    ),
    "learned": KnownHeads(
        answers=(_ADDED[0], (True, "a table that leaves the contents' dimensions alone"), _ADDED[1]),
        witness=witnesses.absolute_witness,
    ),
    "t5": KnownHeads(
        answers=((True, "a query of 0 leaves the bias"), (True, "a bias of 0"), _SUM),
        witness=witnesses.bias_witness,
    ),
    "alibi": KnownHeads(
        answers=(
            (True, "a query of 0 leaves the slope, so that later keys get more attention"),
            (False, "the slope is fixed, and large logits make it small in comparison but never zero"),
            _SUM,
        ),
        witness=witnesses.bias_witness,
    ),
    "dape": KnownHeads(
        answers=(
            (True, "a query of 0 leaves a function of the bias"),
            (True, "two units a head make the network minus the bias"),
            (True, "a network of 0"),
        ),
        witness=witnesses.bias_witness,
    ),
    "rope": KnownHeads(
        answers=_TURNS,
        witness=witnesses.turned_witness,
    ),
    "rope-500k": KnownHeads(
        answers=_TURNS,
        witness=witnesses.turned_witness,
    ),
    "p-rope": KnownHeads(
        answers=_TURNS_IN_PART,
        witness=witnesses.two_directions_witness([0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]),
    ),
    "partial-rope": KnownHeads(
        answers=_TURNS_IN_PART,
        witness=witnesses.two_directions_witness([0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]),
        options={"share": 0.5},
    ),
    "mla": KnownHeads(
        answers=_TURNS_IN_PART,
        witness=witnesses.two_directions_witness([1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]),
    ),
    "rollpe": KnownHeads(
        answers=(
            (
                True,
                "if all keys are equal, only the shift distinguishes them (positions repeat after one per dimension)",
            ),
            (True, "contents in the mean over dimensions, which no shift changes"),
            (True, "contents in the mean over dimensions, and one equal part of all keys in the rest"),
        ),
        witness=witnesses.two_directions_witness([1.0, 1.0, 1.0, 1.0], [1.5, -0.5, -0.5, -0.5]),
    ),
    "pope": KnownHeads(
        answers=(
            (True, "if all keys are equal, only the phases distinguish them"),
            (False, "on more keys than twice the dimensions a rotating row is constant only if it is 0"),
            (False, _APART),
        ),
        witness=witnesses.magnitude_witness,
    ),
    "grape-m": KnownHeads(
        answers=(
            _EQUAL_KEYS,
            (True, "contents in a plane whose trained angle is a whole turn"),
            (
                True,
                "contents in a plane whose trained angle is a whole turn, and one equal part of all keys in another",
            ),
        ),
        witness=witnesses.whole_turn_witness,
    ),
    "grape-a": KnownHeads(
        answers=(
            (True, "contents at right angles to the query and to the keys' gate leave the query's slope"),
            (True, "a slope of 0"),
            (True, "contents at right angles to the keys' gate leave their row and the query's slope"),
        ),
        witness=witnesses.slope_witness,
    ),
    "tapa": KnownHeads(
        answers=(
            (True, "if all keys are equal, only the distance distinguishes them"),
            (True, "phases at right angles to the query's"),
            (False, "a difference of waves in a power of the distance is constant at all distances only if it is 0"),
        ),
        witness=witnesses.wave_witness,
    ),
    "carope": KnownHeads(
        answers="phases add up token by token, so a logit depends on the tokens in between, and equal frequencies make "
        "the encoding RoPE",
    ),
    "carope-own": KnownHeads(
        answers=(
            (True, "if all keys and their frequencies are equal, only positions distinguish them"),
            (
                False,
                "as frequencies are above 0, on more keys than dimensions a rotating row is constant only if it is 0",
            ),
            (
                False,
                "rows, each with its own frequencies, differ by a constant only if they share these or are 0",
            ),
        ),
        witness=witnesses.turned_witness,
    ),
    "selective-rope": KnownHeads(
        answers="rotations add up token by token, so a logit depends on the tokens in between, and equal rotations "
        "make the encoding RoPE",
    ),
    "path": KnownHeads(
        answers="maps multiply token by token, so a logit depends on the tokens in between, and maps of strength 0 "
        "make the encoding NoPE",
    ),
    "urpe": KnownHeads(
        answers="factors multiply the attention weights, so logits do not determine where a head attends, and positive "
        "factors are one more bias",
    ),
}
"""By the name of the encoding in :data:`posym_core.encodings.ENCODINGS`."""


def known_heads(name: str) -> KnownHeads:
    """Return what is known of heads with the encoding of that name; for one that nobody looked at, that nothing is.

    Raises:
        ValueError: if there is no such encoding.
    """
    if name not in ENCODINGS:
        raise ValueError(f"encoding must be one of {', '.join(map(repr, ENCODINGS))}; got {name!r}")
    return KNOWN_HEADS.get(name, KnownHeads(answers="nobody has proved yet what its heads can be"))

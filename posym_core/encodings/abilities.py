"""What a head with an encoding can be: positional, symbolic, or the sum of both; every answer with its witness.

A head is *positional* if its ``C`` has constant columns, *symbolic* if it has constant rows, *additive* if
``C[a, b] = s[a] + p[b]`` with neither part constant. (A constant ``C`` is uniform attention and counts as none.) Where
a head of the kind exists, one is built and measured. Where none does, the reason is given and the nearest head that we
know is measured. The reasons rest on three facts; statements and proofs are ours.

*Turning never stands still.* Let ``g(b) = sum_f Re(c_f exp(i theta_f b))`` with ``F`` different angles in (0, pi). If
``g`` is constant on ``2 F + 1`` consecutive positions, every ``c_f`` is 0: the numbers ``exp(i theta_f)``,
``exp(-i theta_f)`` and 1 are all different, so their geometric sequences are independent on as many positions as there
are sequences (a Vandermonde determinant). A row of a rotary head's ``C`` is such a ``g``, and so is the difference of
two rows. On more keys than a head of RoPE has dimensions it is therefore never exactly symbolic, nor additive. On no
more keys than that some heads are symbolic exactly, and on many more some are so nearly that float64 hardly tells:
:func:`~posym_core.encodings.witnesses.closest_symbolic`.

*What is added adds.* Where position reaches a logit by a sum ``C`` has no interaction, and a part can be switched off
exactly if its source can: a trained bias can be 0, a fixed slope cannot.

*Sinusoids have no blind spot.* A key map that reads the vector ``u`` of the embeddings adds ``u . p_b`` at position
``b``, which is a ``g`` as above: on more than ``width`` positions it is constant for ``u = 0`` only. A head that reads
any content reads position with it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from posym_core.encodings.layer import EncodedHeads
from posym_core.encodings.registry import ENCODINGS
from posym_core.encodings.witnesses import SHAPE, prepared, witness
from posym_core.metrics.exclusion import exclusion
from posym_core.metrics.permutations import cross_scores, random_orders

Question = Literal["positional", "symbolic", "additive"]
QUESTIONS: tuple[Question, ...] = get_args(Question)

_EQUAL_KEYS = "if all keys are equal, only the turning tells them apart"
_STILL = "contents in dimensions that do not turn"
_BOTH = "contents in dimensions that do not turn, one equal part of all keys in a plane that does"
_TURNS = "on more keys than dimensions a turning row is constant only if it is 0"
_TURNS_BOTH = (
    "rows of an additive head differ by constants, and a difference of turning rows is constant only if it is 0"
)

# (possible, how or why not), in the order of the questions
ANSWERS: dict[str, tuple[tuple[bool, str], tuple[bool, str], tuple[bool, str]]] = {
    "nope": (
        (False, "a logit does not know the position"),
        (True, "every head is"),
        (False, "there is no positional part"),
    ),
    "sinusoidal": (
        (True, "a key map that reads positions in dimensions in which contents agree"),
        (False, "on more positions than the width no direction of the embeddings is free of the sinusoids"),
        (True, "every head is a sum in the layer that reads the embeddings"),
    ),
    "learned": (
        (True, "a key map that reads positions in dimensions in which contents agree"),
        (True, "a table that leaves the contents' dimensions alone"),
        (True, "every head is a sum in the layer that reads the embeddings"),
    ),
    "t5": (
        (True, "a query of 0 leaves the bias"),
        (True, "a bias of 0"),
        (True, "every head is a sum"),
    ),
    "alibi": (
        (True, "a query of 0 leaves the slope: later keys get more"),
        (False, "the slope is fixed; large logits drown it without end, but never switch it off"),
        (True, "every head is a sum"),
    ),
    "dape": (
        (True, "a query of 0 leaves a function of the bias"),
        (True, "two units a head make the network minus the bias"),
        (True, "a network of 0"),
    ),
    "rope": ((True, _EQUAL_KEYS), (False, _TURNS), (False, _TURNS_BOTH)),
    "rope-500k": ((True, _EQUAL_KEYS), (False, _TURNS), (False, _TURNS_BOTH)),
    "p-rope": ((True, _EQUAL_KEYS), (True, _STILL), (True, _BOTH)),
    "partial-rope": ((True, _EQUAL_KEYS), (True, _STILL), (True, _BOTH)),
    "mla": ((True, _EQUAL_KEYS), (True, _STILL), (True, _BOTH)),
    "rollpe": (
        (True, "if all keys are equal, only the shift tells them apart; positions repeat after as many as dimensions"),
        (True, "contents in the mean over dimensions, which no shift changes"),
        (True, "contents in the mean over dimensions, one equal part of all keys in the rest"),
    ),
    "pope": (
        (True, "if all keys are equal, only the phases tell them apart"),
        (False, "on more keys than twice the dimensions a turning row is constant only if it is 0"),
        (False, _TURNS_BOTH),
    ),
    "carope-own": (
        (True, "if all keys are equal and so are their frequencies, only positions tell them apart"),
        (False, "frequencies are above 0: on more keys than dimensions a turning row is constant only if it is 0"),
        (False, "rows, each with its own frequencies, differ by a constant only if they share them or are 0"),
    ),
}
UNCOVERED: dict[str, str] = {
    "carope": "phases add up token by token, so a logit depends on the tokens between; equal frequencies make it RoPE",
    "path": "maps multiply token by token, so a logit depends on the tokens between; maps of strength 0 make it NoPE",
    "urpe": "factors multiply the attention weights, so logits do not say where a head attends; positive factors are "
    "one more bias",
}


@dataclass(frozen=True, kw_only=True)
class Ability:
    """One answer.

    Attributes:
        encoding: name in :data:`ENCODINGS`.
        question: what a head might be.
        possible: whether one can; ``None`` where the definition does not cover the encoding.
        reason: how, or why not.
        positional_share: of the witness: the head that is it, or else the nearest one we know; NaN without a ``C``,
            as are the shares and scores that follow.
        symbolic_share: likewise.
        interaction_share: likewise.
        positional_score: likewise, on all swaps of single keys.
        symbolic_score: likewise.
        spread: how far logits of a content at a position differ between permutations of the other tokens, as a part
            of all logits' range, for drawn parameters and inputs; 0 up to rounding where there is a ``C``.
    """

    encoding: str
    question: Question
    possible: bool | None
    reason: str
    positional_share: float
    symbolic_share: float
    interaction_share: float
    positional_score: float
    symbolic_score: float
    spread: float

    @property
    def shortfall(self) -> float:
        """Part of the variance that keeps the witness from being what is asked for."""
        missing = {
            "positional": self.symbolic_share + self.interaction_share,
            "symbolic": self.positional_share + self.interaction_share,
            "additive": self.interaction_share,
        }
        return missing[self.question]


def ability_table(names: Sequence[str] = tuple(ENCODINGS)) -> tuple[Ability, ...]:
    """Every encoding with every question, in that order; about a second."""
    return tuple(ability(name, question) for name in names for question in QUESTIONS)


def ability(name: str, question: Question) -> Ability:
    """Whether a head with the encoding of this name can be that, with a witness.

    Raises:
        ValueError: if the name or the question is unknown.

    >>> answer = ability("rope", "symbolic")
    >>> answer.possible, f"{answer.shortfall:.1e}"
    (False, '4.5e-06')
    """
    if question not in QUESTIONS:
        raise ValueError(f"question must be one of {', '.join(map(repr, QUESTIONS))}; got {question!r}")
    if name in UNCOVERED:
        shares, scores = [torch.nan] * 3, [torch.nan] * 2
        possible, reason = None, UNCOVERED[name]
    elif name in ANSWERS:
        possible, reason = ANSWERS[name][QUESTIONS.index(question)]
        C = witness(name, question)
        variance, attention = exclusion(C), cross_scores(C)
        shares = [variance.positional_share, variance.symbolic_share, variance.interaction_share]
        scores = [attention.positional, attention.symbolic]
    else:
        raise ValueError(f"name must be one of {', '.join(map(repr, ENCODINGS))}; got {name!r}")
    return Ability(
        encoding=name,
        question=question,
        possible=possible,
        reason=reason,
        positional_share=float(shares[0]),
        symbolic_share=float(shares[1]),
        interaction_share=float(shares[2]),
        positional_score=float(scores[0]),
        symbolic_score=float(scores[1]),
        spread=drawn_spread(name),
    )


@functools.cache
def drawn_spread(name: str) -> float:
    """:meth:`EncodedHeads.spread` of heads with drawn parameters, maps and inputs, the largest of them."""
    generator = torch.Generator().manual_seed(1)
    size = (2, SHAPE.heads, SHAPE.width, SHAPE.dim)
    query_map, key_map = torch.randn(size, generator=generator, dtype=torch.float64)
    inputs = torch.randn(7, SHAPE.width, generator=generator, dtype=torch.float64)
    layer = EncodedHeads(encoding=prepared(name), query_map=query_map, key_map=key_map)
    return float(layer.spread(inputs, random_orders(6, 40, generator)).max())

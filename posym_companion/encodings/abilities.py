"""Kinds of heads that an encoding allows: positional, symbolic, or the sum of both; every answer with its witness.

A head is *positional* if its ``C`` has constant columns, *symbolic* if it has constant rows, *additive* if
``C[a, b] = s[a] + p[b]`` with neither part constant. (A constant ``C`` is uniform attention and counts as none.) Where
a head of the kind exists, one is built and measured. Where none does, the reason is given and the nearest head that we
know is measured. The reasons rest on four facts; statements and proofs are ours.

*Turning never stands still.* Let ``g(b) = sum_f Re(c_f exp(i theta_f b))`` with ``F`` different angles in (0, pi). If
``g`` is constant on ``2 F + 1`` consecutive positions, every ``c_f`` is 0: the numbers ``exp(i theta_f)``,
``exp(-i theta_f)`` and 1 are all different, so their geometric sequences are independent on as many positions as there
are sequences (a Vandermonde determinant). A row of a rotary head's ``C`` is such a ``g``, and so is the difference of
two rows. On more keys than a head of RoPE has dimensions it is therefore never exactly symbolic, nor additive. On no
more keys than that some heads are symbolic exactly, and on many more some are so nearly that float64 hardly tells:
:func:`~posym_companion.encodings.witnesses.closest_symbolic`.

*Nor does a wave in a power of the distance.* Let ``g(d) = A cos(w d^p) - A' cos(w' d^p)`` with ``0 < p < 1`` be
constant at all distances ``d = 1, 2, ...``. Their powers grow without end in steps that shrink to 0, so ``g`` as a
function of ``x = d^p`` tends to that constant. A sum of two waves comes back to all its values again and again, so it
is that constant everywhere: the waves are equal, or constant each. Rows of a TAPA head's ``C`` that differ by constants
are therefore all equal or all constant. On a given number of keys one can come near, as the witness with its small
phases does.

*What is added adds.* Where position reaches a logit by a sum ``C`` has no interaction, and a part can be switched off
exactly if its source can: a trained bias can be 0, a fixed slope cannot.

*Sinusoids have no blind spot.* A key map that reads the vector ``u`` of the embeddings adds ``u . p_b`` at position
``b``, which is a ``g`` as above: on more than ``width`` positions it is constant for ``u = 0`` only. A head that reads
any content reads position with it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.encodings.known_heads import QUESTIONS, Question, known_heads
from posym_companion.encodings.witnesses import SHAPE
from posym_core.encodings import ENCODINGS, EncodedHeads, Encoding, make_encoding
from posym_core.metrics import draw_orders, exclusion, score_cross_logits


@dataclass(frozen=True, kw_only=True)
class Ability:
    """One answer.

    Attributes:
        encoding: name in :data:`ENCODINGS`.
        question: what a head might be.
        possible: whether one can; ``None`` where the definition does not cover the encoding.
        reason: how, or why not.
        positional_share: of the witness: the head that is it, or else the nearest one we know; as all shares and scores
            here NaN without a ``C``.
        symbolic_share: of the witness.
        interaction_share: of the witness.
        positional_score: of the witness, on all swaps of single keys.
        symbolic_score: of the witness.
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


def ability_table(names: Collection[str] = ENCODINGS) -> tuple[Ability, ...]:
    """Return every encoding with every question, in that order; about a second."""
    return tuple(ability(name, question) for name in names for question in QUESTIONS)


def ability(name: str, question: Question) -> Ability:
    """Return whether a head with the encoding of this name can be that, with a witness.

    >>> answer = ability("rope", "symbolic")
    >>> answer.possible, f"{answer.shortfall:.1e}"
    (False, '4.5e-06')
    """
    if question not in QUESTIONS:
        raise ValueError(f"question must be one of {', '.join(map(repr, QUESTIONS))}; got {question!r}")
    known = known_heads(name)
    shares, scores = [torch.nan] * 3, [torch.nan] * 2
    if isinstance(known.answers, str):
        possible, reason = None, known.answers
    else:
        possible, reason = known.answers[QUESTIONS.index(question)]
        C = witness(name, question)
        variance, attention = exclusion(C), score_cross_logits(C)
        shares = [variance.positional_share, variance.symbolic_share, variance.interaction_share]
        scores = [attention.positional, attention.symbolic]
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
        spread=draw_spread(name),
    )


def witness(name: str, question: Question) -> Float[Tensor, "content position"]:
    """Return ``C`` of the head that is built for a question."""
    build = known_heads(name).witness
    if build is None:
        raise ValueError(f"{name} has no C, so no head is a witness; look at EncodedHeads.permuted_logits")
    return build(draw_encoding(name), question)[0]


def draw_encoding(name: str) -> Encoding:
    """Return the encoding in float64 for a small layer with drawn parameters, always the same ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoding = make_encoding(name, SHAPE, **known_heads(name).options).requires_grad_(False)
        encoding.redraw()
    return encoding


@functools.cache
def draw_spread(name: str) -> float:
    """Return :meth:`EncodedHeads.spread` of heads with drawn parameters, maps and inputs, the largest of them."""
    generator = torch.Generator().manual_seed(1)
    size = (2, SHAPE.heads, SHAPE.width, SHAPE.dim)
    query_map, key_map = torch.randn(size, generator=generator, dtype=torch.float64)
    inputs = torch.randn(7, SHAPE.width, generator=generator, dtype=torch.float64)
    layer = EncodedHeads(encoding=draw_encoding(name), query_map=query_map, key_map=key_map)
    return float(layer.spread(inputs, draw_orders(6, 40, generator)).max())

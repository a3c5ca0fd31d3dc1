"""Claims of papers that came after the three of this book, as statements about the cross-logit matrix.

One part a paper or two: order in ``C`` against length and base (Du et al., 2026), logits as position plus content (Han
and Ji, 2025) beside massive queries and keys (Jin et al., 2025; Jonasson, 2025), slow planes of the heads that carry an
answer (Bayram, 2026), the influence of a token by its place before any training (Chowdhury, 2026; Herasimchyk et al.,
2026), and what a binding head is told: a place, a name or an answer (Gur-Arieh et al., 2026). The rules that judge
them stand in :mod:`posym_companion.later.judges.later_claims` and were written first.

All parts are asked of the packaged Gemma, plain and taught to bind; of SmolLM2, whose context is shorter than the
farthest distances, what needs no teaching, and of SmolLM2 taught to bind what needs it; and all of small decoders that
solve binding and index (:mod:`posym_companion.solvers.family_solvers`). These know no text: what the others are asked
on text they are asked on the facts of their own prompts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from posym_companion.experiments import SECOND, Experiment
from posym_companion.later import binding, influence, order, retrieval, sums
from posym_companion.later.later_subjects import (
    FIRST,
    SECOND_TAUGHT,
    TAUGHT,
    LaterClaims,
    load_subject,
    make_untrained,
)
from posym_companion.solvers.families import FAMILIES

PARTS = {"order": order, "sums": sums, "retrieval": retrieval, "influence": influence, "binding": binding}


def full_size() -> list[LaterClaims]:
    """All parts of every model.

    Random weights of the taught model would be those of the plain one, and are not drawn again.
    """
    texts = [
        LaterClaims(part="order", prompts=12),
        LaterClaims(part="sums", length=256, prompts=12),
        LaterClaims(part="sums", length=256, prompts=12, trained=False),
        LaterClaims(part="influence", length=127, prompts=8, draws=2),
        LaterClaims(part="binding", length=8, prompts=48),
        LaterClaims(part="retrieval", length=16, prompts=12, draws=8),
    ]
    again = [replace(one, model=TAUGHT, fresh=0) for one in texts if one.trained]
    facts = [
        replace(one, model=family, length=8, prompts=48, draws=8 if one.part == "retrieval" else 4, fresh=8)
        for family in FAMILIES
        for one in texts
    ]
    second = [replace(one, model=SECOND_TAUGHT if one.part in FIRST else SECOND) for one in texts]
    return [*texts, *again, *facts, *second]


def shrink(setting: LaterClaims) -> LaterClaims:
    """A size for trying out."""
    length = {"retrieval": 4, "binding": 6}.get(setting.part, 32)
    return replace(setting, length=length, prompts=4, draws=1, fresh=min(1, setting.fresh))


def measure(model: Any, source: Any, setting: LaterClaims, *, progress: bool = True) -> dict[str, np.ndarray]:
    """The part that a setting names; see the module of each.

    Args:
        model: as :func:`posym_companion.later.later_subjects.load_subject` loads it.
        source: of prompts, its tokenizer or the small decoder's setting.
        setting: what to measure.
        progress: there is no bar.
    """
    if not setting.trained:
        model = make_untrained(model, source, setting.seed)
    with torch.set_grad_enabled(setting.part == "influence"):
        return PARTS[setting.part].measure(model, source, setting)


EXPERIMENT = Experiment(
    settings=full_size,
    small=shrink,
    measure=measure,
    dims=lambda setting: PARTS[setting.part].DIMS,
    load=load_subject,
)

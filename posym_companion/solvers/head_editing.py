"""Heads edited one at a time: whose rotation moves an answer to the neighbouring fact.

A plane keeps contents apart while it turns by less than 2.78 over what is compared
(:func:`posym_core.metrics.dirichlet_kernel`). Over a list of ``n`` tokens the slow planes are those with
``theta n < 2.78``, and all others are fast, as in :mod:`posym_companion.solvers.head_rankings`. There are two edits:

- *sped up*: every slow plane turns by 2.78 over one fact. Contents that are one fact apart are then compared almost
  upside down, so that what speaks for the fact asked about speaks against it, and for its neighbours.
- *stopped*: fast planes no longer turn. A head that knew by them which tokens stand near then takes those of other
  facts for them.

Asked are facts in the middle of lists, so that neighbours lie on average where the other facts lie, and damage that
knows nothing of facts favours neither. This project's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_companion.experiments import Experiment, slug
from posym_companion.language_models.head_predictors import CROSSING
from posym_companion.solvers.head_removal import load_ranked_model
from posym_companion.solvers.list_questions import questions_about
from posym_companion.solvers.ranked_models import SOLVERS, ranked_names
from posym_core.metrics import BlockLayout
from posym_profile.interventions import Intervention, edit_rope, freeze_rotation, select_all, select_by_angle
from posym_profile.planes import find_planes
from posym_profile.prompts import binding_prompts

EDITS = ("sped up", "stopped")
ROLES = ("asked", "before", "after", "other")
DIMS = {
    "log_probability": "edit layer head list question role",
    "answer": "edit layer head list question",
    "unedited": "list question role",
    "unedited_answer": "list question",
}


@dataclass(frozen=True, kw_only=True)
class HeadEditing:
    """One language model, all of whose heads are edited in turn.

    Attributes:
        model: name for :func:`posym_profile.load_model`; its heads must have been ranked.
        wording: of the lists; one that was not taught.
        facts: of a list.
        asked: which facts of each list are asked about, from 0; each has two neighbours.
        lists: how many the model reads.
        seed: of the lists.
    """

    model: str = "gemma-3-270m-binds"
    wording: str = "bought"
    facts: int = 8
    asked: tuple[int, ...] = (2, 3, 4, 5)
    lists: int = 6
    seed: int = 1300

    def __post_init__(self) -> None:
        if not all(0 < fact < self.facts - 1 for fact in self.asked) or self.facts < 4:
            raise ValueError(
                f"a fact that is asked about has two neighbours and others beside them: from 1 to {self.facts - 2} of "
                f"{self.facts}, and four facts at least; got {self.asked}"
            )

    @property
    def name(self) -> str:
        return f"head_editing/{slug(self.model)}"


def full_size() -> list[HeadEditing]:
    """The language models whose heads are ranked; there is no ``model`` to choose."""
    return [HeadEditing(model=name) for name in ranked_names() if name not in SOLVERS]


def edits_of(swaps: BlockLayout) -> Mapping[str, Callable[..., Intervention]]:
    """From heads to each of :data:`EDITS`, for lists of such facts."""
    cut = CROSSING / (swaps.stop - swaps.start)

    def speed_up(angles: Float[Tensor, " plane"]) -> tuple[Tensor, Tensor]:
        slow = (angles > 0) & (angles < cut)
        return torch.where(slow, CROSSING / swaps.block_length, angles), select_all(angles)

    def sped_up(heads: list[tuple[int, int]]) -> Intervention:
        return Intervention(change=speed_up, heads=heads)

    def at_rest(heads: list[tuple[int, int]]) -> Intervention:
        return freeze_rotation(select_by_angle(cut, math.inf), heads=heads)

    return {"sped up": sped_up, "stopped": at_rest}


def measure(
    model: Any, tokenizer: Any, rankings: Any, setting: HeadEditing, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """What the model answers with each head edited, among the attributes that a list names.

    Returns:
        ``log_probability [edit, layer, head, list, question, role]``: of the attribute of the fact asked about, of the
        facts before and after it, and of the mean probability of all others; ``answer``: by which of the four, from 0,
        the likeliest attribute stands; and both ``unedited``.
    """
    from tqdm import tqdm

    drawn: dict[str, Any] = {"template": setting.wording, "facts": setting.facts}
    lists = binding_prompts(tokenizer, **drawn, count=setting.lists, seed=setting.seed)
    questions = questions_about(lists, range(setting.lists), setting.asked)
    planes = find_planes(model, lists.input_ids.shape[1])
    edits, heads = edits_of(BlockLayout(**lists.layout)), rankings["predictors"].shape[-2:]

    def answers() -> tuple[np.ndarray, np.ndarray]:
        before = by_role(questions.logits(model).cpu(), questions.asked)
        return tuple(x.unflatten(0, (setting.lists, -1)).numpy() for x in before)  # pyright: ignore[reportReturnType]

    unedited = answers()
    rows = []
    steps = list(product(EDITS, range(heads[0]), range(heads[1])))
    for edit, *head in tqdm(steps, desc=setting.name, disable=not progress):
        with edit_rope(model, edits[edit]([tuple(head)]), planes=planes):
            rows.append(answers())
    logs, best = (np.stack(x).reshape(len(EDITS), *heads, *x[0].shape) for x in zip(*rows, strict=True))
    return {
        "log_probability": logs.astype(np.float16),
        "answer": best,
        "unedited": unedited[0],
        "unedited_answer": unedited[1],
    }


def by_role(
    logits: Float[Tensor, "question fact"], asked: Int[Tensor, " question"]
) -> tuple[Float[Tensor, "question role"], Int[Tensor, " question"]]:
    """Log-probabilities by :data:`ROLES`, and the role of the likeliest.

    >>> logs, best = by_role(torch.tensor([[0.1, 0.2, 0.6, 0.06, 0.04]]).log(), torch.tensor([1]))
    >>> logs.exp(), best
    (tensor([[0.2000, 0.1000, 0.6000, 0.0500]]), tensor([2], dtype=torch.uint8))
    """
    probability = logits.double().softmax(-1)
    step = torch.arange(logits.shape[1]) - asked[:, None]
    roles = torch.stack([step == 0, step == -1, step == 1, step.abs() > 1], 1)
    means = (probability[:, None] * roles).sum(-1) / roles.sum(-1)
    best = roles[torch.arange(len(asked)), :, probability.argmax(-1)]
    return means.log().float(), best.long().argmax(-1).to(torch.uint8)


EXPERIMENT = Experiment(
    settings=full_size,
    small={"facts": 4, "asked": (1, 2), "lists": 2},
    measure=measure,
    dims=DIMS,
    load=load_ranked_model,
)

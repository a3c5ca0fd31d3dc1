"""Scores of the small decoders' heads before any training: the null of random weights for models that solve.

Every ensemble of two or more layers of :mod:`posym_companion.solvers.task_solvers` is drawn anew three times, as
its training would begin, and its heads are scored on prompts of as many facts as it learns and of twice as many.
This project's own. One result holds all of them.

The rule, written before the run: on models that solve, on binding and on index each by itself, r over the heads of all
seeds counts as learned where its interval lies below the r of every draw of as many untrained models, on prompts of
the length that the models learn. The longer prompts and the other weighting show whether the null depends on either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from posym_companion.language_models.random_weights import TAUS
from posym_companion.loop import Experiment
from posym_companion.solvers import task_solvers
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.task_solvers import SCORING, asked, captured, swaps
from posym_core.models.decoders import DecoderEnsemble
from posym_core.runs.devices import choose_device

DRAWS = 3
# Prompts have so many times the facts of the setting.
LENGTHS = (1, 2)
# Seeds of one draw stand so far from the next, and from those that are trained.
APART = 1000
DIMS = {"*": "weighting length draw seed question layer head score"}


@dataclass(frozen=True, kw_only=True)
class RandomSolvers:
    """All of them.

    Attributes:
        prompts: of each kind of question.
        most: at most so many settings; None for all.
    """

    prompts: int = 16
    most: int | None = None

    @property
    def name(self) -> str:
        """What the result is called."""
        return "random_solvers/all"


def full_size() -> list[RandomSolvers]:
    """All settings."""
    return [RandomSolvers()]


def small(setting: RandomSolvers | None = None) -> RandomSolvers:
    """A size for trying out."""
    return replace(setting or RandomSolvers(), prompts=3, most=2)


def measure(
    setting: RandomSolvers, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Scores of every setting's heads, by the name of its result without the experiment's.

    Returns:
        ``[weighting, length, draw, seed, question, layer, head, score]``: means over prompts of s_POS and s_SYM, with
        the weightings ``TAUS`` of :mod:`posym_companion.language_models.random_weights`.
    """
    place = choose_device(device)
    deep = [each for each in task_solvers.full_size() if each.layers > 1][: setting.most]
    return {
        key_of(each): np.stack(
            [
                np.stack([drawn(each, draw, times, setting.prompts, place) for draw in range(DRAWS)], 1)
                for times in LENGTHS
            ],
            1,
        )
        for each in tqdm(deep, desc=setting.name, disable=not progress)
    }


def key_of(solver: TaskSolvers) -> str:
    """The name of a setting's array."""
    return solver.name.partition("/")[2]


def drawn(solver: TaskSolvers, draw: int, times: int, prompts: int, device: torch.device) -> np.ndarray:
    """One draw of a setting at one length, ``[weighting, seed, question, layer, head, score]``."""
    longer = replace(solver, facts=times * solver.facts, seeds=tuple(APART * (draw + 1) + s for s in solver.seeds))
    # The angles are those that the setting learns with, whatever the length.
    model = DecoderEnsemble(longer.task, solver.angles[None], seeds=longer.seeds, heads=solver.heads).to(device)
    rows = []
    for question in longer.questions:
        layers = captured(model, asked(model, question, prompts, SCORING))
        found = [
            torch.stack(
                [
                    torch.stack([scores.positional.mean(0)[:, 0], scores.symbolic.mean(0)[:, 0]], -1)
                    for scores in (heads.swap_scores(replace(swaps(longer), tau=tau)) for tau in TAUS.values())
                ]
            )
            for heads in layers
        ]
        rows.append(torch.stack(found, 1).unflatten(1, (len(longer.seeds), longer.layers)).cpu())
    return torch.stack(rows, 2).float().numpy()


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS)

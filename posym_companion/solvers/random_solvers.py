"""Scores of the small decoders' heads before any training: the null of random weights for models that solve.

Every ensemble of two or more layers of :mod:`posym_companion.solvers.task_solvers` is drawn again three times, as
its training would begin, and its heads are scored on prompts of as many facts as it learns. This project's own. One
result holds all of their scores, another what frequencies they use.

The rule, written before the run: on models that solve, on binding and on index each by itself, r over the heads of all
seeds counts as learned where its interval lies below the r of every draw of as many untrained models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from tqdm import tqdm

from posym_companion.experiments import Experiment
from posym_companion.solvers import task_solvers
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.task_solvers import SCORING, capture_heads, draw_questions, fact_layout, measure_heads
from posym_core.metrics import score_swaps
from posym_core.models import DecoderEnsemble
from posym_core.store import choose_device

DRAWS = 3
# Seeds of one draw stand so far from the next, and from those that are trained.
APART = 1000
DIMS = {"*_use": "draw seed question layer head field", "*": "draw seed question layer head score"}


@dataclass(frozen=True, kw_only=True)
class RandomSolvers:
    """All of them.

    Attributes:
        prompts: of each kind of question.
        most: at most so many settings; None for all.
        kept: scores of heads, or what their planes are used for.
    """

    prompts: int = 16
    most: int | None = None
    kept: Literal["scores", "planes"] = "scores"

    @property
    def name(self) -> str:
        return f"random_solvers/{'all' if self.kept == 'scores' else self.kept}"


def full_size() -> list[RandomSolvers]:
    """Return all settings, by their heads and by their planes."""
    return [RandomSolvers(), RandomSolvers(kept="planes")]


def measure(
    setting: RandomSolvers, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Return every setting's ``[draw, seed, question, layer, head, (s_POS, s_SYM)]``, means over prompts, by the name
    of its result without the experiment's; of planes, with ``_use`` behind, :func:`behaviour_and_use` of every draw.
    """
    place = choose_device(device)
    deep = [each for each in task_solvers.full_size() if each.layers > 1][: setting.most]
    one_draw, ending = (measure_use, "_use") if setting.kept == "planes" else (measure_draw, "")
    return {
        f"{name_array(each)}{ending}": np.stack([one_draw(each, draw, setting.prompts, place) for draw in range(DRAWS)])
        for each in tqdm(deep, desc=setting.name, disable=not progress)
    }


def name_array(solver: TaskSolvers) -> str:
    """Return the name of a setting's array."""
    return solver.name.partition("/")[2]


def draw_untrained(solver: TaskSolvers, draw: int, device: torch.device) -> DecoderEnsemble:
    """Return an ensemble before its first step, with seeds of one draw."""
    seeds = tuple(APART * (draw + 1) + seed for seed in solver.seeds)
    return DecoderEnsemble(solver.task, solver.angles[None], seeds=seeds, heads=solver.heads).to(device)


def measure_use(
    solver: TaskSolvers, draw: int, prompts: int, device: torch.device
) -> Float[np.ndarray, "seed question layer head field"]:
    """Return one draw of a setting's behaviour and use, see :func:`measure`."""
    model = draw_untrained(solver, draw, device)
    with torch.no_grad():
        measured = measure_heads(model, replace(solver, seeds=model.seeds, score_prompts=prompts))
    angles = solver.angles.numpy()[:, None]
    kinds = [behaviour_and_use(measured, angles, kind) for kind in range(len(solver.questions))]
    return np.stack(kinds, 1).astype(np.float32)


def behaviour_and_use(
    heads: Mapping[str, np.ndarray], angles: np.ndarray, kind: int
) -> Float[np.ndarray, "seed layer head field"]:
    """Return ``s_POS - s_SYM`` of every head, and its mean log angle weighed by what each plane makes the logits vary
    by; ``angles`` are ``[plane]`` or ``[layer, 1, plane]``, above 0.
    """
    energy, scores = heads["energy"][:, kind].astype(float), heads["scores"][:, kind].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        use = np.nansum(energy * np.log(angles), -1) / np.nansum(energy, -1)
    return np.stack([scores[..., 0] - scores[..., 1], use], -1)


def measure_draw(
    solver: TaskSolvers, draw: int, prompts: int, device: torch.device
) -> Float[np.ndarray, "seed question layer head score"]:
    """Return one draw of a setting's scores, see :func:`measure`."""
    model = draw_untrained(solver, draw, device)
    rows = []
    for question in solver.questions:
        measured = []
        for heads in capture_heads(model, draw_questions(model, question, prompts, SCORING)):
            scores = score_swaps(heads, fact_layout(solver))
            measured.append(torch.stack([scores.positional.mean(0)[:, 0], scores.symbolic.mean(0)[:, 0]], -1))
        rows.append(torch.stack(measured).unflatten(0, (len(solver.seeds), solver.layers)).cpu())
    return torch.stack(rows, 1).float().numpy()


EXPERIMENT = Experiment(settings=full_size, small={"prompts": 3, "most": 2}, measure=measure, dims=DIMS)

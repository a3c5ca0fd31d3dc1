"""Scores of the small decoders' heads before any training: the null of random weights for models that solve.

Every ensemble of two or more layers of :mod:`posym_companion.solvers.task_solvers` is drawn anew three times, as
its training would begin, and its heads are scored on prompts of as many facts as it learns and of twice as many.
This project's own. One result holds all of their scores. Another holds what their planes lean to and use, and
the scores of the small models of :mod:`posym_companion.solvers.family_solvers` before any training.

The rule, written before the run: on models that solve, on binding and on index each by itself, r over the heads of all
seeds counts as learned where its interval lies below the r of every draw of as many untrained models, on prompts of
the length that the models learn. The longer prompts and the other weighting show whether the null depends on either.
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
from posym_companion.language_models.random_weights import TAUS
from posym_companion.solvers import family_solvers, task_solvers
from posym_companion.solvers.family_solvers import QUESTIONS, profile_question
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.task_solvers import SCORING, capture_heads, draw_questions, fact_layout, measure_heads
from posym_core.models import DecoderEnsemble
from posym_core.store import choose_device

DRAWS = 3
# Prompts have so many times the facts of the setting.
LENGTHS = (1, 2)
# Seeds of one draw stand so far from the next, and from those that are trained.
APART = 1000
DIMS = {"*": "weighting length draw seed question layer head score"}
PLANE_DIMS = {
    "families": "draw model question layer head score",
    "*_lean": "draw seed question measure speed",
    "*_use": "draw seed question layer head field",
}
# Of planes: what they lean to by shares of variance and by softmax scores, slow planes and middle ones.
MEASURES, SPEEDS = ("shares", "scores"), ("slow", "middle")


@dataclass(frozen=True, kw_only=True)
class RandomSolvers:
    """All of them.

    Attributes:
        prompts: of each kind of question.
        most: at most so many settings; None for all.
        kept: scores of heads, or what their planes are.
    """

    prompts: int = 16
    most: int | None = None
    kept: Literal["scores", "planes"] = "scores"

    @property
    def name(self) -> str:
        return f"random_solvers/{'all' if self.kept == 'scores' else self.kept}"


def full_size() -> list[RandomSolvers]:
    """All settings, by their heads and by their planes."""
    return [RandomSolvers(), RandomSolvers(kept="planes")]


def measure(
    setting: RandomSolvers, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Scores of every setting's heads, by the name of its result without the experiment's.

    Returns:
        ``[weighting, length, draw, seed, question, layer, head, score]``: means over prompts of s_POS and s_SYM, with
        the weightings ``TAUS`` of :mod:`posym_companion.language_models.random_weights`. Of planes, with ``_lean``
        and ``_use`` behind a setting's name, :func:`leanings` and :func:`behaviour_and_use` of every draw; and
        ``families [draw, model, question, layer, head, score]``, in the order of ``family_solvers.full_size()``.
    """
    place = choose_device(device)
    deep = [each for each in task_solvers.full_size() if each.layers > 1][: setting.most]
    if setting.kept == "planes":
        arrays = {"families": np.stack([measure_families(draw, setting) for draw in range(DRAWS)])}
        for each in tqdm(deep, desc=setting.name, disable=not progress):
            draws = [measure_planes(each, draw, setting.prompts, place) for draw in range(DRAWS)]
            arrays |= {f"{name_array(each)}_{name}": np.stack([x[name] for x in draws]) for name in draws[0]}
        return arrays
    return {
        name_array(each): np.stack(
            [
                np.stack([measure_draw(each, draw, times, setting.prompts, place) for draw in range(DRAWS)], 1)
                for times in LENGTHS
            ],
            1,
        )
        for each in tqdm(deep, desc=setting.name, disable=not progress)
    }


def name_array(solver: TaskSolvers) -> str:
    """The name of a setting's array."""
    return solver.name.partition("/")[2]


def measure_planes(solver: TaskSolvers, draw: int, prompts: int, device: torch.device) -> dict[str, np.ndarray]:
    """What the planes of one draw of a setting are, see :func:`measure`."""
    seeds = tuple(APART * (draw + 1) + seed for seed in solver.seeds)
    one = replace(solver, seeds=seeds, score_prompts=prompts)
    model = DecoderEnsemble(one.task, one.angles[None], seeds=seeds, heads=one.heads).to(device)
    with torch.no_grad():
        measured = measure_heads(model, one)
    angles = one.angles.numpy()
    kinds = range(len(one.questions))
    return {
        "lean": np.stack([leanings(measured, angles[0], one.facts, kind) for kind in kinds], 1).astype(np.float32),
        "use": np.stack([behaviour_and_use(measured, angles[:, None], kind) for kind in kinds], 1).astype(np.float32),
    }


def leanings(
    heads: Mapping[str, np.ndarray], angles: np.ndarray, facts: int, kind: int
) -> Float[np.ndarray, "seed measure speed"]:
    """What slow and middle planes lean to, symbols above 0, over all heads; NaN where a setting has no such planes.

    Slow planes turn by less than an eighth over the context, middle ones by an eighth to a whole turn.

    Args:
        heads: ``plane_shares`` and ``plane_scores [seed, question, layer, head, plane, (positional, symbolic, ...)]``.
        angles: ``[plane]``.
        facts: of a prompt.
        kind: number of the kind of question.
    """
    turns = angles * (2 * facts + 1) / (2 * np.pi)
    planes = {"slow": (turns > 0) & (turns < 1 / 8), "middle": (turns >= 1 / 8) & (turns < 1)}
    seeds = len(heads["plane_scores"])
    means = np.full((seeds, len(MEASURES), len(SPEEDS)), np.nan)
    for number, measure in enumerate(MEASURES):
        parts = heads[f"plane_{measure}"][:, kind].astype(float)
        for place, speed in enumerate(SPEEDS):
            some = parts[..., planes[speed], :]
            if planes[speed].any():
                means[:, number, place] = np.nanmean(some[..., 1] - some[..., 0], axis=(1, 2, 3))
    return means


def behaviour_and_use(
    heads: Mapping[str, np.ndarray], angles: np.ndarray, kind: int
) -> Float[np.ndarray, "seed layer head field"]:
    """``s_POS - s_SYM`` of every head, and its mean log angle weighed by what each plane makes the logits vary by.

    Args:
        heads: ``scores`` and ``energy [seed, question, layer, head, ...]``.
        angles: as far as it goes with the energy, ``[plane]`` or ``[layer, 1, plane]``; above 0.
        kind: number of the kind of question.
    """
    energy, scores = heads["energy"][:, kind].astype(float), heads["scores"][:, kind].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        use = np.nansum(energy * np.log(angles), -1) / np.nansum(energy, -1)
    return np.stack([scores[..., 0] - scores[..., 1], use], -1)


def measure_families(draw: int, setting: RandomSolvers) -> Float[np.ndarray, "model question layer head score"]:
    """Scores of one draw of every small model of three families."""
    rows = []
    for each in family_solvers.full_size():
        one = replace(each, seed=APART * (draw + 1) + each.seed, score_prompts=setting.prompts, test_prompts=1)
        model = family_solvers.make_untrained(one).eval()
        rows.append(np.stack([profile_question(one, model, question)["scores"] for question in QUESTIONS]))
    return np.stack(rows).astype(np.float32)


def measure_draw(solver: TaskSolvers, draw: int, times: int, prompts: int, device: torch.device) -> np.ndarray:
    """One draw of a setting at one length, ``[weighting, seed, question, layer, head, score]``."""
    longer = replace(solver, facts=times * solver.facts, seeds=tuple(APART * (draw + 1) + s for s in solver.seeds))
    # The angles are those that the setting learns with, whatever the length.
    model = DecoderEnsemble(longer.task, solver.angles[None], seeds=longer.seeds, heads=solver.heads).to(device)
    rows = []
    for question in longer.questions:
        layers = capture_heads(model, draw_questions(model, question, prompts, SCORING))
        measured = [
            torch.stack(
                [
                    torch.stack([scores.positional.mean(0)[:, 0], scores.symbolic.mean(0)[:, 0]], -1)
                    for scores in (heads.swap_scores(replace(fact_layout(longer), tau=tau)) for tau in TAUS.values())
                ]
            )
            for heads in layers
        ]
        rows.append(torch.stack(measured, 1).unflatten(1, (len(longer.seeds), longer.layers)).cpu())
    return torch.stack(rows, 2).float().numpy()


def name_dims(setting: RandomSolvers) -> Mapping[str, str]:
    """Names of the dimensions of a setting's arrays."""
    return DIMS if setting.kept == "scores" else PLANE_DIMS


EXPERIMENT = Experiment(settings=full_size, small={"prompts": 3, "most": 2}, measure=measure, dims=name_dims)

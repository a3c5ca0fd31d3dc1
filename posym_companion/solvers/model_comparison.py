"""One table of models that can and that cannot do a task: what their heads have in common, by the same numbers.

The packaged models, Gemma plain and taught to bind and SmolLM2, small decoders of
:mod:`posym_companion.solvers.family_solvers` that solve binding and index, and all of them with random weights.
``posym survey`` makes such a table of any models that can be loaded; one result here is a row of it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posym_companion.experiments import Experiment, PromptSetting, slug
from posym_companion.head_measurements import look
from posym_companion.one_head.head_geometry import with_random_weights
from posym_companion.solvers import family_solvers
from posym_companion.solvers.families import FAMILIES
from posym_companion.solvers.family_solvers import SCORING, FamilySolver, draw_questions
from posym_core.metrics import DRAWS, TRENDS, mean_interval, measure_head_trends
from posym_core.store import choose_device
from posym_profile.language_models import MODELS, NAMES, choose_answers, load_model, summarize_loaded
from posym_profile.prompts import Prompts, make_prompts

TASKS = ("binding", "index")
DIMS = {
    " ".join(("right", *TRENDS)): "end",  # value and both ends of its interval
    "correct alternatives": "prompt",
    "positional symbolic": "prompt layer head",
    "plane_energy": "layer head plane",
    "plane_angle": "layer plane",
    "rope_bases": "base",
    "windows": "layer",
    "parameters tokens": "",
}


@dataclass(frozen=True, kw_only=True)
class SurveyedModel(PromptSetting):
    """One model on one task.

    Attributes:
        model: a name for :func:`posym_profile.load_model`, or a family of :mod:`posym_companion.solvers.families`.
        trained: as it was trained; otherwise with random weights.
        task: binding or index.
        facts: of a prompt; the small decoders know 8.
        seed: of the prompts, and of random weights.
        solver_seed: of the small decoders, as they are called there.
        steps: of the small decoders' training, at most.
    """

    trained: bool = True
    task: str = "binding"
    prompts: int = 64
    solver_seed: int = 2
    steps: int = 1600

    @property
    def name(self) -> str:
        return f"model_comparison/{slug(self.model)}{'' if self.trained else '-random'}_{self.task}"


def full_size() -> list[SurveyedModel]:
    """Every model on both tasks; there is no ``model`` to choose."""
    large = [SurveyedModel(model=name) for name in NAMES] + [
        SurveyedModel(model=name, trained=False) for name in MODELS
    ]
    small_ones = [SurveyedModel(model=family, trained=yes, facts=8) for yes in (True, False) for family in FAMILIES]
    return [replace(setting, task=task) for setting in large + small_ones for task in TASKS]


def measure(
    setting: SurveyedModel, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """The row of a model, and what it was counted from.

    Returns:
        The share of ``right`` answers and the numbers of :class:`posym_core.metrics.HeadTrends`, each with
        both ends of its interval and NaN where it is not defined; scores, energies of planes as parts of their head's,
        angles, answers; number of ``parameters`` and of ``tokens``, ``rope_bases``, and ``windows``, 0 for layers that
        see everything.
    """
    choose = profile_decoder if setting.model in FAMILIES else profile_language_model
    model, prompts = choose(setting, choose_device(device), progress)
    wanted = {"positional": "positional", "symbolic": "symbolic", "plane_energy": "plane_energy_share"}
    measured = look(model, prompts, wanted, keys=slice(-1), progress=progress)
    turning = measured.pop("angles").numpy()
    scores = {name: x.float().numpy() for name, x in measured.items()}
    summary, choices = summarize_loaded(model), choose_answers(model, prompts)
    windows = np.array([window or 0 for window in summary.windows])
    trends = measure_head_trends(
        scores["positional"],
        scores["symbolic"],
        scores["plane_energy"],
        turning,
        tokens=prompts.input_ids.shape[1],
        local=windows > 0,
    )
    right = mean_interval(choices.correct.numpy(), over="prompts", draws=DRAWS)
    return {
        **{
            name: np.full(3, np.nan) if x is None else np.array([x.value, x.low, x.high])
            for name, x in {"right": right, **vars(trends)}.items()
        },
        **scores,
        "plane_energy": np.nan_to_num(scores["plane_energy"]).mean(0),
        "plane_angle": turning,
        "correct": choices.correct.numpy(),
        "alternatives": choices.alternatives.numpy(),
        "parameters": np.array(summary.parameters),
        "tokens": np.array(prompts.input_ids.shape[1]),
        "rope_bases": np.array(summary.rope_bases),
        "windows": windows,
    }


def profile_language_model(setting: SurveyedModel, device: torch.device, progress: bool) -> tuple[Any, Prompts]:
    """A model with a tokenizer, and prompts in its words."""
    model, tokenizer = load_model(setting.model, device=str(device))
    if not setting.trained:
        model = with_random_weights(model, setting.seed).requires_grad_(False)
    drawn = {"facts": setting.facts, "count": setting.prompts, "seed": setting.seed}
    return model, make_prompts(tokenizer, setting.task, **drawn)


def profile_decoder(setting: SurveyedModel, device: torch.device, progress: bool) -> tuple[Any, Prompts]:
    """A small decoder, and prompts of its own tokens; both tasks train it alike."""
    solver = FamilySolver(family=setting.model, seed=setting.solver_seed, facts=setting.facts)  # pyright: ignore
    solver = replace(solver, training=replace(solver.training, steps=setting.steps))
    task = solver.task
    model = _taught(solver, device, progress) if setting.trained else family_solvers.make_untrained(solver).to(device)
    batch = draw_questions(solver, setting.task, setting.prompts, SCORING, device)  # pyright: ignore
    answers = task.first_attribute + torch.arange(task.attributes)
    return model.eval().requires_grad_(False), Prompts(
        input_ids=batch.tokens.cpu(),
        start=1,
        block_length=task.words,
        blocks=task.facts,
        answer_ids=answers.expand(setting.prompts, -1),
        target=batch.answer[:, 0].cpu(),
        texts=[],
    )


@functools.lru_cache(maxsize=1)  # both tasks ask the same model, one after the other
def _taught(solver: FamilySolver, device: torch.device, progress: bool) -> Any:
    return family_solvers.load_solver(solver, device, progress=progress)


EXPERIMENT = Experiment(settings=full_size, small={"facts": 4, "prompts": 6, "steps": 20}, measure=measure, dims=DIMS)

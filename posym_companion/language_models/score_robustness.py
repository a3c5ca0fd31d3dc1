"""How the scores of a language model's heads depend on everything that is chosen when they are made.

Four parts, each a result of its own: ``choices`` (temperature, floor, blocks, permutations beyond swaps, shares of the
logits), ``tasks`` (the same heads on other inputs), ``intervention`` (keys swapped inside the head against a run of the
really swapped prompt) and ``answers`` (prompts answered right against wrong). What reviewers of Urrutia et al. (2026a)
asked for; the answers are in the chapter *How far can the scores be trusted?*
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from posym_companion.experiments import Experiment, PromptSetting, load_experiment_model, slug
from posym_companion.head_measurements import look, measure_answers
from posym_companion.language_models import score_choices, score_intervention
from posym_companion.language_models.score_choices import CUTS, FLOORS, TAUS, list_cuts
from posym_companion.language_models.score_intervention import measure_intervention
from posym_profile.language_models import PACKAGED
from posym_profile.prompts import Prompts, make_prompts

__all__ = [
    "CUTS",
    "FLOORS",
    "PARTS",
    "TASKS",
    "TAUS",
    "WORDINGS",
    "ScoreRobustness",
    "list_cuts",
    "measure_intervention",
]

Part = Literal["choices", "tasks", "intervention", "answers"]
PARTS: tuple[Part, ...] = ("choices", "tasks", "intervention", "answers")
WORDINGS = ("binding-likes", "binding-bought", "binding-lives")
TASKS = (*WORDINGS, "index", "keyvalue", "induction", "text")
DIMS: dict[Part, dict[str, str]] = {
    "choices": score_choices.DIMS,
    "tasks": {"positional symbolic entropy": "task prompt layer head", "correct alternatives": "task prompt"},
    "intervention": score_intervention.DIMS,
    "answers": {"positional symbolic": "prompt layer head", "correct alternatives target": "prompt"},
}


@dataclass(frozen=True, kw_only=True)
class ScoreRobustness(PromptSetting):
    """One part of the experiment.

    Attributes:
        part: ``"choices"``, ``"tasks"``, ``"intervention"`` or ``"answers"``.
        prompts: prompts of each wording or task.
        permutations: random permutations of the blocks (part ``choices``).
    """

    part: Part = "choices"
    prompts: int = 32
    permutations: int = 200

    @property
    def name(self) -> str:
        return f"score_robustness/{slug(self.model)}_{self.part}"


# Sizes of the parts of which there are other numbers than the default's. Swapped prompts are run for every swap, so
# there are fewer of them, with fewer facts.
SIZES: Mapping[Part, Mapping[str, int]] = {
    "choices": {},
    "tasks": {},
    "intervention": {"prompts": 8, "facts": 8},
    "answers": {"prompts": 240, "facts": 8},
}


def full_size(model: str = PACKAGED) -> list[ScoreRobustness]:
    """Return all parts."""
    return [ScoreRobustness(part=part, model=model, **size) for part, size in SIZES.items()]


def measure(model: Any, tokenizer: Any, setting: ScoreRobustness, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return all arrays of one part, with a leading dimension for wordings or tasks.

    The scores of every task, and of the wording that the model answers best, stand beside its answers.
    """
    if setting.part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(map(repr, PARTS))}; got {setting.part!r}")
    if setting.part == "answers":
        prompts = _draw_prompts(tokenizer, WORDINGS[-1], setting)
        scores = _score(model, prompts, ("positional", "symbolic"), progress=progress)
        return scores | {"target": prompts.target.numpy()}
    options = {"permutations": setting.permutations, "seed": setting.seed, "progress": progress}
    rows = []
    for task in WORDINGS if setting.part == "choices" else TASKS:
        prompts = _draw_prompts(tokenizer, task, setting)
        if setting.part == "choices":
            rows.append(score_choices.measure(model, prompts, **options))
        elif setting.part == "tasks":
            rows.append(_score(model, prompts, ("positional", "symbolic", "entropy"), progress=progress))
        else:
            rows.append(measure_intervention(model, prompts, progress=progress))
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def _draw_prompts(tokenizer: Any, task: str, setting: ScoreRobustness) -> Prompts:
    return make_prompts(tokenizer, task, facts=setting.facts, count=setting.prompts, seed=setting.seed)


def _score(model: Any, prompts: Prompts, names: tuple[str, ...], *, progress: bool) -> dict[str, np.ndarray]:
    """Return default scores, and the answers."""
    measured = look(model, prompts, names, progress=progress)
    return {name: measured[name].float().numpy() for name in names} | measure_answers(model, prompts)


EXPERIMENT = Experiment(
    settings=full_size,
    small={"prompts": 2, "facts": 4, "permutations": 20},
    measure=measure,
    dims=lambda setting: DIMS[setting.part],
    load=load_experiment_model,
)

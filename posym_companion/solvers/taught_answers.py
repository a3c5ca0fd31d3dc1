"""How often do the models that were taught to bind answer right, by wording, number of facts and place?

The runs of :mod:`posym_companion.solvers.taught_gemma` ask eight or twelve questions of a kind, of which one more or
less is a tenth. Here the same models are asked more, of the wording that was taught and of two that were not; and
:mod:`posym_companion.solvers.binding_direction` asks in words of no lesson, and in both orders. This project's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posym_companion.experiments import Experiment, name_prefix
from posym_companion.solvers.binding_direction import kept_factors, load_taught
from posym_companion.solvers.taught_gemma import APART, FACTS, WORDINGS, TaughtGemma
from posym_profile.language_models import PACKAGED, choose_answers, merge_lora
from posym_profile.prompts import binding_prompts

DIMS = {"correct place": "wording length prompt", "facts": "length"}


@dataclass(frozen=True, kw_only=True)
class TaughtAnswers:
    """One taught model.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        taught: seed of the run of :mod:`posym_companion.solvers.taught_gemma` that it was taught in.
        prompts: questions of each wording, for each of the numbers of facts of that run; long lists are costly.
        seed: of the prompts, which no lesson and no snapshot has.
    """

    model: str = PACKAGED
    taught: int = 0
    prompts: tuple[int, ...] = (24, 24, 4)
    seed: int = 60 * APART

    @property
    def name(self) -> str:
        return f"taught_answers/{name_prefix(self.model)}{self.taught}"


def full_size(model: str = PACKAGED) -> list[TaughtAnswers]:
    """The model as it was taught in each of three seeds."""
    return [TaughtAnswers(model=model, taught=taught) for taught in (0, 1, 2)]


def measure(
    model: Any, tokenizer: Any, folder: Path, setting: TaughtAnswers, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Which questions are answered right.

    Returns:
        ``correct`` and ``place`` ``[wording, length, prompt]``: whether the right attribute has the highest logit of
        those named, and the place of the fact asked about, from 0; NaN where fewer were asked. ``facts [length]``.
    """
    factors = kept_factors(TaughtGemma(model=setting.model, seed=setting.taught), folder)
    correct = np.full((len(WORDINGS), len(FACTS), max(setting.prompts)), np.nan, np.float16)
    place = np.full_like(correct, np.nan)
    with merge_lora(model, factors):
        for wording, template in enumerate(WORDINGS):
            for length, (facts, count) in enumerate(zip(FACTS, setting.prompts, strict=True)):
                prompts = binding_prompts(tokenizer, facts=facts, count=count, seed=setting.seed, template=template)
                correct[wording, length, :count] = choose_answers(model, prompts).correct.numpy()
                place[wording, length, :count] = prompts.target.numpy()
    return {"correct": correct, "place": place, "facts": np.array(FACTS)}


EXPERIMENT = Experiment(settings=full_size, small={"prompts": (2, 2, 1)}, measure=measure, dims=DIMS, load=load_taught)

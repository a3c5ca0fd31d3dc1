"""The taught Gemma profiled as the untaught one is, on binding prompts with a remedy against the count of sentences.

In lists of one sentence frame a key remembers how many such sentences came before, and a swap of keys moves that with
the words. Here the models of :mod:`posym_companion.solvers.taught_gemma` read lists behind eight facts of the same
frame, and lists in which each fact has a verb of its own. This project's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posym_companion.experiments import Experiment, name_prefix
from posym_companion.language_models import binding_profile
from posym_companion.language_models.binding_profile import BindingProfile, name_variant, variant_settings
from posym_companion.solvers.binding_direction import kept_factors, load_taught
from posym_companion.solvers.taught_gemma import TaughtGemma
from posym_profile.language_models import PACKAGED, merge_lora

SEEDS = (0, 1, 2)


@dataclass(frozen=True, kw_only=True)
class TaughtProfile:
    """One taught model on one kind of prompt.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        taught: seed of the run of :mod:`posym_companion.solvers.taught_gemma` that it was taught in.
        lesson: what it was taught there: to bind, or in a control the third fact's attribute or wrong answers.
        profile: what is measured, see :class:`posym_companion.language_models.binding_profile.BindingProfile`.
    """

    model: str = PACKAGED
    taught: int = 0
    lesson: Literal["binding", "third", "wrong"] = "binding"
    profile: BindingProfile = field(default_factory=BindingProfile)

    @property
    def name(self) -> str:
        control = "" if self.lesson == "binding" else f"{self.lesson}_"
        where = f"{self.profile.template}_{self.profile.facts}{name_variant(self.profile)}"
        return f"taught_profile/{name_prefix(self.model)}{control}{self.taught}_{where}"

    @property
    def run(self) -> TaughtGemma:
        """The run that it was taught in, as far as its name goes."""
        return TaughtGemma(
            model=self.model,
            seed=self.taught,
            rule="third" if self.lesson == "third" else "asked",
            right=self.lesson != "wrong",
        )


def full_size(model: str = PACKAGED) -> list[TaughtProfile]:
    """Three seeds and three wordings at the length that was taught, behind a lead; controls on one."""
    bound = list_variant_settings("lead", model)
    return bound + [
        setting for lesson in ("third", "wrong") for setting in list_variant_settings("lead", model, lesson)
    ]


def list_variant_settings(
    remedy: str, model: str = PACKAGED, lesson: Literal["binding", "third", "wrong"] = "binding"
) -> list[TaughtProfile]:
    """Three seeds and three wordings at the length that was taught; of a control the wording that was taught alone."""
    profiles = variant_settings(remedy, model, binding_profile.FACTS[:1])[: None if lesson == "binding" else 1]
    return [
        TaughtProfile(model=model, taught=seed, lesson=lesson, profile=profile)
        for seed in SEEDS
        for profile in profiles
    ]


def measure(
    model: Any, tokenizer: Any, folder: Path, setting: TaughtProfile, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """The arrays of :func:`posym_companion.language_models.binding_profile.measure`, of the taught model."""
    with merge_lora(model, kept_factors(setting.run, folder)):
        return binding_profile.measure(model, tokenizer, setting.profile, progress=progress)


EXPERIMENT = Experiment(
    settings=full_size,
    small={"profile": lambda profile: replace(profile, facts=4, prompts=3)},
    measure=measure,
    dims=binding_profile.DIMS,
    load=load_taught,
)

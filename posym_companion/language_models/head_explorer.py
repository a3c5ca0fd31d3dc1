"""Data of the figure *Head explorer*: every head on several inputs, at many temperatures and block lengths.

Urrutia et al. (2026a, section 4) score heads at one temperature with one sentence a block. Here the same 64 tokens of
each input are cut into blocks of 1 to 16 tokens, and each cut is scored at eleven temperatures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from posym_companion.experiments import Experiment, PromptSetting, load_experiment_model, slug
from posym_profile.language_models import PACKAGED, choose_answers
from posym_profile.prompts import make_prompts
from posym_profile.scores import Cuts, average_views, make_head_views

# Facts, names or words that make 64 tokens.
INPUTS = {"binding-likes": 16, "index": 32, "induction": 64, "text": 64}
# What the taught model was taught on, and what it was not.
TAUGHT, COMPARED = "gemma-3-270m-binds", ("binding-likes", "text")
SPAN = 64
LENGTHS = (1, 2, 4, 8, 16)
TAUS = tuple(float(f"{10 ** (power / 2):.0e}") for power in range(-10, 1))
DEFAULT_LENGTH, DEFAULT_TAU = 4, 1e-4
DIMS = {
    "start accuracy chance": "",
    "tokens": "token",
    "angles": "layer plane",
    "entropy": "layer head",
    "attention example": "layer head token",
    "plane_*": "layer head plane",
    "*_share": "length layer head",
    "positional symbolic *_margin": "length tau layer head",
}


@dataclass(frozen=True, kw_only=True)
class HeadExplorer(PromptSetting):
    """One input.

    Attributes:
        task: one of ``PROMPT_TASKS``.
        facts: blocks of a prompt as the task counts them; they must hold 64 tokens.
    """

    task: str = "binding-likes"
    prompts: int = 24

    @property
    def name(self) -> str:
        return f"head_explorer/{slug(self.model)}_{self.task}"


def full_size(model: str = PACKAGED) -> list[HeadExplorer]:
    """Return all inputs; for the packaged model also those on which it is compared with the taught one."""
    pairs = [(model, task) for task in INPUTS] + [(TAUGHT, task) for task in COMPARED if model == PACKAGED]
    return [HeadExplorer(model=name, task=task, facts=INPUTS[task]) for name, task in pairs]


def measure(
    model: torch.nn.Module, tokenizer: Any, setting: HeadExplorer, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Return means over prompts of all arrays of one input; of the first prompt its ``example`` and ``tokens``.

    ``*_margin`` are half widths of 95% intervals over prompts (Student's t); planes are at the default cut.
    """
    prompts = make_prompts(tokenizer, setting.task, facts=setting.facts, count=setting.prompts, seed=setting.seed)
    if prompts.blocks * prompts.block_length != SPAN:
        raise ValueError(
            f"the explorer cuts {SPAN} tokens into blocks, but {setting.facts} facts of {setting.task!r} hold "
            f"{prompts.blocks * prompts.block_length}; pass facts={SPAN // prompts.block_length}"
        )
    if setting.prompts < 2:
        raise ValueError(f"an interval over prompts needs at least 2 of them; got {setting.prompts}")
    cuts = Cuts(prompts.start, SPAN, lengths=LENGTHS, taus=TAUS, shown=(DEFAULT_LENGTH, DEFAULT_TAU))
    views = make_head_views(model, prompts.input_ids, cuts, progress=progress)
    arrays = average_views(views)
    example = arrays.pop("examples")[0]
    choices = choose_answers(model, prompts)
    return arrays | {
        "example": example,
        "tokens": np.array([tokenizer.decode([int(token)]) for token in prompts.input_ids[0]]),
        "start": np.array(prompts.start),
        "accuracy": np.array(choices.accuracy),
        "chance": np.array(choices.chance),
    }


EXPERIMENT = Experiment(
    settings=full_size, small={"prompts": 2}, measure=measure, dims=DIMS, load=load_experiment_model
)

"""What the page *Head explorer* shows: every head on several inputs, at many temperatures and block lengths.

Urrutia et al. (2026a, section 4) score heads at one temperature with one sentence a block. Here the same 64 tokens of
each input are cut into blocks of 1 to 16 tokens, and each cut is scored at eleven temperatures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.loop import Experiment, language_model, plain
from posym_core.inspection.heads import LayerHeads
from posym_core.inspection.layer_measurement import profile_with
from posym_core.metrics.blocks import Swaps
from posym_core.metrics.exclusion_bound import exclusion
from posym_core.metrics.stats import student_margin
from posym_core.models.answers import choice_accuracy
from posym_core.models.language import PACKAGED
from posym_core.tasks import make_prompts

# Facts, names or words that make 64 tokens.
INPUTS = {"binding-likes": 16, "index": 32, "induction": 64, "text": 64}
# What the taught model was taught on, and what it was not.
TAUGHT, COMPARED = "gemma-3-270m-binds", ("binding-likes", "text")
SPAN = 64
LENGTHS = (1, 2, 4, 8, 16)
TAUS = tuple(float(f"{10 ** (power / 2):.0e}") for power in range(-10, 1))
DEFAULT_LENGTH, DEFAULT_TAU = 4, 1e-4
# Planes are scored on so many prompts: they are 128 heads each, and nearly alike from prompt to prompt.
PLANE_PROMPTS = 8
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
class HeadExplorer:
    """One input.

    Attributes:
        model: name for :func:`posym_core.load_model`.
        task: one of ``PROMPT_TASKS``.
        facts: blocks of a prompt as the task counts them; they must hold 64 tokens.
        prompts: how many prompts, at least 2.
        seed: of the prompts.
    """

    model: str = PACKAGED
    task: str = "binding-likes"
    facts: int = 16
    prompts: int = 24
    seed: int = 0

    @property
    def name(self) -> str:
        """What the result is called."""
        return f"head_explorer/{plain(self.model)}_{self.task}"


def full_size(model: str = PACKAGED) -> list[HeadExplorer]:
    """All inputs; for the packaged model also those on which it is compared with the same model taught to bind."""
    pairs = [(model, task) for task in INPUTS] + [(TAUGHT, task) for task in COMPARED if model == PACKAGED]
    return [HeadExplorer(model=name, task=task, facts=INPUTS[task]) for name, task in pairs]


def small(setting: HeadExplorer | None = None) -> HeadExplorer:
    """A size that runs in a test: two prompts."""
    return replace(setting or HeadExplorer(), prompts=2)


def measure(
    model: torch.nn.Module, tokenizer: Any, setting: HeadExplorer, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """All arrays of one input.

    Returns:
        Means over prompts: ``positional``, ``symbolic`` ``[length, tau, layer, head]`` with the half widths of their
        95 % intervals over prompts (Student's t) as ``positional_margin``, ``symbolic_margin``; ``positional_share``,
        ``symbolic_share`` ``[length, layer, head]`` of the variance of the logarithms of the table of block sums, which
        at length 1 is the cross-logit matrix; ``entropy`` ``[layer, head]``; ``attention`` ``[layer, head, token]``
        over all tokens of the prompt; per plane, ``[layer, head, plane]``, ``plane_positional`` and
        ``plane_symbolic`` at the default cut and temperature, over the first eight prompts, and
        ``plane_positional_share``, ``plane_symbolic_share``, ``plane_energy_share`` over the 64 tokens; ``angles``
        ``[layer, plane]``. Of the first prompt: its ``example`` attention ``[layer, head, token]`` and its ``tokens``
        as text. ``start``, the first of the 64 tokens; ``accuracy`` and ``chance`` of the model's answers.

    Raises:
        ValueError: if the task's blocks do not hold 64 tokens, or there are fewer than two prompts.
    """
    prompts = make_prompts(tokenizer, setting.task, facts=setting.facts, count=setting.prompts, seed=setting.seed)
    if prompts.blocks * prompts.block_length != SPAN:
        raise ValueError(
            f"the explorer cuts {SPAN} tokens into blocks, but {setting.facts} facts of {setting.task!r} hold "
            f"{prompts.blocks * prompts.block_length}; pass facts={SPAN // prompts.block_length}"
        )
    if setting.prompts < 2:
        raise ValueError(f"an interval over prompts needs at least 2 of them; got {setting.prompts}")
    angles: dict[int, Tensor] = {}
    inside = slice(prompts.start, prompts.start + SPAN)

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        angles[heads.layer] = heads.angles.cpu()
        cuts = [{"start": prompts.start, "block_length": length, "blocks": SPAN // length} for length in LENGTHS]
        scores = [[heads.swap_scores(Swaps(**cut, tau=tau)) for tau in TAUS] for cut in cuts]
        tables = [heads.block_table(Swaps(**cut)) for cut in cuts]
        shares = [exclusion(table.sums.log()) for table in tables]
        tokens = heads.swap_scores(Swaps())
        planes = heads.frequency_shares(inside)
        return {
            "positional": torch.stack([torch.stack([s.positional for s in row], -1) for row in scores], -2),
            "symbolic": torch.stack([torch.stack([s.symbolic for s in row], -1) for row in scores], -2),
            "positional_share": torch.stack([x.positional_share for x in shares], -1),
            "symbolic_share": torch.stack([x.symbolic_share for x in shares], -1),
            "entropy": tokens.entropy,
            "attention": torch.cat([tokens.attention, 1 - tokens.attention.sum(-1, keepdim=True)], -1),
            "plane_positional_share": planes.positional_share,
            "plane_symbolic_share": planes.symbolic_share,
            "plane_energy_share": planes.energy / planes.energy.sum(-1, keepdim=True),
        }

    def split(heads: LayerHeads) -> dict[str, Tensor]:
        blocks = {"start": prompts.start, "block_length": DEFAULT_LENGTH, "blocks": SPAN // DEFAULT_LENGTH}
        scores = heads.swap_scores(Swaps(**blocks, tau=DEFAULT_TAU), per_frequency=True, products=torch.float32)
        return {"plane_positional": scores.positional, "plane_symbolic": scores.symbolic}

    found = {
        name: x.numpy() for name, x in profile_with(model, prompts.input_ids, one_layer, progress=progress).items()
    }
    planes = profile_with(model, prompts.input_ids[:PLANE_PROMPTS], split, progress=progress)
    found |= {name: x.numpy() for name, x in planes.items()}
    arrays = {name: _mean(x).astype(np.float32) for name, x in found.items()}
    for name in ("positional", "symbolic"):
        margin = student_margin(found[name]).astype(np.float32)
        arrays |= {
            name: np.moveaxis(arrays[name], (2, 3), (0, 1)),
            f"{name}_margin": np.moveaxis(margin, (2, 3), (0, 1)),
        }
        arrays[f"{name}_share"] = np.moveaxis(arrays[f"{name}_share"], 2, 0)
    choices = choice_accuracy(model, prompts)
    return arrays | {
        "angles": np.stack([angles[layer].numpy() for layer in sorted(angles)]),
        "example": found["attention"][0].astype(np.float32),
        "tokens": np.array([tokenizer.decode([int(token)]) for token in prompts.input_ids[0]]),
        "start": np.array(prompts.start),
        "accuracy": np.array(choices.accuracy),
        "chance": np.array(choices.chance),
    }


def _mean(x: np.ndarray) -> np.ndarray:
    """Mean over prompts of what is defined; NaN where nothing is."""
    counted = np.isfinite(x)
    total = np.where(counted, x, 0).astype(np.float64).sum(0)
    return np.where(counted.any(0), total / np.maximum(counted.sum(0), 1), np.nan)


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=language_model)

"""What surgery costs a language model, and whether bands of angles do there what they do in toys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posym_companion.language_models.frequency_surgery import OUTER
from posym_core.metrics.stats import Estimate, mean_difference
from posym_core.runs.results import Result


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the causal claim for toys holds in the model.

    Attributes:
        interaction: what the fastest planes cost the positional task more than the symbolic one, minus the same for
            the slowest planes; nats of the right answer's log-probability among the alternatives.
        share: the same with every loss as a part of what the task had above a blind choice.
        answer: ``"holds"``, ``"reversed"`` or ``"undecided"``.
    """

    interaction: Estimate
    share: Estimate
    answer: str


def losses(result: Result, condition: str) -> np.ndarray:
    """What an intervention costs, ``[task, prompt]``: log-probability of the right answer before minus after."""
    names = list(result["conditions"])
    if condition not in names:
        raise ValueError(f"the result has no condition {condition!r}; it has {names}")
    every = result["log_probability"].astype(float)
    lost = every[names.index("none")] - every[names.index(condition)]
    return lost[:, np.isfinite(lost).all(0)]


def verdict(result: Result, *, action: str = "removed") -> Verdict:
    """The pre-stated test.

    Prediction: without its fastest planes a model loses more on the positional than on the symbolic task, and without
    its slowest planes the reverse. The statistic is the interaction of task and band, ``(fast, positional) - (fast,
    symbolic) - (slow, positional) + (slow, symbolic)``. The claim *holds* if the 95 % intervals of the interaction
    in nats and in shares lie above 0, is *reversed* if both lie below, and is *undecided* otherwise. Losses are
    paired within prompts; prompts of the two tasks are resampled independently.
    """
    fast, slow = (losses(result, f"{action} {which} {OUTER:g}") for which in ("fastest", "slowest"))
    contrast = (fast - slow)[:2]
    base = result["log_probability"][list(result["conditions"]).index("none")][:2].astype(float)
    gain = base.mean(1) + np.log(result.settings["facts"])
    interaction = mean_difference(contrast[0], contrast[1], over="prompts")
    share = mean_difference(contrast[0] / gain[0], contrast[1] / gain[1], over="prompts")
    answer = "undecided"
    if min(interaction.low, share.low) > 0:
        answer = "holds"
    elif max(interaction.high, share.high) < 0:
        answer = "reversed"
    return Verdict(interaction=interaction, share=share, answer=answer)

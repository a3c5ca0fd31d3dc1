"""What surgery costs a language model, and whether bands of angles do there what they do in toys."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.frequency_surgery import OUTER, FrequencySurgery
from posym_companion.results import Result
from posym_core.metrics import Estimate, mean_difference

SHOWN_IN = "book/language_model/language_model.ipynb"


def losses(result: Result, condition: str) -> np.ndarray:
    """What an intervention costs, ``[task, prompt]``: log-probability of the right answer before minus after."""
    names = list(result["conditions"])
    if condition not in names:
        raise ValueError(f"the result has no condition {condition!r}; it has {names}")
    every = result["log_probability"].astype(float)
    lost = every[names.index("none")] - every[names.index(condition)]
    return lost[:, np.isfinite(lost).all(0)]


def interactions(result: Result, *, action: str = "removed") -> dict[str, Estimate]:
    """What the fastest planes cost the positional task more than the symbolic one, minus the same for the slowest.

    In ``nats`` of the right answer's log-probability among the alternatives, and with every loss as a ``share`` of what
    the task had above a blind choice. Losses are paired within prompts; prompts of the two tasks are resampled
    independently. What is done to the planes is ``"removed"``, or ``"still"`` for frequencies zeroed.
    """
    fast, slow = (losses(result, f"{action} {which} {OUTER:g}") for which in ("fastest", "slowest"))
    contrast = (fast - slow)[:2]
    base = result["log_probability"][list(result["conditions"]).index("none")][:2].astype(float)
    gain = base.mean(1) + np.log(result.settings["facts"])
    return {
        "nats": mean_difference(contrast[0], contrast[1], over="prompts"),
        "share": mean_difference(contrast[0] / gain[0], contrast[1] / gain[1], over="prompts"),
    }


@judge(
    SHOWN_IN,
    note="With the slowest quarter ablated even the loss on text rises, so that every task needs it.",
)
def bands_in_a_model(look: Look) -> Iterator[Yielded]:
    """U25-6 in a language model: does it lose the task that a band serves in toys?

    The rule was fixed before the run for planes that are ablated.
    """
    result = look.load(FrequencySurgery())
    look.measured_on = result.settings["model"]
    for unit, interaction in interactions(result).items():
        yield f"interaction of task and band, {unit}", "planes ablated", interaction

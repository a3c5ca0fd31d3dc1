"""Judge of G26-4: how fast models with each encoding learn, and when their heads find the other trigger."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.encodings.judges.encoding_optimisation import optimisation_results
from posym_companion.encodings.judges.encoding_study import FAILS, MODEL, SHOWN_IN, load_study
from posym_companion.finding import Cases, Measured, Number
from posym_companion.results import Result
from posym_core.metrics import mean_interval

# Encodings that add, or have no positions; everything else equal.
ADDITIVE = ("nope", "sinusoidal", "learned", "alibi", "t5")


def mean_loss(result: Result) -> np.ndarray:
    """Loss averaged over the whole training, ``[seed]``: less is faster."""
    return result["losses"].mean(1)


def find_half_way_step(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Step at which ``values [seed, look]`` are first half-way from their first to their last, ``[seed]``.

    Between looks a straight line is drawn.

    >>> find_half_way_step(np.array([0, 10, 20]), np.array([[0.0, 0.0, 1.0]])).tolist()
    [15.0]
    """
    done = (values - values[:, :1]) / (values[:, -1:] - values[:, :1])
    after = (done >= 0.5).argmax(1)
    rows = np.arange(len(done))
    low, high = done[rows, after - 1], done[rows, after]
    return steps[after - 1] + (0.5 - low) / (high - low) * (steps[after] - steps[after - 1])


def measure_linking_attention(result: Result) -> np.ndarray:
    """Attention between the triggers in the head that has most of it at the end, ``[seed, look]``."""
    heads = result["between"].reshape(*result["between"].shape[:2], -1)
    return np.stack([each[:, each[-1].argmax()] for each in heads])


def speed(folder: Path | None) -> Measured:
    """G26-4: mean loss over the training of rotary heads against each encoding that adds."""
    ours: dict[str, Number] = {}
    evidence, missed = [], []
    for task in ("distance", "count"):
        results = {name: load_study(task, name, folder) for name in ("rope", "mla", *ADDITIVE)}
        rotary = mean_loss(results["rope"])
        slower = {name: bool(mean_loss(results[name]).min() > rotary.max()) for name in ADDITIVE}
        ours[f"{task.capitalize()}: encodings that learn more slowly than rotary in every seed"] = Cases(
            sum(slower.values()), len(slower)
        )
        missed += [f"{task.capitalize()}: {name} is as fast" for name, held in slower.items() if not held]
        for name, result in results.items():
            ours[f"{task.capitalize()}: mean loss over the training, {name}"] = mean_interval(mean_loss(result))
            evidence.append(result.name)
    for name, result in optimisation_results(folder).items():
        if float(result["accuracy"][:, -1].min()) < 2 * FAILS:
            continue  # nothing was learned whose time could be told
        ours[f"Distance: step at which accuracy is half its end, {name}"] = mean_interval(
            find_half_way_step(result["looks"], result["accuracy"])
        )
        ours[f"Distance: step at which one head's link of the triggers is half its end, {name}"] = mean_interval(
            find_half_way_step(result["looks"], measure_linking_attention(result))
        )
        evidence.append(result.name)
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*evidence, SHOWN_IN],
        fails_in=missed,
        note="All but the encoding equal. *When* heads link the triggers is told for encodings that reach half of the "
        "answers; no rule asks for it.",
    )

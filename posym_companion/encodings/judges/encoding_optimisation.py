"""Judge of G26-1c: whether rotary models train more stably than those whose encoding adds.

The first rule was written before any run; what *stable* means, after trial trainings of one seed with rotary heads, and
before any other encoding was run: the loss, averaged over ten steps, never exceeds 1.1 times that of the untrained
model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from posym_companion.encodings.encoding_optimisation import BLOWN_UP, ENCODINGS, EncodingOptimisation
from posym_companion.encodings.judges.encoding_study import MODEL, SUFFICES
from posym_companion.finding import Measured, Number, count_cases
from posym_companion.results import Result, load_result
from posym_core.metrics import mean_interval

SHOWN_IN = "book/encodings/times_and_plus.ipynb"
ADDING = ("sinusoidal", "learned", "alibi", "t5")
# Stable rates so many steps of the grid apart, or fewer, are not told apart; rounding is on their side.
NOTCH = 1 + 1e-6


def optimisation_results(folder: Path | None = None) -> dict[str, Result]:
    """The stored result of every encoding.

    Raises:
        ResultError: if one is missing or altered.
    """
    return {name: load_result(EncodingOptimisation(encoding=name).name, folder=folder) for name in ENCODINGS}


def stable_rate(result: Result) -> np.ndarray:
    """Largest learning rate below the first that blows up, ``[seed]``; 0 if the lowest does."""
    blown = result["peak"] > BLOWN_UP
    first = np.where(blown.any(1), blown.argmax(1), blown.shape[1])
    return np.where(first > 0, result["rates"][first - 1], 0.0)


def mean_sharpness(result: Result) -> np.ndarray:
    """Largest eigenvalue of the Hessian, as a geometric mean over the looks at it, ``[seed]``."""
    return np.exp(np.log(result["eigenvalue"]).mean(1))


def last_sharpness(result: Result) -> np.ndarray:
    """Largest eigenvalue of the Hessian after the last step, ``[seed]``."""
    return result["eigenvalue"][:, -1]


def count_grid_steps(one: Result, other: Result) -> float:
    """By how many steps of the grid of rates one stable rate is above another, mean over seeds."""
    step = np.log(one["rates"][1] / one["rates"][0])
    # A rate of 0, below the grid, counts as one step below its lowest.
    first, second = (np.log(np.maximum(stable_rate(x), x["rates"][0] ** 2 / x["rates"][1])) for x in (one, other))
    return float(((first - second) / step).mean())


def stability(folder: Path | None) -> Measured:
    """G26-1c: stable rates and sharpness of rotary heads against each encoding that adds, one by one."""
    results = optimisation_results(folder)
    rope = results["rope"]
    rates: Mapping[str, np.ndarray] = {name: stable_rate(result) for name, result in results.items()}
    bent = {name: mean_sharpness(result) for name, result in results.items()}
    learned = [
        name for name in ADDING if results[name]["accuracy"][:, -1].mean() >= SUFFICES * rope["accuracy"][:, -1].mean()
    ]
    away = {name: count_grid_steps(rope, results[name]) for name in ADDING}
    sharp = {"through training": mean_sharpness, "at the end": last_sharpness}
    ratio = {
        (when, name): mean_interval(measure(rope) / measure(results[name]))
        for when, measure in sharp.items()
        for name in ADDING
    }
    ours: dict[str, Number] = {
        "encodings that add with a smaller stable rate, of those more than a notch away": count_cases(
            x > 0 for x in away.values() if abs(x) > NOTCH
        ),
        **{
            f"encodings that add and have learned whose loss is more curved {when}": count_cases(
                ratio[when, name].high < 1 for name in learned
            )
            for when in sharp
        },
        "largest stable learning rate, rotary / the best that adds": mean_interval(
            rates["rope"] / np.max([rates[name] for name in ADDING], axis=0)
        ),
        "largest Hessian eigenvalue, rotary / the least that adds": mean_interval(
            bent["rope"] / np.min([bent[name] for name in ADDING], axis=0)
        ),
    }
    for (when, name), found in ratio.items():
        ours[f"largest Hessian eigenvalue {when}, rotary / {name}"] = found
    for name, result in results.items():
        ours[f"{name}: largest stable learning rate"] = mean_interval(rates[name])
        ours[f"{name}: largest Hessian eigenvalue, geometric mean over the training"] = mean_interval(bent[name])
        ours[f"{name}: largest Hessian eigenvalue at the end"] = mean_interval(last_sharpness(result))
        ours[f"{name}: accuracy at the end"] = mean_interval(result["accuracy"][:, -1])
        ours[f"{name}: mean loss over the training"] = mean_interval(result["losses"].mean(1))
    never = [name for name, result in results.items() if not (result["peak"] > BLOWN_UP).any(1).all()]
    ran = EncodingOptimisation(encoding="rope")
    ends = ", ".join(f"{name} {_range(last_sharpness(results[name]))}" for name in ("rope", *ADDING))
    few = [f"{name} ({_range(results[name]['accuracy'][:, -1], '.2f')})" for name in ADDING if name not in learned]
    return Measured(
        ours=ours,
        model=f"{MODEL}, Distance",
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        fails_in=[f"no rate that was tried blew up for {name} in some seed" for name in never],
        note=f"AdamW; rates in steps of the root of 2, {ran.rate_steps} steps each; the Hessian of "
        f"{ran.sentences} sentences at {len(ran.bends)} steps of {ran.steps} at the study's rate. Intervals over "
        f"{len(ran.seeds)} seeds reach from the least to the largest. Largest eigenvalue at the end: {ends}. "
        + (f"Not learned, and so not compared: {', '.join(few)} right at the end" if few else "All have learned"),
    )


def _range(values: np.ndarray, form: str = ",.0f") -> str:
    return f"{values.min():{form}} to {values.max():{form}}"

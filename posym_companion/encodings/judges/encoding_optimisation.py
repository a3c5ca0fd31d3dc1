"""Judge of G26-1c: whether rotary models train more stably than those whose encoding adds.

What *stable* means was written after trial trainings of one seed with rotary heads, and before
any other encoding was run: the loss, averaged over ten steps, never exceeds 1.1 times that of the untrained
model.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from posym_companion.encodings.encoding_optimisation import BLOWN_UP, ENCODINGS, EncodingOptimisation
from posym_companion.encodings.judges.encoding_study import MODEL, SUFFICES
from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import Result, load_result
from posym_core.metrics import mean_interval

ADDING = ("sinusoidal", "learned", "alibi", "t5")


def optimisation_results(folder: Path | None = None) -> dict[str, Result]:
    """Return the stored result of every encoding.

    Raises:
        ResultError: if one is missing or altered.
    """
    return {name: load_result(EncodingOptimisation(encoding=name).name, folder=folder) for name in ENCODINGS}


def stable_rate(result: Result) -> np.ndarray:
    """Return the largest learning rate below the first that blows up, ``[seed]``; 0 if the lowest does."""
    blown = result["peak"] > BLOWN_UP
    first = np.where(blown.any(1), blown.argmax(1), blown.shape[1])
    return np.where(first > 0, result["rates"][first - 1], 0.0)


def mean_sharpness(result: Result) -> np.ndarray:
    """Return the largest eigenvalue of the Hessian, as a geometric mean over the looks at it, ``[seed]``."""
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


@judge("book/encodings/times_and_plus.ipynb", measured_on=f"{MODEL}, Distance")
def stability(look: Look) -> Iterator[Yielded]:
    """G26-1c: stable rates and sharpness of rotary heads against each encoding that adds, one by one."""
    results = {name: look.load(EncodingOptimisation(encoding=name)) for name in ENCODINGS}
    rope, adding = results["rope"], {name: results[name] for name in ADDING}
    right, few = rope["accuracy"][:, -1].mean(), []
    for name, other in adding.items():
        steps, share = count_grid_steps(rope, other), float(other["accuracy"][:, -1].mean() / right)
        yield "steps of the grid by which the stable rate of rotary heads is above its", name, steps
        yield "steps of the grid between the stable rates", name, abs(steps)
        yield "accuracy at the end over that of rotary heads", name, share
        curved = mean_interval(mean_sharpness(rope) / mean_sharpness(other))
        yield "largest Hessian eigenvalue through training, rotary over its", name, curved
        at_end = mean_interval(last_sharpness(rope) / last_sharpness(other))
        yield "largest Hessian eigenvalue at the end, rotary over its", name, at_end
        few += [f"{name} ({_range(other['accuracy'][:, -1], '.2f')})"] if share < SUFFICES else []
    ran = EncodingOptimisation(encoding="rope")
    ends = ", ".join(f"{name} {_range(last_sharpness(results[name]))}" for name in ("rope", *ADDING))
    look.note = (
        f"AdamW; rates in steps of the root of 2, {ran.rate_steps} steps each; the Hessian of "
        f"{ran.sentences} sentences at {len(ran.bends)} steps of {ran.steps} at the study's rate. Intervals over "
        f"{len(ran.seeds)} seeds reach from the least to the largest. Largest eigenvalue at the end: {ends}. "
        + (f"Not learned, and so not compared: {', '.join(few)} right at the end" if few else "All have learned")
    )


def _range(values: np.ndarray, form: str = ",.0f") -> str:
    return f"{values.min():{form}} to {values.max():{form}}"

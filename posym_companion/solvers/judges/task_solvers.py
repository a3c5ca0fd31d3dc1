"""What trained decoders that solve binding and index say: which angles let them.

Numbers of a setting come from its five seeds, with bootstrap intervals over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import MissingResultError, Result, list_results, load_result
from posym_companion.solvers.solver_settings import full_size
from posym_core.metrics import Estimate, mean_interval

MODEL = "decoders of one to four layers, trained on binding and index"
SHOWN_IN = "book/language_model/task_solvers.ipynb"
# A kind of question is solved above this accuracy.
SOLVED = 0.9
# A look at which a model has learned a kind of question, if no later one falls below.
LEARNED = 0.95


def solver_results(folder: Path | None = None, *, least: int = 1) -> dict[str, Result]:
    """Return stored settings by name, in the order of the grid, at least so many."""
    stored = set(list_results("task_solvers", folder=folder))
    names = [setting.name for setting in full_size() if setting.name in stored]
    if len(names) < least:
        raise MissingResultError(f"{len(names)} settings of task_solvers are stored, and {least} are needed")
    return {name.partition("/")[2]: load_result(name, folder=folder) for name in names}


def solver_accuracy(result: Result, question: str) -> Estimate:
    """Return the accuracy on one kind of question, mean over seeds."""
    kind = result.settings["questions"].index(question)
    return mean_interval(result["hits"][:, kind].sum(-1) / result["asked"][:, kind].sum(-1), over="seeds")


def solves(result: Result, questions: Iterable[str] | None = None) -> bool:
    """Return whether kinds of question, by default all, are solved."""
    return all(solver_accuracy(result, question).low > SOLVED for question in questions or result.settings["questions"])


def steps_to_learn(result: Result, question: str) -> list[int | None]:
    """Return the steps after which each seed answers a kind of question and goes on doing so; None for never."""
    kind = result.settings["questions"].index(question)
    steps: list[int | None] = []
    for seed in result["look_accuracy"][:, :, kind].T:
        short = np.flatnonzero(seed < LEARNED)
        first = int(short[-1]) + 1 if len(short) else 0
        steps.append(int(result["look_step"][first]) if first < len(seed) else None)
    return steps


# T-6


@judge(SHOWN_IN, measured_on=MODEL, note="Shapes are layers x heads, facts. Turns are over the context of a prompt.")
def frequency_beyond_one_layer(look: Look) -> Iterator[Yielded]:
    """T-6: the one-layer statements on which angles let which task be learned, at two and more layers."""
    results, bands = solver_results(look.folder), ("fast", "slow", "none")
    shapes = {name.partition("_")[2] for name in results if not name.endswith("_last")}
    whole = [
        shape
        for shape in sorted(shapes)
        if not shape.startswith("1x") and all(f"{band}_{shape}" in results for band in bands)
    ]
    if not whole:
        raise MissingResultError("no depth above one has results of fast, slow and stopped planes")
    for shape in whole:
        look.record(*(results[f"{band}_{shape}"] for band in bands))
        for question, band in [*product(("index", "binding"), bands)][:-1]:
            yield f"accuracy on {question}, {band}", shape, solver_accuracy(results[f"{band}_{shape}"], question)

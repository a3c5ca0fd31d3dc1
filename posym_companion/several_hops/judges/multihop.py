"""Judges of the claims about models that learn Number and Letter, from runs watched at every checkpoint.

A rule is put to every seed by itself, and the row says in how many it holds; intervals reach from the least to the
largest. Runs of at least two seeds of each task must be there. The rules were fixed before the third seed and all
later ones ran.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import Result, load_stored_results
from posym_companion.several_hops.multihop import SEEDS, TEST, MultihopSettings
from posym_companion.several_hops.number_letter_shortcuts import measure_counting_accuracy
from posym_companion.verdicts import SeedRange, seed_range
from posym_core.metrics import classify_purity

Task = Literal["number", "letter"]
TASKS: tuple[Task, ...] = ("number", "letter")
MODEL = "GPT-J of 12 layers with one head each, trained on Number and on Letter"
SHOWN_IN = "book/several_hops/pure_heads.ipynb"

# Shares of a hop's final accuracy at which it is learned, and of the largest accuracy at which heads are looked at.
REACHED, BEST, NEARLY_ALL = 0.9, 0.95, 0.99
GAMMA = 0.1
TABLE_1: Mapping[Task, Sequence[int]] = {
    "number": (1, 2, 2, 2, 10, 39, 38, 38, 38, 37, 37, 38),
    "letter": (18, 32, 42, 37, 40, 38, 41, 38, 41, 39, 38, 40),
}


def stored_runs(task: Task, folder: Path | None = None) -> list[Result]:
    """Return the full-size runs of a task that are there, one at least."""
    return load_stored_results([MultihopSettings.full(task=task, seed=seed).name for seed in SEEDS], folder, least=1)


def learned_at(run: Result) -> np.ndarray:
    """Return the step at which each hop is learned ``[hop]``; NaN for never."""
    reached = run["look_accuracy"] >= REACHED * run["test_accuracy"]
    lasting = reached[:-1] & reached[1:]
    return np.where(lasting.any(0), run["look_step"][lasting.argmax(0)], np.nan).astype(float)


def learning_spread(run: Result) -> float:
    """Steps between the first and the last hop that is learned, as a share of the training; 1 if one never is."""
    steps = learned_at(run)
    return float(np.ptp(steps) / run["look_step"][-1]) if np.isfinite(steps).all() else 1.0


def least_accuracy(run: Result) -> float:
    """Test accuracy of the hop that is worst."""
    return float(run["test_accuracy"].min())


def mean_scores(run: Result) -> tuple[np.ndarray, np.ndarray]:
    """Return positional and symbolic scores averaged over all stations of all paths, ``[checkpoint, layer, head]``."""
    positional, symbolic = (np.nanmean(run[name], axis=(1, 2)) for name in ("positional", "symbolic"))
    return positional, symbolic


def classify_heads(run: Result) -> np.ndarray:
    """Return 1 for pure positional heads, -1 for pure symbolic ones, else 0, ``[checkpoint, layer, head]``."""
    positional, symbolic = map(torch.from_numpy, mean_scores(run))
    return classify_purity(positional, symbolic, GAMMA).numpy()


def best_checkpoint(run: Result, share: float = BEST) -> int:
    """Return the first checkpoint at which the mean accuracy over hops is 95%, or another share, of its maximum."""
    accuracy = run["accuracy"].mean(1)
    return int((accuracy >= share * accuracy.max()).argmax())


def pure_share(run: Result, checkpoint: int = -1) -> float:
    """Share of heads that are pure."""
    return float((classify_heads(run)[checkpoint] != 0).mean())


def pure_by_station(run: Result) -> float:
    """Share of heads that are pure at the end, with every station of every number of hops judged by itself."""
    positional, symbolic = (torch.from_numpy(run[name][-1]) for name in ("positional", "symbolic"))
    return float((classify_purity(positional, symbolic, GAMMA) != 0)[~positional.isnan()].double().mean())


def purity_goes_along(run: Result) -> float:
    """Rank correlation over checkpoints of the number of pure heads and the mean accuracy; 0 if either is constant."""
    from scipy.stats import spearmanr

    pure, accuracy = (classify_heads(run) != 0).sum((1, 2)), run["accuracy"].mean(1)
    if np.ptp(pure) == 0 or np.ptp(accuracy) == 0:
        return 0.0
    return float(spearmanr(pure, accuracy)[0])  # pyright: ignore[reportArgumentType]


def out_of_order(kind: np.ndarray) -> int:
    """Pure heads that stand on the wrong side of the best cut into positional and then symbolic layers.

    >>> out_of_order(np.array([1, 1, -1, 0, 1, -1]))
    1
    """
    layers = kind.reshape(len(kind), -1)
    wrong = [int((layers[:cut] == -1).sum() + (layers[cut:] == 1).sum()) for cut in range(len(layers) + 1)]
    return min(wrong)


def frequencies(run: Result) -> np.ndarray:
    """Mean frequency ID of each layer at the end, ``[layer]``."""
    return run["frequency"][-1].mean(-1).astype(float)


@functools.cache
def measure_counting() -> float:
    """Share of Letter sequences whose answer stands out by counting letters, without following the path."""
    settings = MultihopSettings.full(task="letter")
    return float(measure_counting_accuracy(settings.sample(1600, TEST), settings.make_task()).mean())


def describe_leak() -> str:
    """The flaw of the Letter task, for the note of a row about it."""
    share = f"{measure_counting():.0%}"
    return f"{share} of Letter's sequences can be answered by counting letters; the chapter tests who does."


@judge(SHOWN_IN, measured_on=MODEL)
def learned_hop_by_hop(look: Look) -> Iterator[Yielded]:
    """U26-1: when each hop is learned."""
    runs = _load_both(look)
    yield "least test accuracy of any hop", "", _range_over([*runs["number"], *runs["letter"]], least_accuracy)
    for task, of_task in runs.items():
        yield f"{task}: share of the training between first and last", "", _range_over(of_task, learning_spread)
    ordered = [bool((np.diff(learned_at(run)) > 0).all()) for run in runs["number"]]
    for run, holds in zip(runs["number"], ordered, strict=True):
        yield "hops are learned in the order 1 to 4", f"seed {run.settings['seed']}", holds
    least, largest = min(map(learning_spread, runs["number"])), max(map(learning_spread, runs["letter"]))
    look.note = _write_note(
        runs,
        "A weaker rule, added after seed 0 (the order, and Number's share three times Letter's), "
        f"{'holds' if all(ordered) and least >= 3 * largest else 'does not hold'}; seeds from the "
        f"second on are later than it. {describe_leak()}",
    )


@judge(SHOWN_IN, measured_on=MODEL)
def pure_at_best(look: Look) -> Iterator[Yielded]:
    """U26-2: how many heads are pure when accuracy is maximal, and of which kind."""
    runs = _load_both(look)
    for task, of_task in runs.items():
        at_best = _range_over(of_task, lambda run: pure_share(run, best_checkpoint(run)))
        yield f"{task}: pure heads where accuracy is first maximal", "", at_best
        yield f"{task}: rank correlation of pure heads and accuracy", "", _range_over(of_task, purity_goes_along)
        yield f"{task}: pure heads at the end", "", _range_over(of_task, pure_share)
        for run in of_task:
            kind, where = classify_heads(run)[-1], f"seed {run.settings['seed']}"
            positional, symbolic = int((kind == 1).sum()), int((kind == -1).sum())
            if task == "number":
                yield "number: pure heads of the rarer kind", where, min(positional, symbolic)
                yield "number: pure heads out of order", where, out_of_order(kind)
            else:
                yield "letter: positional heads", where, positional
    look.note = _write_note(
        runs,
        f"Pure at gamma = {GAMMA}, by scores averaged over stations. A weaker rule, added after seed 0, asks for pure "
        f"heads where accuracy is {NEARLY_ALL:.0%} of its maximum; seeds from the second on are later than it. "
        f"{describe_leak()}",
    )


@judge(SHOWN_IN, measured_on=MODEL)
def frequency_by_layer(look: Look) -> Iterator[Yielded]:
    """U26-3: mean frequency ID of every layer against the paper's Table 1."""
    runs = _load_both(look)
    for task, of_task in runs.items():
        profiles = [np.corrcoef(frequencies(run), TABLE_1[task])[0, 1] for run in of_task]
        yield f"{task}: correlation with Table 1 over layers", "", seed_range(profiles)
    averaged: tuple[tuple[Task, int, int], ...] = (("number", 0, 3), ("number", 5, 11), ("letter", 2, 11))
    for task, first, last in averaged:
        layers = [frequencies(run)[first : last + 1].mean() for run in runs[task]]
        yield f"{task}: mean ID of layers {first}-{last}", "", seed_range(layers)
    yield "ID of even use", "", (1 + runs["number"][0]["use"].shape[-1]) / 2
    late = TABLE_1["number"][5:]
    look.note = _write_note(
        runs,
        f"In Table 1 itself Number's layers 5 to 11 share the IDs {min(late)} to {max(late)}, so that no layer has a "
        "band of its own.",
    )


def write_kinds(kind: np.ndarray) -> str:
    """Write kinds ``[layer, head]`` as letters: P positional, S symbolic, a dot for neither; a layer's heads together.

    >>> write_kinds(np.array([[1], [0], [-1]]))
    'P.S'
    """
    return "".join({1: "P", -1: "S", 0: "."}[int(x)] for x in kind.ravel())


def _load_both(look: Look) -> dict[Task, list[Result]]:
    seeds = look.seeds or SEEDS
    return {
        task: look.load_stored(
            [MultihopSettings.full(task=task, seed=seed) for seed in seeds], least=min(2, len(seeds))
        )
        for task in TASKS
    }


def _range_over(runs: Sequence[Result], measure: Callable[[Result], float]) -> SeedRange:
    return seed_range(map(measure, runs))


def _write_note(runs: Mapping[Task, Sequence[Result]], note: str) -> str:
    seeds = ", ".join(f"{len(of_task)} seeds of {task}" for task, of_task in runs.items())
    return f"{note} Intervals from the least to the largest of {seeds}."

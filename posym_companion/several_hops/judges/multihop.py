"""Judges of the claims about models that learn Number and Letter, from runs watched at every checkpoint.

A rule is put to every seed by itself, and the row says in how many it holds; intervals reach from the least to the
largest. Runs of at least two seeds of each task must be there. The rules were fixed before the third seed and all
later ones ran.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from posym_companion.finding import Measured, Number, SeedRange, count_cases, seed_range
from posym_companion.results import Result, load_stored_results
from posym_companion.several_hops.multihop import SEEDS, TEST, MultihopSettings
from posym_companion.several_hops.number_letter_shortcuts import measure_counting_accuracy
from posym_core.metrics import classify_purity

Task = Literal["number", "letter"]
TASKS: tuple[Task, ...] = ("number", "letter")
MODEL = "GPT-J of 12 layers with one head each, trained on Number and on Letter"
SHOWN_IN = "book/several_hops/pure_heads.ipynb"

REACHED, LEARNED, APART, TOGETHER = 0.9, 0.9, 0.2, 0.1
GAMMA, BEST, NEARLY_ALL, PURE, GOES_ALONG, OUT_OF_ORDER, OF_EACH = 0.1, 0.95, 0.99, 0.75, 0.5, 1, 2
FAST, SLOW, PROFILE, EVEN = 10.0, 25.0, 0.7, 32.5
TABLE_1: Mapping[Task, Sequence[int]] = {
    "number": (1, 2, 2, 2, 10, 39, 38, 38, 38, 37, 37, 38),
    "letter": (18, 32, 42, 37, 40, 38, 41, 38, 41, 39, 38, 40),
}
PAPERS_HOURS, PAPERS_BYTES = 5 + 8.5, 1e12
# At least, for a line that asks for more.
JUST = 1e-9

Measure = Callable[[Result], float]


def stored_runs(
    task: Task, folder: Path | None = None, *, seeds: Sequence[int] = SEEDS, least: int = 1
) -> list[Result]:
    """Full-size runs of a task that are there, of any of these seeds."""
    return load_stored_results(
        [MultihopSettings.full(task=task, seed=seed).name for seed in seeds], folder, least=least
    )


def learned_at(run: Result) -> np.ndarray:
    """Step at which each hop is learned ``[hop]``; NaN for never."""
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


def longest_when_first(run: Result) -> float:
    """Accuracy of the longest paths at the step at which one hop is learned; NaN if it never is."""
    first = run["look_step"] == learned_at(run)[0]
    return float(run["look_accuracy"][first.argmax(), -1]) if first.any() else np.nan


def mean_scores(run: Result) -> tuple[np.ndarray, np.ndarray]:
    """Positional and symbolic scores averaged over all stations of all paths, ``[checkpoint, layer, head]``."""
    positional, symbolic = (np.nanmean(run[name], axis=(1, 2)) for name in ("positional", "symbolic"))
    return positional, symbolic


def classify_heads(run: Result) -> np.ndarray:
    """1 for pure positional heads, -1 for pure symbolic ones, else 0, ``[checkpoint, layer, head]``."""
    positional, symbolic = map(torch.from_numpy, mean_scores(run))
    return classify_purity(positional, symbolic, GAMMA).numpy()


def best_checkpoint(run: Result, share: float = BEST) -> int:
    """The first checkpoint at which the mean accuracy over hops is 95 %, or another share, of its maximum."""
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


def learned_hop_by_hop(folder: Path | None, seeds: Sequence[int] = SEEDS) -> Measured:
    """U26-1: when each hop is learned."""
    runs = _both(folder, seeds)
    ours: dict[str, Number] = {
        "least test accuracy of any hop": _over([run for found in runs.values() for run in found], least_accuracy)
    }
    for task, found in runs.items():
        for hop in range(found[0]["test_accuracy"].shape[0]):
            step = _where_defined(found, lambda run, hop=hop: learned_at(run)[hop])
            ours[f"{task}: step at which hop {hop + 1} is learned"] = step
        ours[f"{task}: share of the training between first and last"] = _over(found, learning_spread)
        longest = _where_defined(found, longest_when_first)
        ours[f"{task}: accuracy of the longest path when one hop is learned"] = longest
    ordered = [bool((np.diff(learned_at(run)) > 0).all()) for run in runs["number"]]
    ours["number: seeds that learn hops in the order 1 to 4"] = count_cases(ordered)
    shares = [min(map(learning_spread, runs["number"])), max(map(learning_spread, runs["letter"]))]
    ours["least share of Number over largest of Letter"] = float(shares[0] / max(shares[1], JUST))
    return _measured(
        runs,
        ours,
        "A weaker rule, added after seed 0 (the order, and Number's share three times Letter's), "
        f"{'holds' if all(ordered) and shares[0] >= 3 * shares[1] else 'does not hold'}; seeds from the "
        f"second on are later than it. {describe_leak()}",
    )


def pure_at_best(folder: Path | None, seeds: Sequence[int] = SEEDS) -> Measured:
    """U26-2: how many heads are pure when accuracy is maximal, and of which kind."""
    runs = _both(folder, seeds)
    ours: dict[str, Number] = {}
    for task, found in runs.items():
        ends = [classify_heads(run)[-1] for run in found]
        if task == "number":
            right = [
                min((kind == 1).sum(), (kind == -1).sum()) >= OF_EACH and out_of_order(kind) <= OUT_OF_ORDER
                for kind in ends
            ]
        else:
            right = [(kind == 1).sum() <= OUT_OF_ORDER for kind in ends]
        ours |= {
            f"{task}: pure heads where accuracy is first maximal": _over(
                found, lambda run: pure_share(run, best_checkpoint(run))
            ),
            f"{task}: pure heads where it first is 99 % of that": _over(
                found, lambda run: pure_share(run, best_checkpoint(run, NEARLY_ALL))
            ),
            f"{task}: rank correlation of pure heads and accuracy": _over(found, purity_goes_along),
            f"{task}: pure heads at the end": _over(found, pure_share),
            f"{task}: seeds whose layers turn as claimed": count_cases(right),
            f"{task}: the same, one station at a time": _over(found, pure_by_station),
            f"{task}: positional heads at the end": _over(
                found, lambda run: float((classify_heads(run)[-1] == 1).sum())
            ),
            f"{task}: symbolic heads at the end": _over(
                found, lambda run: float((classify_heads(run)[-1] == -1).sum())
            ),
            f"{task}: kinds by layer, seed by seed": "; ".join(write_kinds(classify_heads(run)[-1]) for run in found),
        }
    return _measured(
        runs,
        ours,
        f"Pure at gamma = {GAMMA}, by scores averaged over stations. A weaker rule, added after seed 0, asks for pure "
        f"heads where accuracy is {NEARLY_ALL:.0%} of its maximum; seeds from the second on are later than it. "
        f"{describe_leak()}",
    )


def frequency_by_layer(folder: Path | None, seeds: Sequence[int] = SEEDS) -> Measured:
    """U26-3: mean frequency ID of every layer against the paper's Table 1."""
    runs = _both(folder, seeds)
    ours: dict[str, Number] = {}
    for task, found in runs.items():
        table = np.array(TABLE_1[task], dtype=float)
        ours |= {
            f"{task}: correlation with Table 1 over layers": _over(
                found, lambda run, t=table: float(np.corrcoef(frequencies(run), t)[0, 1])
            ),
            f"{task}: mean distance to Table 1": _over(
                found, lambda run, t=table: float(np.abs(frequencies(run) - t).mean())
            ),
            f"{task}: frequency ID by layer": ", ".join(
                f"{x:.0f}" for x in np.mean([frequencies(run) for run in found], axis=0)
            ),
        }
    ours |= {
        "number: mean ID of layers 0-3": _over(runs["number"], lambda run: float(frequencies(run)[:4].mean())),
        "number: mean ID of layers 5-11": _over(runs["number"], lambda run: float(frequencies(run)[5:].mean())),
        "letter: mean ID of layers 2-11": _over(runs["letter"], lambda run: float(frequencies(run)[2:].mean())),
        "ID of even use": (1 + runs["number"][0]["use"].shape[-1]) / 2,
    }
    late = TABLE_1["number"][5:]
    return _measured(
        runs,
        ours,
        f"In Table 1 itself Number's layers 5 to 11 share the IDs {min(late)} to {max(late)}, so that no layer has a "
        "band of its own.",
    )


def cost_of_watching(folder: Path | None) -> Measured:
    """U26-7: seconds, swaps and checkpoints of watching a whole training run."""
    runs = _both(folder)
    every = [run for found in runs.values() for run in found]
    ours: dict[str, Number] = {
        "hours for as many swaps as the paper's 1 TB holds": _over(every, hours_for_the_papers_swaps),
        "seconds of scoring a model's whole training": _over(every, lambda run: float(run["monitor_seconds"].sum())),
        "seconds of its training": _over(every, lambda run: float(run["training_seconds"].sum())),
        "checkpoints": _over(every, lambda run: float(len(run["checkpoint_step"]))),
        "swaps scored, in millions": _over(every, lambda run: float(run["swaps"].sum() / 1e6)),
        "GB of attention that storing every swap would take": _over(every, lambda run: bytes_of_swaps(run) / 1e9),
        "GB of attention stored": max(run["attention"].nbytes for run in every) / 1e9,
    }
    devices = sorted({str(run.provenance["device"]) for run in every})
    return _measured(
        runs,
        ours,
        f"In closed form the scores come from one forward pass a checkpoint, on {' and '.join(devices)}.",
    )


def bytes_of_swaps(run: Result) -> float:
    """What it would take to keep the whole attention matrix of every swap that was scored, in float32."""
    tokens = run["example_tokens"].shape[-1]
    return float(run["swaps"].sum()) * tokens**2 * 4


def hours_for_the_papers_swaps(run: Result) -> float:
    """Hours of scoring at this run's speed for as many swaps as have matrices of 1 TB."""
    return float(run["monitor_seconds"].sum()) / 3600 * PAPERS_BYTES / bytes_of_swaps(run)


def write_kinds(kind: np.ndarray) -> str:
    """Kinds ``[layer, head]`` as letters: P positional, S symbolic, a dot for neither; heads of a layer together.

    >>> write_kinds(np.array([[1], [0], [-1]]))
    'P.S'
    """
    return "".join({1: "P", -1: "S", 0: "."}[int(x)] for x in kind.ravel())


def _both(folder: Path | None, seeds: Sequence[int] = SEEDS) -> dict[Task, list[Result]]:
    return {task: stored_runs(task, folder, seeds=seeds, least=min(2, len(seeds))) for task in TASKS}


def _over(runs: Sequence[Result], measure: Measure) -> SeedRange:
    return seed_range(map(measure, runs))


def _where_defined(runs: Sequence[Result], measure: Measure) -> SeedRange | str:
    """As :func:`_over`; a text if some run has no such number, since a mean over the others would hide that."""
    found = _over(runs, measure)
    missing = sum(map(np.isnan, found.seeds))
    return f"never in {missing} of {len(found.seeds)} seeds" if missing else found


def _measured(runs: Mapping[Task, Sequence[Result]], ours: Mapping[str, Number], note: str) -> Measured:
    seeds = ", ".join(f"{len(found)} seeds of {task}" for task, found in runs.items())
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*(run.name for found in runs.values() for run in found), SHOWN_IN],
        note=f"{note} Intervals from the least to the largest of {seeds}.",
    )

"""Judge of U26-5: trained models on sequences up to 60 times as long as those they saw, by the number of hops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.results import Result, load_stored_results
from posym_companion.several_hops.hop_length import HopLength
from posym_companion.several_hops.multihop import SEEDS, paper_size
from posym_core.metrics import Estimate, mean_interval

HOLDS, FAR, NEAR, TIMES, LEAST_SEEDS = 0.9, 850, 2, 4, 2
HOPS = "numbers of hops"  # what is counted
MODEL = "GPT-J of 12 layers with one head each, trained on Number and on Letter at 17 tokens"
SHOWN_IN = "book/several_hops/length.ipynb"


def stored_lengths(
    task: str, folder: Path | None = None, *, seeds: Sequence[int] = SEEDS, least: int = 1
) -> list[Result]:
    """Results of models trained as in the paper that are there, of one task.

    Raises:
        ResultError: if one is altered, or there are fewer than ``least``.
    """
    chosen = [setting for setting in paper_size() if setting.task == task and setting.seed in seeds]
    return load_stored_results([HopLength(model=setting.name).name for setting in chosen], folder, least=least)


def reach(result: Result, hop: int | None = None) -> int:
    """Longest length tested up to which accuracy is never below 0.9, of one hop or averaged over all; 0 for none."""
    accuracy = result["accuracy"].mean(1) if hop is None else result["accuracy"][:, hop]
    holds = accuracy >= HOLDS
    count = len(holds) if holds.all() else int(holds.argmin())
    return int(result["lengths"][count - 1]) if count else 0


def accuracy_at(results: list[Result], length: int, hop: int | None = None) -> Estimate:
    """Accuracy at one length, of one hop or averaged over all, with its interval over seeds.

    Raises:
        ValueError: if a result was not tested at this length.
    """
    values = []
    for result in results:
        at = result["lengths"] == length
        if not at.any():
            raise ValueError(f"{result.name} was tested at {result['lengths'].tolist()} tokens; got {length}")
        accuracy = result["accuracy"][at]
        values.append(float(accuracy.mean() if hop is None else accuracy[:, hop].mean()))
    return mean_interval(np.array(values))


def symbols_travel_further(folder: Path | None, seeds: Sequence[int] = SEEDS) -> Measured:
    """U26-5: reach and accuracy of both tasks, hop by hop."""
    number, letter = (
        stored_lengths(task, folder, seeds=seeds, least=min(LEAST_SEEDS, len(seeds))) for task in ("number", "letter")
    )
    trained, hops = int(number[0]["lengths"].min()), range(number[0]["accuracy"].shape[1])
    far = [accuracy_at(letter, FAR, hop) for hop in hops]
    near = [max(reach(result, hop) for result in number) for hop in hops]
    longest = [min(reach(result, hop) for result in letter) for hop in hops]
    ratio = min(map(reach, letter)) / max(*map(reach, number), 1)
    ours: dict[str, Number] = {
        f"Letter: hops above {HOLDS} at {FAR} tokens": count_cases(x.low > HOLDS for x in far),
        f"Number: hops that end before {NEAR} times the training's length": count_cases(
            x < NEAR * trained for x in near
        ),
        "hops on which every Letter reaches further than any Number": count_cases(
            a > b for a, b in zip(longest, near, strict=True)
        ),
        "least reach of Letter over largest of Number, mean over hops": float(ratio),
        **{f"Letter at {FAR} tokens, {hop + 1} hops": x for hop, x in zip(hops, far, strict=True)},
        **{f"Letter: least reach over seeds, {hop + 1} hops": x for hop, x in zip(hops, longest, strict=True)},
        **{f"Number: largest reach over seeds, {hop + 1} hops": x for hop, x in zip(hops, near, strict=True)},
        **{
            f"Number at {length} tokens, mean over hops": accuracy_at(number, length)
            for length in (trained, 2 * (trained - 1), FAR)
        },
        **{f"Letter at {length} tokens, mean over hops": accuracy_at(letter, length) for length in (trained, FAR)},
    }
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in [*number, *letter]), SHOWN_IN],
        fails_in=[
            f"Letter at {FAR} tokens, {hop + 1} hops: {x}"
            for hop, x in zip(hops, far, strict=True)
            if not x.low > HOLDS
        ],
        note=f"Reach is the longest of the lengths tested up to which accuracy stays at {HOLDS} or above; letters are "
        "added in front of the window, as in the paper. Most Letter sequences can be answered by counting letters, "
        "a flaw of the task; see U26-1.",
    )

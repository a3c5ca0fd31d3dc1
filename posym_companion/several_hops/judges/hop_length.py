"""Judge of U26-5: trained models on sequences up to 60 times as long as those they saw, by the number of hops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import Result
from posym_companion.several_hops.hop_length import HopLength
from posym_companion.several_hops.multihop import SEEDS, paper_size
from posym_core.metrics import Estimate, mean_interval

HOLDS, FAR = 0.9, 850
SHOWN_IN = "book/several_hops/length.ipynb"


def reach(result: Result, hop: int | None = None) -> int:
    """Return the longest length up to which accuracy is never below 0.9, of one hop or the mean of all; 0 for none."""
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


@judge(
    SHOWN_IN,
    measured_on="GPT-J of 12 layers with one head each, trained on Number and on Letter at 17 tokens",
    note=f"Reach is the longest of the lengths tested up to which accuracy stays at {HOLDS} or above; letters are "
    "added in front of the window, as in the paper. Most Letter sequences can be answered by counting letters, a flaw "
    "of the task; see U26-1.",
)
def symbols_travel_further(look: Look) -> Iterator[Yielded]:
    """U26-5: reach and accuracy of both tasks, hop by hop."""
    seeds = look.seeds or SEEDS
    number, letter = (
        look.load_stored(
            [HopLength(model=x.name) for x in paper_size() if x.task == task and x.seed in seeds],
            least=min(2, len(seeds)),
        )
        for task in ("number", "letter")
    )
    trained = int(number[0]["lengths"].min())
    for hop in range(number[0]["accuracy"].shape[1]):
        where = f"{hop + 1} hops"
        farthest, least = max(reach(x, hop) for x in number), min(reach(x, hop) for x in letter)
        yield f"Letter at {FAR} tokens", where, accuracy_at(letter, FAR, hop)
        yield "largest reach of Number over its training's length", where, farthest / trained
        yield "least reach of Letter less largest of Number", where, least - farthest

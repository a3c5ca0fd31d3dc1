"""Judge of the claim about length, from trained models tested on sequences up to 60 times as long as those they saw.

The rule was written down without a look at any test at length. A model's reach is the longest length of those tested
up to which its accuracy, averaged over hops, is never below 0.9. The verdict is *reproduced* if in every seed Letter
reaches 850 tokens and Number less than twice its training length; *reproduced in kind* if in every seed Letter's
reach is at least four times that of any Number; and else *not reproduced*. At least two seeds of each task must be
there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.experiments.hop_length import full_size
from posym_companion.findings.finding import Finding
from posym_core.metrics.stats import Estimate, mean_interval
from posym_core.runs.results import Result, stored_results

HOLDS, FAR, NEAR, TIMES, LEAST_SEEDS = 0.9, 850, 2, 4, 2
MODEL = "GPT-J of 12 layers with one head each, trained on Number and on Letter at 17 tokens"
SHOWN_IN = "book/several_hops/length.ipynb"


def stored_lengths(task: str, folder: Path | None = None, *, least: int = 1) -> list[Result]:
    """Results of a task that are there.

    Raises:
        ResultError: if one is altered, or there are fewer than ``least``.
    """
    return stored_results([setting.name for setting in full_size() if f"/{task}_" in setting.name], folder, least=least)


def reach(result: Result) -> int:
    """Longest length tested up to which the mean accuracy over hops is never below 0.9; 0 where it never holds."""
    holds = result["accuracy"].mean(1) >= HOLDS
    count = len(holds) if holds.all() else int(holds.argmin())
    return int(result["lengths"][count - 1]) if count else 0


def accuracy_at(results: list[Result], length: int) -> Estimate:
    """Mean accuracy over hops at one length, with its interval over seeds.

    Raises:
        ValueError: if a result was not tested at this length.
    """
    values = []
    for result in results:
        at = result["lengths"] == length
        if not at.any():
            raise ValueError(f"{result.name} was tested at {result['lengths'].tolist()} tokens; got {length}")
        values.append(float(result["accuracy"][at].mean()))
    return mean_interval(np.array(values))


def symbols_travel_further(folder: Path | None) -> Finding:
    """U26-5: Letter generalises to long sequences, Number hardly beyond its training length."""
    number, letter = (stored_lengths(task, folder, least=LEAST_SEEDS) for task in ("number", "letter"))
    trained = int(number[0]["lengths"].min())
    near, far = [reach(result) for result in number], [reach(result) for result in letter]
    if min(far) >= FAR and max(near) < NEAR * trained:
        verdict = "reproduced"
    else:
        verdict = "reproduced in kind" if min(far) >= TIMES * max(near) else "not reproduced"
    at = {length: accuracy_at(number, length) for length in (trained, 2 * (trained - 1), FAR)}
    ours: dict[str, float | int | str | Estimate] = {
        **{f"Number at {length} tokens": value for length, value in at.items()},
        **{f"Letter at {length} tokens": accuracy_at(letter, length) for length in (trained, FAR)},
        "Number: reach of each seed, tokens": ", ".join(map(str, near)),
        "Letter: reach of each seed, tokens": ", ".join(map(str, far)),
    }
    return Finding(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in [*number, *letter]), SHOWN_IN],
        verdict=verdict,
        note=f"reach is the longest of the lengths tested up to which accuracy stays at {HOLDS} or above; letters are "
        "added in front of the window, as in the paper",
    )

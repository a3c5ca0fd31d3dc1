"""Judge of the claim about one hop in language models, from the stored answers to text prompts.

The rule, fixed before any stored result was looked at. A task counts as solved if choosing among the items of the
target window beats a blind choice at the lengths up to 32, by ten points in the mean and with an interval over runs
off zero. If the model solves neither task, nothing follows about what length does, and the verdict is *not testable*.
Otherwise letter must beat number at the lengths from 48 on, both measured from chance, with an interval off zero; and
if the model solves number, which can then fall, the lead must also be larger there than at 12 and 16 items. Applied to
the paper's own Table 3 the rule holds for each of its three models (the table has exact answers, whose chance is 0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.several_hops.hop_prompts import HopPrompts
from posym_companion.several_hops.hop_questions import HOP_TASKS
from posym_companion.verdicts import Number
from posym_core.metrics import Estimate, mean_interval

NUMBER, LETTER = HOP_TASKS.index("number"), HOP_TASKS.index("letter")
# Items up to which solving is judged, up to which a sequence is short, and from which on it is long.
SOLVED_UP_TO, SHORT, LONG = 32, 16, 48
MARGIN = 0.1
# Urrutia et al. (2026b), Table 3: exact answers, one hop, reasoning off, mean of five runs, at LENGTHS.
TABLE_3: dict[str, dict[str, tuple[float, ...]]] = {
    "GPT 5.4": {
        "number": (0.98, 0.87, 0.73, 0.45, 0.17, 0.14, 0.10, 0.08, 0.08, 0.06),
        "letter": (0.96, 0.98, 1.00, 0.99, 0.99, 0.98, 0.96, 0.85, 0.52, 0.40),
    },
    "GPT 5.5": {
        "number": (0.55, 0.56, 0.42, 0.23, 0.21, 0.12, 0.10, 0.07, 0.06, 0.04),
        "letter": (0.87, 0.95, 0.96, 0.96, 0.77, 0.84, 0.75, 0.66, 0.55, 0.50),
    },
    "Claude Sonnet 3.7": {
        "number": (0.40, 0.34, 0.22, 0.15, 0.11, 0.08, 0.06, 0.06, 0.05, 0.05),
        "letter": (0.92, 0.89, 0.88, 0.88, 0.80, 0.87, 0.89, 0.86, 0.77, 0.80),
    },
}


def solves(above_chance: np.ndarray, lengths: Sequence[int]) -> list[Estimate]:
    """Accuracy above chance at short lengths, per task, from ``[task, length, run]``."""
    short = np.asarray(lengths) <= SOLVED_UP_TO
    return [mean_interval(task[short].mean(0)) for task in above_chance]


def is_solved(above_chance: Estimate) -> bool:
    """Whether accuracy above chance at short lengths counts as solving a task."""
    return above_chance.value >= MARGIN and above_chance.low > 0


def measure_lead(above_chance: np.ndarray, lengths: Sequence[int]) -> tuple[Estimate, Estimate]:
    """Letter minus number at long lengths, and how much larger that is than at short ones."""
    by_length, items = above_chance[LETTER] - above_chance[NUMBER], np.asarray(lengths)
    late, early = by_length[items >= LONG].mean(0), by_length[items <= SHORT].mean(0)
    return mean_interval(late), mean_interval(late - early)


ABLE, AHEAD, GROWS = (
    f"tasks solved above chance up to {SOLVED_UP_TO} items",
    f"letter minus number from {LONG} items on, choice minus chance",
    f"the same minus that up to {SHORT} items; the same itself if number is not solved",
)


def list_numbers(above_chance: np.ndarray, lengths: Sequence[int]) -> dict[str, Number]:
    """What the rule looks at, from accuracy above chance ``[task, length, run]``."""
    solved = [is_solved(task) for task in solves(above_chance, lengths)]
    late, growth = measure_lead(above_chance, lengths)
    return {ABLE: sum(solved), AHEAD: late, GROWS: growth if solved[NUMBER] else late}


@judge("book/several_hops/length.ipynb", model="gemma-3-270m", measured_on="{model}")
def letter_beats_number(look: Look) -> Iterator[Yielded]:
    """U26-6: does letter keep what number loses as sequences grow?"""
    result = look.load(HopPrompts(model=look.model))
    lengths, above_chance = result["lengths"].tolist(), result["choice_accuracy"] - result["chance"]
    for name, value in list_numbers(above_chance, lengths).items():
        yield name, "", value
    short = zip(HOP_TASKS, solves(above_chance, lengths), strict=True)
    look.note = (
        f"Accuracy minus chance up to {SOLVED_UP_TO} items is {'; '.join(f'{task} {above}' for task, above in short)}. "
        "A model that solves neither task in short sequences has nothing to lose in long ones. Runs ask the same "
        f"questions at several lengths, so that intervals over {above_chance.shape[-1]} runs are rough."
    )

"""Claims about Number and Letter on sequences longer than those of the training, here and in language models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posym_companion.claims import U26, Look, above, below, claim, part, untold
from posym_companion.claims.pure_heads import MODELS, TASKS, load_runs
from posym_companion.experiments import SECOND
from posym_companion.results import Result
from posym_companion.several_hops.hop_prompts import HopPrompts
from posym_core.metrics import Estimate, mean_interval
from posym_profile.language_models import PACKAGED

CHAPTER = "several_hops/length"


def find_reach(result: Result, hop: int | None = None) -> int:
    """Return the longest length up to which accuracy is never below 0.9, of one hop or the mean of all; 0 for none."""
    accuracy = result["accuracy"].mean(1) if hop is None else result["accuracy"][:, hop]
    holds = accuracy >= 0.9
    count = len(holds) if holds.all() else int(holds.argmin())
    return int(result["lengths"][count - 1]) if count else 0


def measure_accuracy(results: Sequence[Result], length: int, hop: int) -> Estimate:
    """Return the accuracy of one hop at one length, with its interval over seeds."""
    return mean_interval(np.array([one["accuracy"][one["lengths"].tolist().index(length), hop] for one in results]))


@claim(
    "U26-5",
    "Letter generalises to long sequences, Number hardly",
    paper=U26,
    at="abstract and figure 5B",
    quote="symbolic mechanisms extrapolate more reliably to longer sequences while positional mechanisms face sharper "
    "limitations",
    models=MODELS,
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (before the run) asked for a reach of Letter at least 4 times that of Number, as a mean "
    "over hops, and gave *reproduced in kind*; it changed because such a mean hides the hops on which Letter fails.",
)
def symbols_travel_further(look: Look):
    """Does every Letter reach further than any Number, stay above .9 at 850 tokens, and Number end before twice 17?"""
    number, letter = (load_runs(look, "hop_length", task) for task in TASKS)
    reaches = [[find_reach(one) for one in runs] for runs in (number, letter)]
    words = [" to ".join(str(x) for x in sorted({min(each), max(each)})) for each in reaches]
    look.headline("accuracy is .9 up to", f"{words[0]} tokens in Number, {words[1]} in Letter", paper="17 and 850")
    trained = int(number[0]["lengths"].min())
    for hop in range(number[0]["accuracy"].shape[1]):
        case, farthest = f"{hop + 1} hops", max(find_reach(one, hop) for one in number)
        least = min(find_reach(one, hop) for one in letter)
        yield part("every Letter reaches further than any Number", case), above(least - farthest, 0)
        yield part("Letter holds at 850 tokens", case, asks="size"), above(measure_accuracy(letter, 850, hop), 0.9)
        yield part("Number ends before twice its training's length", case, asks="size"), below(farthest / trained, 2)


# Items up to which solving is judged, up to which a sequence is short, and from which on it is long.
SOLVED_UP_TO, SHORT, LONG = 32, 16, 48
NUMBER, LETTER = (TASKS.index(task) for task in ("number", "letter"))


def find_solved(above_chance: np.ndarray, lengths: np.ndarray) -> list[bool]:
    """Return which tasks ``[task, length, run]`` beat a blind choice at short lengths, by a tenth and beyond noise."""
    means = [mean_interval(task[lengths <= SOLVED_UP_TO].mean(0)) for task in above_chance]
    return [mean.value >= 0.1 and mean.low > 0 for mean in means]


@claim(
    "U26-6",
    "In language models Letter beats Number as length grows",
    paper=U26,
    at="abstract and table 3",
    quote="We empirically validate the resulting predictions in both controlled and real-world models",
    models=(PACKAGED, SECOND),
    chapter=CHAPTER,
    fixed="before the run",
    history="Applied to the paper's own table 3, the rule holds for each of its three hosted models.",
)
def letter_beats_number(look: Look):
    """Is Letter ahead of Number from 48 items on, and more so than up to 16, in a model that solves one of them?"""
    result = look.load(HopPrompts(model=look.model))
    lengths, above_chance = result["lengths"], result["choice_accuracy"] - result["chance"]
    solved = find_solved(above_chance, lengths)
    lead = above_chance[LETTER] - above_chance[NUMBER]
    late, early = lead[lengths >= LONG].mean(0), lead[lengths <= SHORT].mean(0)
    look.headline(f"Letter's lead from {LONG} items on", str(mean_interval(late)), paper=".58 to .76")
    look.require("one of the two tasks is solved up to 32 items, a tenth above a blind choice", any(solved))
    yield part("Letter is ahead of Number"), above(mean_interval(late), 0)
    grows = above(mean_interval(late - early), 0) if solved[NUMBER] else untold("Number is not solved and cannot fall")
    yield part("the lead grows", asks="size"), grows

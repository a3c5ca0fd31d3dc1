"""Do the angles of the heads that look at the asked fact tell how long a list a model answers? Judge of B-5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from posym_companion.finding import Measured, Number, cases
from posym_companion.solvers.answer_lengths import FACTS, KNOWN, full_size
from posym_companion.solvers.judges.head_removal import SHOWN_IN
from posym_core.runs.results import Result, stored_results

# Of its attention, what makes a head one that looks at the asked fact; of the questions, what makes a list answered.
LOOKS, ANSWERS = 0.5, 0.5
NEAR = "models whose longest list is within a factor of two of what angles predict"


def predicted(result: Result, member: int) -> float:
    """Facts over which half of the energy of the heads that look at the asked fact turns little: their median.

    NaN where no head looks at it.
    """
    looks = result["attention"][member] > LOOKS
    return float(np.median(result["reach"][member][looks]) / result["words"]) if looks.any() else float("nan")


def answered(result: Result, member: int) -> int:
    """The longest list, of those asked, up to which more than half of the questions are answered; 0 if none is."""
    right = result["correct"][member].mean(-1) > ANSWERS
    count = len(right) if right.all() else int(right.argmin())
    return int(result["lengths"][count - 1]) if count else 0


class Point(NamedTuple):
    """A model that answers the shortest lists: facts that are predicted and answered, and the longest list asked."""

    model: str
    predicted: float
    cut: float
    answered: int
    longest: int

    @property
    def near(self) -> bool:
        """Whether what is answered is within a factor of two of what is predicted, cut to the lengths asked."""
        return bool(abs(np.log2(self.cut / self.answered)) <= 1)


def points(folder: Path | None = None) -> Iterator[Point]:
    """Every model that answers the shortest lists."""
    names = [setting.name for setting in full_size()]
    for result in stored_results(names, folder, least=1):
        title = result.name.partition("/")[2]
        several = len(result["correct"]) > 1
        first, *_, last = result["lengths"].tolist()
        for member in range(len(result["correct"])):
            if found := answered(result, member):
                told = predicted(result, member)
                name = f"{title}, member {member}" if several else title
                yield Point(name, told, float(np.clip(told, first, last)), found, last)


def lengths(folder: Path | None) -> Measured:
    """B-5: the longest list that is answered, against the one predicted, a point a model."""
    every = list(points(folder))
    asked = [point for point in every if point.predicted == point.cut]
    shown: dict[str, Number] = {}
    for point in every:
        shown |= {
            f"facts predicted ({point.model})": point.predicted,
            f"facts answered ({point.model})": point.answered,
        }
    results = stored_results([setting.name for setting in full_size()], folder, least=1)
    return Measured(
        ours={
            "models": len(every),
            NEAR: cases(point.near for point in every),
            "rank correlation over models": rank_of(every),
            "models whose predicted length was asked": len(asked),
            "of these, models whose longest list is within a factor of two": cases(point.near for point in asked),
            "rank correlation over these": rank_of(asked),
            "facts predicted, least": min((point.predicted for point in every), default=float("nan")),
            "models that fail on a list that was asked": cases(point.answered < point.longest for point in every),
            **shown,
        },
        model="taught language models and small decoders",
        evidence=[*(result.name for result in results), SHOWN_IN],
        fails_in=[f"{p.model}: {p.cut:.0f} predicted, {p.answered} answered" for p in every if not p.near],
        note=f"Of {len(asked)} of {len(every)} models the predicted length is among those asked, {FACTS[0]} to "
        f"{FACTS[-1]} facts and of small decoders {KNOWN[0]} to {KNOWN[-1]}. The first rule cut predictions to these.",
    )


def rank_of(some: Sequence[Point]) -> Number:
    """Spearman's rank correlation, or why there is none."""
    pairs = np.array([[point.cut, point.answered] for point in some])
    if len(pairs) < 3 or not np.isfinite(pairs).all() or not (np.ptp(pairs, axis=0) > 0).all():
        return "fewer than three models, or one of the two is the same in all"
    return float(spearmanr(*pairs.T)[0])  # pyright: ignore[reportArgumentType]

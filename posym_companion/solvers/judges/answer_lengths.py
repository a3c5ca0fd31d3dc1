"""Do the angles of the heads that look at the asked fact tell how long a list a model answers? Judge of B-5."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from posym_companion.finding import Measured, Number, cases
from posym_companion.solvers.answer_lengths import full_size
from posym_companion.solvers.judges.head_removal import SHOWN_IN
from posym_core.runs.results import Result, stored_results

# Of its attention, what makes a head one that looks at the asked fact; of the questions, what makes a list answered.
LOOKS, ANSWERS = 0.5, 0.5
NEAR = "models whose longest list is within a factor of two of what angles predict"


def predicted(result: Result, member: int) -> float:
    """Facts over which half of the energy of the heads that look at the asked fact turns little: their median.

    Cut to the lengths that were asked; NaN where no head looks at it.
    """
    looks = result["attention"][member] > LOOKS
    if not looks.any():
        return float("nan")
    lengths = result["lengths"]
    return float(np.clip(np.median(result["reach"][member][looks]) / result["words"], lengths[0], lengths[-1]))


def answered(result: Result, member: int) -> int:
    """The longest list, of those asked, up to which more than half of the questions are answered; 0 if none is."""
    right = result["correct"][member].mean(-1) > ANSWERS
    count = len(right) if right.all() else int(right.argmin())
    return int(result["lengths"][count - 1]) if count else 0


def points(folder: Path | None = None) -> Iterator[tuple[str, float, int]]:
    """Every model that answers the shortest lists: its name, the length predicted and the length answered."""
    names = [setting.name for setting in full_size()]
    for result in stored_results(names, folder, least=1):
        title = result.name.partition("/")[2]
        several = len(result["correct"]) > 1
        for member in range(len(result["correct"])):
            if found := answered(result, member):
                yield f"{title}, member {member}" if several else title, predicted(result, member), found


def lengths(folder: Path | None) -> Measured:
    """B-5: the longest list that is answered, against the one predicted, a point a model."""
    every = list(points(folder))
    near = [bool(abs(np.log2(told / found)) <= 1) for _, told, found in every]
    shown: dict[str, Number] = {}
    for model, told, found in every:
        shown |= {f"facts predicted ({model})": told, f"facts answered ({model})": found}
    both = np.array([[told, found] for _, told, found in every])
    varies = len(both) > 2 and np.isfinite(both).all() and (np.ptp(both, axis=0) > 0).all()
    rank = float(spearmanr(*both.T)[0]) if varies else "one of the two is the same in all models"  # pyright: ignore[reportArgumentType]
    results = stored_results([setting.name for setting in full_size()], folder, least=1)
    return Measured(
        ours={"models": len(every), NEAR: cases(near), "rank correlation over models": rank, **shown},
        model="taught language models and small decoders",
        evidence=[*(result.name for result in results), SHOWN_IN],
        fails_in=[
            f"{model}: {told:.0f} predicted, {found} answered"
            for model, told, found in every
            if not abs(np.log2(told / found)) <= 1
        ],
        note="Both lengths are cut to those that were asked: 8 to 256 facts, of small decoders 8 to 32.",
    )

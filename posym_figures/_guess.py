"""Questions that a figure asks before it shows itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from posym_figures._frames import read_limits, require_shape


@dataclass(frozen=True, eq=False)
class Guess:
    """Ask the reader to choose, or to drag bars to the heights that they expect, before the figure appears.

    A sentence then compares the guess with the answer. Without scripts, and in print, the figure is there at once.

    Args:
        question: what is asked.
        answer: one of ``choices``, or the true heights ``[bar]``, as a cell computes them.
        choices: texts to pick from.
        bars: names of the bars to drag, in place of ``choices``.
        start: heights ``[bar]`` at first; half of the axis unless given.
        limits: ends of the bars' axis.
        because: sentence that stands behind the answer.

    Raises:
        ValueError: if there are both choices and bars, fewer than two, or the answer does not fit them.
    """

    question: str
    answer: Any
    _: KW_ONLY
    choices: Sequence[str] = ()
    bars: Sequence[str] = ()
    start: Any = None
    limits: tuple[float, float] = (0.0, 1.0)
    because: str = ""

    def __post_init__(self) -> None:
        if bool(self.choices) == bool(self.bars) or len(self.choices or self.bars) < 2:
            given = f"{len(self.choices)} choices and {len(self.bars)} bars"
            raise ValueError(f"a guess must have two choices or bars at least, and not both; got {given}")
        if self.choices and self.answer not in self.choices:
            raise ValueError(f"answer must be one of {', '.join(map(repr, self.choices))}; got {self.answer!r}")
        self.data()

    def data(self) -> dict[str, Any]:
        """Return what the script compares with: the place of the right choice, or heights from 0 to 1 of the axis."""
        if self.choices:
            return {"answer": list(self.choices).index(self.answer), "because": self.because}
        low, high = read_limits("limits", self.limits)
        start = [(low + high) / 2] * len(self.bars) if self.start is None else self.start
        both = (("answer", self.answer), ("start", start))
        ends = np.stack([require_shape(name, each, ("bar", len(self.bars))) for name, each in both])
        if not ((ends >= low) & (ends <= high)).all():
            raise ValueError(f"answer and start must lie within limits, {low:g} to {high:g}; widen them")
        answer, start = ((ends - low) / (high - low)).round(4).tolist()
        return {"answer": answer, "start": start, "limits": [low, high], "because": self.because}

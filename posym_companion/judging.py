"""What a judge is: a generator of numbers, each with its case. What is asked of them stands in claims.toml.

A judge takes a :class:`Look` and yields ``(quantity, case, number)``; the case is empty where a number is of all cases
together. A line of a rule asks each case, ``each = ["s_SYM > 0.9", "s_POS < 0.1"]``. In how many cases it holds, and
where it fails with which numbers, is made here and in :mod:`posym_companion.verdicts`, once for all judges.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posym_companion.experiments import TAUGHT
from posym_companion.results import Result, load_result, load_stored_results
from posym_companion.verdicts import Measured, Number, Numbers, Remedy

# A quantity that a case does not have is None; so rules may ask a quantity that no case has.
Yielded = tuple[str, str, Number | None]


@dataclass
class Look:
    """What a judge may look at, and what it says beside its numbers.

    Attributes:
        folder: of results; by default this checkout's.
        model: name of the language model that is asked, if any.
        remedy: other prompts on which the rule is asked, see ``posym_companion.verdicts.REMEDIES``.
        evidence: names of the results that were read, in their order, then the chapters that show them.
        measured_on: what the numbers are of, in words.
        note: what a reader of the verdict should also know.
        again: whether the rule is asked once more, then also with the remedy ``"none"``, of fewer kinds of prompt.
        seeds: those whose runs are asked by themselves; all that a judge knows of, without any.
    """

    folder: Path | None
    model: str
    remedy: Remedy = "none"
    again: bool = False
    evidence: dict[str, None] = field(default_factory=dict)
    measured_on: str = ""
    note: str = ""
    seeds: Sequence[int] = ()

    def load(self, setting: Any) -> Result:
        """Return the stored result of a setting, or of that name, and keep it as evidence.

        Without one, raises MissingResultError: then the claim is not run here.
        """
        name = setting if isinstance(setting, str) else setting.name
        result = load_result(name, folder=self.folder)
        self.record(result)
        return result

    def load_stored(self, settings: Iterable[Any], *, least: int = 0) -> list[Result]:
        """Return those of some results that are there, as :meth:`load` does each; ``least`` of them must be."""
        names = [setting if isinstance(setting, str) else setting.name for setting in settings]
        results = load_stored_results(names, self.folder, least=least)
        self.record(*results)
        return results

    def record(self, *results: Result | str) -> None:
        """Keep results, or the names of results, as evidence that were loaded otherwise."""
        self.evidence |= dict.fromkeys(one if isinstance(one, str) else one.name for one in results)


def judge(
    *shown_in: str, model: str = "", measured_on: str = "", note: str = "", taught_in: str = ""
) -> Callable[[Callable[[Look], Iterator[Yielded]]], Callable[..., Measured]]:
    """Make a judge, as a claim's ``judge`` names it, of a generator, which may say otherwise what was measured on.

    ``shown_in`` are chapters that show the numbers, and ``taught_in`` is the one that shows those of the model that was
    taught to bind; ``{model}`` in ``measured_on`` stands for the model's name.
    """

    def make(looks: Callable[[Look], Iterator[Yielded]]) -> Callable[..., Measured]:
        @functools.wraps(looks)
        def measure(
            folder: Path | None, remedy: Remedy | None = None, model: str = model, seeds: Sequence[int] = ()
        ) -> Measured:
            look = Look(folder, model, remedy or "none", again=remedy is not None, seeds=seeds)
            look.measured_on, look.note = measured_on.format(model=model), note
            numbers = Numbers()
            for quantity, where, value in looks(look):
                numbers.add(quantity, where, value)
            chapters = (taught_in,) if taught_in and model == TAUGHT else shown_in
            evidence = [*dict.fromkeys((*look.evidence, *chapters))]
            return Measured(ours=numbers, model=look.measured_on, evidence=evidence, note=look.note)

        return measure

    return make

"""Do heads' scores differ between the right and the wrong answers of decoders that solve their task?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posym_companion.results import Result, load_stored_results
from posym_companion.solvers.head_roles import CARRIES
from posym_companion.solvers.solver_answers import MEASURED, full_size
from posym_core.metrics import Estimate, mean_interval


@dataclass(frozen=True, kw_only=True)
class RightAndWrong:
    """Hold one measurement of the heads that carry a kind of question.

    Attributes:
        right: mean over models of the mean over right answers.
        wrong: the same of wrong answers.
        difference: right minus wrong, with its interval over models.
        effect: the same in standard deviations over a model's answers of one kind.
    """

    right: float
    wrong: float
    difference: Estimate
    effect: Estimate


def answer_results(folder: Path | None = None) -> list[Result]:
    """Return the stored settings.

    Raises:
        MissingResultError: if one is missing.
    """
    names = [setting.name for setting in full_size()]
    return load_stored_results(names, folder, least=len(names))


def right_and_wrong(results: list[Result], question: str) -> dict[str, RightAndWrong]:
    """Return every measurement on right and on wrong answers to one kind of question, over all models that give both.

    Raises:
        ValueError: if there is no such model, or none of its heads carries the kind.
    """
    models: dict[str, list[tuple[float, float, float]]] = {name: [] for name in MEASURED}
    for result in results:
        kind = result.settings["solver"]["questions"].index(question)
        carries = result["patched"][:, kind] >= CARRIES
        for name in MEASURED:
            for measured, chosen in zip(result[name][:, kind].astype(float), carries, strict=True):
                if not chosen.any():
                    continue
                right, wrong = (answers[np.isfinite(answers)] for answers in measured[..., chosen].mean(-1))
                if min(right.size, wrong.size) > 1:
                    within = np.sqrt((right.var(ddof=1) + wrong.var(ddof=1)) / 2)
                    models[name].append((right.mean(), wrong.mean(), within))
    if not all(models.values()):
        raise ValueError(f"no stored model has a head that carries {question} and answers of both kinds; run more")
    compared = {}
    for name, rows in models.items():
        right, wrong, within = np.array(rows).T
        compared[name] = RightAndWrong(
            right=float(right.mean()),
            wrong=float(wrong.mean()),
            difference=mean_interval(right - wrong, over="models"),
            effect=mean_interval((right - wrong) / np.where(within > 0, within, np.nan), over="models"),
        )
    return compared

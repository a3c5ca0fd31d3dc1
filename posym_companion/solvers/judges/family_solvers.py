"""Judge of T-7: what holds in large models of three families, in small ones that solve the task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Cases, Measured, Tally
from posym_companion.language_models.judges.binding_profile import HALVES
from posym_companion.solvers.families import FAMILIES
from posym_companion.solvers.family_solvers import QUESTIONS, full_size
from posym_companion.solvers.judges.task_solvers import SHOWN_IN, SOLVED
from posym_core.runs.results import MissingResultError, load_result, result_names


def across_architectures(folder: Path | None) -> Measured:
    """T-7: sign of the correlation and of both layer contrasts in every model that solves both kinds of question."""
    there = set(result_names("family_solvers", folder=folder))
    results = [load_result(s.name, folder=folder) for s in full_size() if s.name in there]
    able = {result.name.partition("/")[2]: result for result in results if (result["right"].mean(1) > SOLVED).all()}
    if missing := [family for family in FAMILIES if not any(name.startswith(family) for name in able)]:
        raise MissingResultError(f"no stored small model of {', '.join(missing)} solves the task")
    tally = Tally()
    for name, result in able.items():
        scores, half = result["scores"].astype(float), result.settings["layers"] // 2
        for kind, question in enumerate(QUESTIONS):
            here, where = scores[kind], f"{name}, {question}"
            contrasts = np.median(here[:half], axis=(0, 1)) - np.median(here[half:], axis=(0, 1))
            found = [("Pearson r", "r below zero", -1, np.corrcoef(*here.reshape(-1, 2).T)[0, 1])]
            for (score, side, sign), contrast in zip(HALVES, contrasts, strict=True):
                found.append((f"{score} early - late", f"{score} {side}", sign, contrast))
            for number, part, sign, value in found:
                missed = f"{where}: {part} is missed by {-sign * value:.2f}"
                tally.add(number, where, float(value), {part: sign * value > 0}, missed)
    solved = {"models that solve both kinds": Cases(len(able), len(results))}
    return Measured(
        ours={**solved, **tally.counts("models and questions with {}"), **tally.numbers},
        model="models of two layers in the architectures of Llama, Qwen-2 and Gemma-2, trained on binding and index",
        evidence=[*(result.name for result in results), SHOWN_IN],
        fails_in=tally.missed,
        note=f"{len(able)} of {len(results)} models solve both kinds. With four heads each, signs alone count.",
    )

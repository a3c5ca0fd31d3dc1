"""Judge of T-7: what holds in large models of three families, in small ones that solve the task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Cases, Measured, Tally
from posym_companion.language_models.judges.binding_profile import HALVES
from posym_companion.results import MissingResultError, list_results, load_result
from posym_companion.solvers.families import FAMILIES
from posym_companion.solvers.family_solvers import QUESTIONS, full_size
from posym_companion.solvers.judges.task_solvers import SHOWN_IN, SOLVED
from posym_companion.solvers.random_solvers import RandomSolvers

# What is asked of which number, and its sign.
SIGNS = {"Pearson r": ("r below zero", -1)} | {
    f"{score} early - late": (f"{score} {side}", sign) for score, side, sign in HALVES
}


def signs_of(scores: np.ndarray, half: int) -> dict[str, float]:
    """Correlation of both scores ``[layer, head, 2]`` and their contrasts of the first layers with the others."""
    contrasts = np.median(scores[:half], axis=(0, 1)) - np.median(scores[half:], axis=(0, 1))
    values = (np.corrcoef(scores.reshape(-1, 2).T)[0, 1], *contrasts)
    return {number: float(value) for number, value in zip(SIGNS, values, strict=True)}


def across_architectures(folder: Path | None) -> Measured:
    """T-7: sign of the correlation and of both layer contrasts in every model that solves both kinds of question."""
    there = set(list_results("family_solvers", folder=folder))
    results = [load_result(s.name, folder=folder) for s in full_size() if s.name in there]
    able = {result.name.partition("/")[2]: result for result in results if (result["right"].mean(1) > SOLVED).all()}
    if missing := [family for family in FAMILIES if not any(name.startswith(family) for name in able)]:
        raise MissingResultError(f"no stored small model of {', '.join(missing)} solves the task")
    tally = Tally()
    untrained = load_result(RandomSolvers(kept="planes").name, folder=folder)
    born = untrained["families"].astype(float)
    place = {setting.name.partition("/")[2]: number for number, setting in enumerate(full_size())}
    for name, result in able.items():
        scores, half = result["scores"].astype(float), result.settings["layers"] // 2
        for kind, question in enumerate(QUESTIONS):
            where = f"{name}, {question}"
            own, drawn = signs_of(scores[kind], half), [signs_of(x, half) for x in born[:, place[name], kind]]
            for number, (part, sign) in SIGNS.items():
                value = own[number]
                holds = {part: sign * value > 0, f"{part}, beyond": all(sign * (value - x[number]) > 0 for x in drawn)}
                beside = ", ".join(f"{x[number]:.2f}" for x in drawn)
                tally.add(number, where, value, holds, f"{where}: {number} {value:.2f}; random weights {beside}")
                tally.numbers.update(
                    {f"{number}, random weights {draw} ({where})": x[number] for draw, x in enumerate(drawn)}
                )
    solved = {"models that solve both kinds": Cases(len(able), len(results))}
    return Measured(
        ours={**solved, **tally.counts("models and questions with {}"), **tally.numbers},
        model="models of two layers in the architectures of Llama, Qwen-2 and Gemma-2, trained on binding and index",
        evidence=[*(result.name for result in (*results, untrained)), SHOWN_IN],
        fails_in=tally.missed,
        note=f"{len(able)} of {len(results)} models solve both kinds. With four heads each, signs alone count.",
    )

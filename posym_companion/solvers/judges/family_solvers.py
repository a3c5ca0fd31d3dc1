"""Judge of T-7: what holds in large models of three families, in small ones that solve the task."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Cases, Measured, Number
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
    ours: dict[str, Number] = {"models that solve both kinds": Cases(len(able), len(results))}
    held: dict[str, list[bool]] = {"r below zero": [], "s_POS early above late": [], "s_SYM late above early": []}
    fails = []
    for name, result in able.items():
        scores, half = result["scores"].astype(float), result.settings["layers"] // 2
        for kind, question in enumerate(QUESTIONS):
            here = scores[kind]
            r = float(np.corrcoef(*here.reshape(-1, 2).T)[0, 1])
            early, late = np.median(here[:half], axis=(0, 1)), np.median(here[half:], axis=(0, 1))
            found = dict(zip(held, (-r, early[0] - late[0], late[1] - early[1]), strict=True))
            for part, value in found.items():
                held[part].append(value > 0)
                if value <= 0:
                    fails.append(f"{name}, {question}: {part} is missed by {-value:.2f}")
            ours[f"Pearson r ({name}, {question})"] = r
            ours[f"s_POS early - late ({name}, {question})"] = float(early[0] - late[0])
            ours[f"s_SYM early - late ({name}, {question})"] = float(early[1] - late[1])
    return Measured(
        ours={**{f"models and questions with {part}": Cases(sum(x), len(x)) for part, x in held.items()}, **ours},
        model="models of two layers in the architectures of Llama, Qwen-2 and Gemma-2, trained on binding and index",
        evidence=[*(result.name for result in results), SHOWN_IN],
        fails_in=fails,
        note=f"{len(able)} of {len(results)} models solve both kinds. With four heads each, signs alone count.",
    )

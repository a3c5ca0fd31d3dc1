"""Judge of T-7: what holds in large models of three families, in small ones that solve the task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import MissingResultError
from posym_companion.solvers.families import FAMILIES
from posym_companion.solvers.family_solvers import QUESTIONS, full_size
from posym_companion.solvers.judges.task_solvers import SHOWN_IN, SOLVED
from posym_companion.solvers.random_solvers import RandomSolvers

# Which of random weights goes farthest, of every number.
FARTHEST: Mapping[str, Callable[[Iterable[float]], float]] = {
    "Pearson r": min,
    "s_POS early - late": max,
    "s_SYM early - late": min,
}


def signs_of(scores: np.ndarray, half: int) -> dict[str, float]:
    """Return both scores' correlation, of ``[layer, head, 2]``, and their contrasts of the first and other layers."""
    contrasts = np.median(scores[:half], axis=(0, 1)) - np.median(scores[half:], axis=(0, 1))
    values = (np.corrcoef(scores.reshape(-1, 2).T)[0, 1], *contrasts)
    return {number: float(value) for number, value in zip(FARTHEST, values, strict=True)}


@judge(
    SHOWN_IN,
    measured_on="models of two layers in the architectures of Llama, Qwen-2 and Gemma-2, trained on binding and index",
)
def across_architectures(look: Look) -> Iterator[Yielded]:
    """T-7: sign of the correlation and of both layer contrasts in every model that solves both kinds of question."""
    results = look.load_stored(full_size())
    able = {result.name.partition("/")[2]: result for result in results if (result["right"].mean(1) > SOLVED).all()}
    if missing := [family for family in FAMILIES if not any(name.startswith(family) for name in able)]:
        raise MissingResultError(f"no stored small model of {', '.join(missing)} solves the task")
    born = look.load(RandomSolvers(kept="planes"))["families"].astype(float)
    place = {setting.name.partition("/")[2]: number for number, setting in enumerate(full_size())}
    for name, result in able.items():
        scores, half = result["scores"].astype(float), result.settings["layers"] // 2
        for kind, question in enumerate(QUESTIONS):
            drawn = [signs_of(x, half) for x in born[:, place[name], kind]]
            for number, value in signs_of(scores[kind], half).items():
                farthest = FARTHEST[number](x[number] for x in drawn)
                yield number, f"{name}, {question}", value
                yield f"{number} less the farthest of random weights", f"{name}, {question}", value - farthest
    look.note = f"{len(able)} of {len(results)} models solve both kinds. With four heads each, signs alone count."

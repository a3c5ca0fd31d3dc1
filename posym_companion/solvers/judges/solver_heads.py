"""Heads of decoders that solve their task: the papers' claims about heads where the heads' roles are known.

Looked at are the settings of two and more layers in which every kind of question is solved, all seeds of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.judges.random_weights import shift_estimate
from posym_companion.results import MissingResultError, Result, load_result
from posym_companion.solvers.judges.task_solvers import MODEL, SHOWN_IN, solver_results, solves
from posym_companion.solvers.random_solvers import RandomSolvers, behaviour_and_use
from posym_companion.verdicts import count_cases
from posym_core.metrics import Estimate, correlate_rows, mean_interval, statistic_interval

DRAWS = 500  # of the bootstrap over seeds


def load_settings(folder: Path | None = None) -> dict[str, Result]:
    """Return the settings that claims about heads are measured on, at least one."""
    settings = {
        name: result
        for name, result in solver_results(folder).items()
        if result.settings["layers"] > 1 and solves(result)
    }
    if not settings:
        raise MissingResultError("no stored setting of two or more layers solves its task")
    return settings


def list_questions(results: dict[str, Result]) -> Iterator[tuple[str, Result, int]]:
    """Yield every setting with each of its kinds of question."""
    for name, result in results.items():
        for kind, question in enumerate(result.settings["questions"]):
            yield f"{question}, {name}", result, kind


def over_seeds(statistic: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> Estimate:
    """Return a statistic of ``rows[seed, ...]`` with an interval over seeds; it takes draws ``[draw, ..., field]``."""
    return statistic_interval(statistic, rows[None], draws=DRAWS, vectorized=True)


def look_at_settings(look: Look, note: str = "", *, without: str = "") -> dict[str, Result]:
    """Return the settings of :func:`load_settings`, as evidence, but those that ask one kind of question.

    In the note ``{deep}`` stands for how deep they are.
    """
    settings = load_settings(look.folder)
    results = {name: result for name, result in settings.items() if without not in result.settings["questions"]}
    look.record(*results.values())
    deep = f"{count_cases(result.settings['layers'] == 2 for result in results.values())} of them have two layers."
    look.note = f"{len(results)} kinds of model of two or more layers solve all of their questions. {note}"
    look.note = look.note.format(deep=deep).strip()
    return results


# T-1


@judge(SHOWN_IN, measured_on=MODEL)
def layer_trend(look: Look) -> Iterator[Yielded]:
    """T-1: median scores of the first half of the layers minus those of the others, beside untrained models."""
    untrained = load_result(RandomSolvers().name, folder=look.folder)
    for where, result, kind in list_questions(look_at_settings(look, "{deep}")):
        drawn = scores_at_birth(untrained, result, kind)
        for place, (score, farthest) in enumerate({"s_POS": max, "s_SYM": min}.items()):
            trend = mean_interval(early_less_late(result["scores"][:, kind, ..., place].astype(float)), over="seeds")
            most = farthest(early_less_late(drawn[..., place]).mean(-1).tolist())
            yield f"{score} early - late", where, trend
            yield f"{score} early - late less the farthest of random weights", where, shift_estimate(trend, most)


def early_less_late(heads: np.ndarray) -> np.ndarray:
    """Return the median of ``[..., layer, head]`` over the first half of the layers minus that over the others."""
    half = heads.shape[-2] // 2
    return np.median(heads[..., :half, :], axis=(-2, -1)) - np.median(heads[..., half:, :], axis=(-2, -1))


# T-2


def pearson(rows: np.ndarray) -> np.ndarray:
    """Return the correlation over all heads of ``[draw, ..., (s_POS, s_SYM)]``."""
    return correlate_rows(*rows.reshape(len(rows), -1, 2).transpose(2, 0, 1))


@judge(SHOWN_IN, measured_on=MODEL)
def anticorrelation(look: Look) -> Iterator[Yielded]:
    """T-2: the correlation of the scores over the heads of all seeds, beside the null model's and random weights'."""
    note = "{deep} Random weights are three draws of as many models, on prompts of the same length"
    untrained = load_result(RandomSolvers().name, folder=look.folder)
    for where, result, kind in list_questions(look_at_settings(look, note)):
        r = over_seeds(pearson, result["scores"][:, kind, ..., :2].astype(float))
        null = float(pearson(result["null_scores"][None, :, kind].astype(float))[0])
        yield "Pearson r", where, r
        yield "Pearson r less the null model's", where, shift_estimate(r, null)
        least = float(pearson(scores_at_birth(untrained, result, kind)).min())
        yield "Pearson r less the least of random weights", where, shift_estimate(r, least)


def scores_at_birth(untrained: Result, result: Result, kind: int) -> np.ndarray:
    """Return ``[draw, seed, layer, head, score]`` of a setting before training, on one kind of question."""
    return untrained[result.name.partition("/")[2]][:, :, kind].astype(float)


# T-4


def spearman(rows: np.ndarray) -> np.ndarray:
    """Return the rank correlation over all heads of ``[draw, ..., (behaviour, use)]``."""
    from scipy.stats import rankdata

    return correlate_rows(*(rankdata(x, axis=1) for x in rows.reshape(len(rows), -1, 2).transpose(2, 0, 1)))


@judge(SHOWN_IN, measured_on=MODEL)
def all_heads(look: Look) -> Iterator[Yielded]:
    """T-4: behaviour against energy-weighted mean log angle over the heads of all seeds."""
    untrained = load_result(RandomSolvers(kept="planes").name, folder=look.folder)
    rotating = [
        (where, result, kind)
        for where, result, kind in list_questions(look_at_settings(look))
        if (result["angles"] > 0).all() and "+" not in result.settings["band"]
    ]
    if not rotating:
        raise MissingResultError("no solved setting rotates all of its planes")
    for where, result, kind in rotating:
        rho = over_seeds(spearman, behaviour_and_use(result.arrays, result["angles"][:, None], kind))
        drawn = untrained[f"{result.name.partition('/')[2]}_use"][:, :, kind].astype(float)
        yield "rank correlation", where, rho
        most = float(spearman(drawn).max())
        yield "rank correlation less the most of random weights", where, shift_estimate(rho, most)

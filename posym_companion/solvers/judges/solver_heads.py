"""Heads of decoders that solve their task: the papers' claims about heads where the heads' roles are known.

Looked at are the settings of two and more layers in which every kind of question is solved, all seeds of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, Tally, count_cases, lies_beyond
from posym_companion.language_models.judges.binding_planes import GAP, SHARE
from posym_companion.language_models.judges.binding_profile import HALVES, add_correlation
from posym_companion.language_models.judges.plane_profile import STRONG
from posym_companion.language_models.judges.random_weights import BesideRandomWeights
from posym_companion.language_models.random_weights import TAUS
from posym_companion.results import MissingResultError, Result, load_result
from posym_companion.solvers.judges.task_solvers import MODEL, SHOWN_IN, solver_results, solves
from posym_companion.solvers.random_solvers import LENGTHS, RandomSolvers, behaviour_and_use, leanings
from posym_core.metrics import Estimate, correlate_rows, mean_interval, statistic_interval

DRAWS = 500  # of the bootstrap over seeds
# The papers' claims are about binding; index is judged apart from it.
JUDGED = ("binding", "index")
MODELS, POOLED = "kinds of model", "settings and questions"  # what is counted


def load_settings(folder: Path | None = None) -> dict[str, Result]:
    """The settings that claims about heads are measured on.

    Raises:
        MissingResultError: if there is none.
    """
    found = {
        name: result
        for name, result in solver_results(folder).items()
        if result.settings["layers"] > 1 and solves(result)
    }
    if not found:
        raise MissingResultError("no stored setting of two or more layers solves its task")
    return found


def list_questions(results: dict[str, Result]) -> Iterator[tuple[str, Result, int]]:
    """Every setting with each of its kinds of question."""
    for name, result in results.items():
        for kind, question in enumerate(result.settings["questions"]):
            yield f"{question}, {name}", result, kind


def over_seeds(statistic: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> Estimate:
    """A statistic of ``rows[seed, ...]`` with an interval over seeds; it takes many draws ``[draw, ..., field]``."""
    return statistic_interval(statistic, rows[None], draws=DRAWS, vectorized=True)


def by_kind(tally: Tally) -> dict[str, Number]:
    """In how many kinds of model each part holds, for each kind of question by itself, and over all of them."""
    apart = (tally.counts(f"{MODELS} with {{}}, {question}", of=f"{question}, ") for question in JUDGED)
    return {name: count for counts in apart for name, count in counts.items()} | tally.counts(f"{POOLED} with {{}}")


def two_layers(results: dict[str, Result]) -> str:
    """How deep these models are."""
    return f"{count_cases(result.settings['layers'] == 2 for result in results.values())} of them have two layers."


def heads_measured(
    results: dict[str, Result],
    ours: Mapping[str, Number],
    fails: Sequence[str] = (),
    note: str = "",
    beside: Sequence[str] = (),
) -> Measured:
    """What was measured on these settings; ``beside`` are names of results that they are held against."""
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in results.values()), *beside, SHOWN_IN],
        fails_in=fails,
        note=f"{len(results)} kinds of model of two or more layers solve all of their questions. {note}".strip(),
    )


# T-1


def layer_trend(folder: Path | None) -> Measured:
    """T-1: median scores of the first half of the layers minus those of the others, beside untrained models."""
    results, tally = load_settings(folder), Tally()
    untrained = load_result(RandomSolvers().name, folder=folder)
    for where, result, kind in list_questions(results):
        drawn = scores_at_birth(untrained, result, kind)
        for place, (score, side, sign) in enumerate(HALVES):
            found = mean_interval(early_less_late(result["scores"][:, kind, ..., place].astype(float)), over="seeds")
            birth = BesideRandomWeights(found=found, drawn=tuple(early_less_late(drawn[..., place]).mean(-1).tolist()))
            part, number = f"{score} {side}", f"{score} early - late"
            more = f"{part}, more than with random weights"
            holds = {part: lies_beyond(found, sign)}
            # What is not found is not more than something else.
            tally.held.setdefault(more, [])
            holds |= {more: birth.above if sign > 0 else birth.below} if holds[part] else {}
            tally.add(number, where, found, holds, f"{where}: {number} {birth}")
            tally.numbers.update({f"{number} of random weights {n} ({where})": x for n, x in enumerate(birth.drawn)})
    note, beside = two_layers(results), [untrained.name]
    return heads_measured(results, by_kind(tally) | tally.numbers, tally.missed, note, beside)


def early_less_late(heads: np.ndarray) -> np.ndarray:
    """Median of ``[..., layer, head]`` over the first half of the layers minus that over the others."""
    half = heads.shape[-2] // 2
    return np.median(heads[..., :half, :], axis=(-2, -1)) - np.median(heads[..., half:, :], axis=(-2, -1))


# T-2


def pearson(rows: np.ndarray) -> np.ndarray:
    """Correlation over all heads of ``[draw, ..., (s_POS, s_SYM)]``."""
    return correlate_rows(*rows.reshape(len(rows), -1, 2).transpose(2, 0, 1))


def anticorrelation(folder: Path | None) -> Measured:
    """T-2: the correlation of the scores over the heads of all seeds, beside the null model's and random weights'."""
    results, tally = load_settings(folder), Tally()
    untrained = load_result(RandomSolvers().name, folder=folder)
    for where, result, kind in list_questions(results):
        found = over_seeds(pearson, result["scores"][:, kind, ..., :2].astype(float))
        null = float(pearson(result["null_scores"][None, :, kind].astype(float))[0])
        birth = BesideRandomWeights(
            found=found, drawn=tuple(correlation_before_training(untrained, result, kind).tolist())
        )
        add_correlation(tally, where, found, null, birth)
        tally.numbers.update({f"Pearson r of random weights {draw} ({where})": r for draw, r in enumerate(birth.drawn)})
    note = f"{two_layers(results)} Random weights are three draws of as many models, on prompts of the same length"
    return heads_measured(results, by_kind(tally) | tally.numbers, tally.missed, note, [untrained.name])


def correlation_before_training(
    untrained: Result, result: Result, kind: int, *, tau: str = "1e-4", times: int = 1
) -> np.ndarray:
    """``[draw]``: r over the heads of all seeds of a setting before training, on one kind of question.

    Args:
        untrained: the result of :mod:`posym_companion.solvers.random_solvers`.
        result: of the setting.
        kind: number of its kind of question.
        tau: how pairs of blocks are weighed.
        times: facts of the prompts, in multiples of what the setting learns.
    """
    return pearson(scores_at_birth(untrained, result, kind, tau=tau, times=times))


def scores_at_birth(untrained: Result, result: Result, kind: int, *, tau: str = "1e-4", times: int = 1) -> np.ndarray:
    """``[draw, seed, layer, head, score]`` of a setting before training; arguments are those of
    :func:`correlation_before_training`."""
    scores = untrained[result.name.partition("/")[2]][list(TAUS).index(tau), LENGTHS.index(times)]
    return scores[:, :, kind].astype(float)


# T-3


def plane_law(folder: Path | None) -> Measured:
    """T-3: slow planes against middle ones, by variance shares and by softmax scores, where a model has both."""
    results, tally = load_settings(folder), Tally()
    untrained = load_result(RandomSolvers(kept="planes").name, folder=folder)
    asked = {"shares": SHARE, "scores": GAP}
    signs = {"slow": 1, "middle": -1}
    born: dict[str, list[float]] = {}
    for where, result, kind in list_questions(results):
        lean = leanings(result.arrays, result["angles"][0], result.settings["facts"], kind)
        if "+" in result.settings["band"] or np.isnan(lean).any():
            continue
        drawn = untrained[f"{result.name.partition('/')[2]}_lean"][:, :, kind].astype(float).mean(1)
        for (number, (measure, line)), (place, (speed, sign)) in itertools.product(
            enumerate(asked.items()), enumerate(signs.items())
        ):
            found = mean_interval(lean[:, number, place])
            name = f"symbolic - positional {measure}"
            missed = f"{where}: {name} of {speed} planes {found}"
            holds = {f"{speed} planes, {measure}": lies_beyond(found, sign, line)}
            tally.add(f"{name}, {speed} planes", where, found, holds, missed)
            born.setdefault(f"{speed} planes, {measure}, most of random weights", []).extend(
                (sign * drawn[:, number, place]).tolist()
            )
    if not tally.held:
        raise MissingResultError("no solved setting has slow and middle planes")
    most: dict[str, Number] = {name: float(max(x)) for name, x in born.items()}
    return heads_measured(results, tally.counts("{}") | most | tally.numbers, tally.missed, beside=[untrained.name])


# T-4


def spearman(rows: np.ndarray) -> np.ndarray:
    """Rank correlation over all heads of ``[draw, ..., (behaviour, use)]``."""
    from scipy.stats import rankdata

    return correlate_rows(*(rankdata(x, axis=1) for x in rows.reshape(len(rows), -1, 2).transpose(2, 0, 1)))


def all_heads(folder: Path | None) -> Measured:
    """T-4: behaviour against energy-weighted mean log angle over the heads of all seeds."""
    results, tally = load_settings(folder), Tally()
    untrained = load_result(RandomSolvers(kept="planes").name, folder=folder)
    for where, result, kind in list_questions(results):
        angles = result["angles"]
        if (angles <= 0).any() or "+" in result.settings["band"]:
            continue
        found = over_seeds(spearman, behaviour_and_use(result.arrays, angles[:, None], kind))
        drawn = untrained[f"{result.name.partition('/')[2]}_use"][:, :, kind].astype(float)
        birth = BesideRandomWeights(found=found, drawn=tuple(spearman(drawn).tolist()))
        holds = {
            "a positive correlation": found.low > 0,
            "a strong correlation": found.low > STRONG,
            "a correlation above that of random weights": birth.above,
        }
        tally.add("rank correlation", where, found, holds, f"{where}: {birth}")
        tally.numbers.update(
            {f"rank correlation of random weights {n} ({where})": r for n, r in enumerate(birth.drawn)}
        )
    if not tally.held:
        raise MissingResultError("no solved setting rotates all of its planes")
    counts = tally.counts(f"{POOLED} with {{}}")
    return heads_measured(results, counts | tally.numbers, tally.missed, beside=[untrained.name])

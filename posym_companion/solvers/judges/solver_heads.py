"""Heads of decoders that solve their task: the papers' claims about heads where the heads' roles are known.

Looked at are the settings of two and more layers in which every kind of question is solved, all seeds of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from posym_companion.finding import Line, Measured, Number, cases
from posym_companion.language_models.judges.random_weights import AtBirth
from posym_companion.language_models.random_weights import TAUS
from posym_companion.solvers.judges.task_solvers import MODEL, PAIRS, SHOWN_IN, solver_results, solves
from posym_companion.solvers.random_solvers import LENGTHS, RandomSolvers
from posym_core.metrics.stats import Estimate, mean_interval, row_correlation, statistic_interval
from posym_core.runs.results import MissingResultError, Result, load_result

STRONG = 0.5
DRAWS = 500  # of the bootstrap over seeds
# As in the row on single planes of a language model.
GAP, SHARE = 0.1, 0.5
# The papers' claims are about binding; index is judged apart from it.
JUDGED = ("binding", "index")
MODELS = "kinds of model"  # what is counted


def solvers(folder: Path | None = None) -> dict[str, Result]:
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


def by_question(results: dict[str, Result]) -> Iterator[tuple[str, Result, int]]:
    """Every setting with each of its kinds of question."""
    for name, result in results.items():
        for kind, question in enumerate(result.settings["questions"]):
            yield f"{question}, {name}", result, kind


def over_seeds(statistic: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> Estimate:
    """A statistic of ``rows[seed, ...]`` with an interval over seeds; it takes many draws ``[draw, ..., field]``."""
    return statistic_interval(statistic, rows[None], draws=DRAWS, vectorized=True)


def counts_of(held: dict[str, list[tuple[str, bool]]]) -> dict[str, Number]:
    """From ``held[number]``, kinds of question with whether they hold, the counts by kind and over all of them."""
    by_kind: dict[str, Number] = {
        f"{MODELS} with {number}, {question}": cases(holds for kind, holds in found if kind == question)
        for question in JUDGED
        for number, found in held.items()
    }
    return by_kind | {
        f"settings and questions with {number}": cases(holds for _, holds in found) for number, found in held.items()
    }


def by_question_and_pooled(parts: dict[str, str]) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """Lines on these parts, part -> number: one for each kind of question, and over all of them as they first were."""
    lines = tuple(
        Line(part=f"{question}: {part}", of=f"{MODELS} with {number}, {question}", unit=MODELS)
        for question in JUDGED
        for part, number in parts.items()
    )
    pooled = (Line(part=part, of=f"settings and questions with {n}", unit=PAIRS) for part, n in parts.items())
    return lines, tuple(pooled)


def two_layers(results: dict[str, Result]) -> str:
    """How deep these models are."""
    return f"{cases(result.settings['layers'] == 2 for result in results.values())} of them have two layers."


def heads_measured(
    results: dict[str, Result], ours: dict[str, Number], fails: Sequence[str], note: str = ""
) -> Measured:
    """What was measured on these settings."""
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        fails_in=fails,
        note=f"{len(results)} kinds of model of two or more layers solve all of their questions. {note}".strip(),
    )


# T-1


def layer_trend(folder: Path | None) -> Measured:
    """T-1: median scores of the first half of the layers minus those of the others, seed by seed."""
    results, ours, fails = solvers(folder), {}, []
    held: dict[str, list[tuple[str, bool]]] = {number: [] for number in TREND.values()}
    for where, result, kind in by_question(results):
        question, half = result.settings["questions"][kind], result.settings["layers"] // 2
        for place, (score, number, sign) in enumerate(zip(("s_POS", "s_SYM"), held, (1, -1), strict=True)):
            heads = result["scores"][:, kind, ..., place].astype(float)
            contrast = np.median(heads[:, :half], axis=(1, 2)) - np.median(heads[:, half:], axis=(1, 2))
            found = ours[f"{score} early - late ({where})"] = mean_interval(contrast, over="seeds")
            holds = found.low > 0 if sign > 0 else found.high < 0
            held[number].append((question, holds))
            if not holds:
                fails.append(f"{where}: {score} early - late {found}")
    return heads_measured(results, {**counts_of(held), **ours}, fails, two_layers(results))


TREND = {
    "early layers are positional": "s_POS early above late",
    "late layers are symbolic": "s_SYM late above early",
}

# T-2


def pearson(rows: np.ndarray) -> np.ndarray:
    """Correlation over all heads of ``[draw, ..., (s_POS, s_SYM)]``."""
    return row_correlation(*rows.reshape(len(rows), -1, 2).transpose(2, 0, 1))


def anticorrelation(folder: Path | None) -> Measured:
    """T-2: the correlation of the scores over the heads of all seeds, beside the null model's and random weights'."""
    results, ours, fails = solvers(folder), {}, []
    untrained = load_result(RandomSolvers().name, folder=folder)
    held: dict[str, list[tuple[str, bool]]] = {number: [] for number in (AGAINST | AT_BIRTH).values()}
    for where, result, kind in by_question(results):
        found = over_seeds(pearson, result["scores"][:, kind, ..., :2].astype(float))
        null = float(pearson(result["null_scores"][None, :, kind].astype(float))[0])
        birth = AtBirth(found=found, drawn=tuple(at_birth(untrained, result, kind).tolist()))
        beyond = (found.high < 0, found.high < null, birth.below)
        for number, holds in zip(held, beyond, strict=True):
            held[number].append((result.settings["questions"][kind], holds))
        ours |= {f"Pearson r ({where})": found, f"Pearson r of the null model ({where})": null}
        ours |= {f"Pearson r of random weights {draw} ({where})": r for draw, r in enumerate(birth.drawn)}
        if not all(beyond):
            fails.append(f"{where}: r {birth}, null model {null:.2f}")
    note = f"{two_layers(results)} Random weights are three draws of as many models, on prompts of the same length"
    return heads_measured(results, {**counts_of(held), **ours}, fails, note)


def at_birth(untrained: Result, result: Result, kind: int, *, tau: str = "1e-4", times: int = 1) -> np.ndarray:
    """``[draw]``: r over the heads of all seeds of a setting before training, on one kind of question.

    Args:
        untrained: the result of :mod:`posym_companion.solvers.random_solvers`.
        result: of the setting.
        kind: number of its kind of question.
        tau: how pairs of blocks are weighed.
        times: facts of the prompts, in multiples of what the setting learns.
    """
    scores = untrained[result.name.partition("/")[2]][list(TAUS).index(tau), LENGTHS.index(times)]
    return pearson(scores[:, :, kind].astype(float))


AGAINST = {"r is negative": "r below zero", "r is below the null model's": "r below the null model's"}
AT_BIRTH = {"r is below that of random weights": "r below every draw of random weights"}
AGAINST_LINES, _ = by_question_and_pooled(AGAINST | AT_BIRTH)
_, AGAINST_POOLED = by_question_and_pooled(AGAINST)

# T-3


def plane_law(folder: Path | None) -> Measured:
    """T-3: slow planes against middle ones, by variance shares and by softmax scores, where a model has both."""
    results, ours, fails = solvers(folder), {}, []
    held: dict[str, list[bool]] = {}
    for where, result, kind in by_question(results):
        length = 2 * result.settings["facts"] + 1
        turns = result["angles"][0] * length / (2 * np.pi)
        planes = {"slow": (turns > 0) & (turns < 1 / 8), "middle": (turns >= 1 / 8) & (turns < 1)}
        if "+" in result.settings["band"] or not all(some.any() for some in planes.values()):
            continue
        for (speed, some), sign in zip(planes.items(), (1, -1), strict=True):
            for measure, name, line in (("shares", "plane_shares", SHARE), ("scores", "plane_scores", GAP)):
                parts = result[name][:, kind][..., some, :].astype(float)
                gap = np.nanmean(parts[..., 1] - parts[..., 0], axis=(1, 2, 3))
                found = ours[f"symbolic - positional {measure}, {speed} planes ({where})"] = mean_interval(gap)
                kept = sign * (found.low if sign > 0 else found.high) > line
                held.setdefault(f"{speed} planes, {measure}", []).append(kept)
                if not kept:
                    fails.append(f"{where}: symbolic - positional {measure} of {speed} planes {found}")
    if not held:
        raise MissingResultError("no solved setting has slow and middle planes")
    return heads_measured(results, {**{name: cases(x) for name, x in held.items()}, **ours}, fails)


# T-4


def spearman(rows: np.ndarray) -> np.ndarray:
    """Rank correlation over all heads of ``[draw, ..., (behaviour, use)]``."""
    from scipy.stats import rankdata

    return row_correlation(*(rankdata(x, axis=1) for x in rows.reshape(len(rows), -1, 2).transpose(2, 0, 1)))


def all_heads(folder: Path | None) -> Measured:
    """T-4: behaviour against energy-weighted mean log angle over the heads of all seeds."""
    results, ours, fails = solvers(folder), {}, []
    positive, strong = [], []
    for where, result, kind in by_question(results):
        angles = result["angles"]
        if (angles <= 0).any() or "+" in result.settings["band"]:
            continue
        energy = result["energy"][:, kind].astype(float)
        use = np.nansum(energy * np.log(angles)[:, None], -1) / np.nansum(energy, -1)
        scores = result["scores"][:, kind].astype(float)
        found = over_seeds(spearman, np.stack([scores[..., 0] - scores[..., 1], use], -1))
        ours[f"rank correlation ({where})"] = found
        positive.append(found.low > 0)
        strong.append(found.low > STRONG)
        if not strong[-1]:
            fails.append(f"{where}: {found}")
    if not strong:
        raise MissingResultError("no solved setting rotates all of its planes")
    counts = {
        "settings and questions with a positive correlation": cases(positive),
        "settings and questions with a strong correlation": cases(strong),
    }
    return heads_measured(results, {**counts, **ours}, fails)

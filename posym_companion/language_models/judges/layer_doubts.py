"""What scores hang on beside the model: choices of the measurer (U25-12), and what a layer trend could be instead.

The trend is looked at in medians over heads by thirds of the layers, on prompts of one wording and 16 facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models import score_robustness
from posym_companion.language_models.judges.origins import ATTENDS, by_thirds
from posym_companion.language_models.judges.random_weights import BesideRandomWeights, random_weight_results
from posym_companion.language_models.layer_doubts import LayerDoubts
from posym_companion.language_models.origins import LEAD, WORDINGS
from posym_companion.language_models.random_weights import FACTS, TAUS, RandomWeights
from posym_companion.results import Result, load_result
from posym_core.metrics import Estimate, correlate_heads, statistic_interval
from posym_profile.language_models import PACKAGED

SCORES = {"s_POS": "positional", "s_SYM": "symbolic"}
ALIKE = list(TAUS).index("equal")
Thirds = list[float]
SHOWN_IN = "book/language_model/score_trust.ipynb"
RESAMPLES = 2000
MORE = "move less the most of random weights"
CUTS = ("single tokens", "two tokens a block", "two facts a block")


def thirds_by_doubt(model: str = PACKAGED, folder: Path | None = None) -> dict[str, dict[str, Thirds]]:
    """Return both scores and, under ``"attention"``, that to all facts, by thirds of the layers and by what is done.

    A third in which no head is left is NaN.

    Raises:
        MissingResultError: if a result is not there.
    """
    setting = LayerDoubts(model=model)
    stored = load_result(setting.name, folder=folder)
    mass = stored["mass"].astype(float)
    attends = mass[0].mean(0) > ATTENDS
    rows = {
        "as they come": (0, 0, True),
        "heads with a tenth of their attention on facts": (0, 0, attends),
        "all pairs of facts weighed alike": (0, ALIKE, True),
        "without the mark of beginning": (1, 0, True),
        f"behind {LEAD} facts of the same frame": (2, 0, True),
    }
    thirds = {"attention": {"attention": by_thirds(mass[0])}}
    for what, (kind, weighting, heads) in rows.items():
        scores = {name: stored[array][kind, weighting].astype(float) for name, array in SCORES.items()}
        thirds[what] = {name: by_thirds(np.where(heads, x, np.nan)) for name, x in scores.items()}
    for draw, result in enumerate(random_weight_results(WORDINGS[0], setting.facts, folder, model=model), 1):
        scores = {name: result[array][0].astype(float) for name, array in SCORES.items()}
        thirds[f"random weights, draw {draw}"] = {name: by_thirds(x) for name, x in scores.items()}
    return thirds


@judge(
    SHOWN_IN,
    model=PACKAGED,
    measured_on="{model}",
    note="Means over prompts; a move is the mean over heads and both scores of how far a score lies from where it was. "
    "Shorter blocks of the same facts are more blocks, and 64 facts are a longer prompt.",
)
def choices_move_scores(look: Look) -> Iterator[Yielded]:
    """U25-12: by how much heads move, and change their order, with temperature, number and length of blocks."""
    chosen = look.load(score_robustness.full_size(look.model)[0])
    for wording in WORDINGS:
        few, many = (_load_weights(look, wording, facts) for facts in FACTS)
        for facts, results in zip(FACTS, (few, many), strict=True):
            where = f"{wording}, {facts} facts"
            halves = [mean_scores(results[0], prompts=slice(first, None, 2)) for first in range(2)]
            yield from _compare("other prompts", where, *halves)
            alike = [(mean_scores(x), mean_scores(x, ALIKE)) for x in results]
            yield "move with all pairs weighed alike", where, moved(*alike[0])
            yield MORE, f"{where}, all pairs weighed alike", _beyond_draws(alike)
        pairs = [(mean_scores(one), mean_scores(other)) for one, other in zip(few, many, strict=True)]
        yield from _compare("another number of blocks", wording, *pairs[0])
        yield MORE, f"{wording}, another number of blocks", _beyond_draws(pairs)
    home, eps = (
        each.index(default)
        for each, default in (
            (score_robustness.TAUS, score_robustness.DEFAULT_TAU),
            (score_robustness.FLOORS, score_robustness.DEFAULT_EPS),
        )
    )
    for name, grid, cut in zip(score_robustness.WORDINGS, chosen["grid"], chosen["cut"], strict=True):
        wording, before = name.removeprefix("binding-"), grid[home, eps].astype(float)
        for tau in (home - 1, home + 1):
            where = f"{wording}, {score_robustness.TAUS[tau]:.0e}"
            yield from _compare("another temperature", where, before, grid[tau, eps].astype(float))
        for kind in CUTS:
            other = cut[score_robustness.CUTS.index(kind)].astype(float)
            yield from _compare("another length of blocks", f"{wording}, {kind}", cut[0].astype(float), other)


def _compare(choice: str, where: str, one: np.ndarray, other: np.ndarray) -> Iterator[Yielded]:
    """Yield how far heads move with a choice, and how well they keep their order."""
    yield f"move with {choice}", where, moved(one, other)
    yield f"order with {choice}", where, kept_order(one, other)


def _beyond_draws(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Estimate:
    """Return how far heads of the first pair move less the most of the others, which are of random weights."""
    trained, *drawn = (moved(*pair) for pair in pairs)
    return BesideRandomWeights(found=trained, drawn=tuple(each.value for each in drawn)).less_most


def _load_weights(look: Look, wording: str, facts: int) -> list[Result]:
    """Return results of the trained model and of every draw of random weights on one kind of prompt."""
    trained = look.load(RandomWeights(model=look.model, weights="trained", wording=wording, facts=facts))
    drawn = random_weight_results(wording, facts, look.folder, model=look.model)
    look.record(*drawn)
    return [trained, *drawn]


def mean_scores(result: Result, weighting: int = 0, prompts: slice = slice(None)) -> np.ndarray:
    """Both scores, means over some prompts, ``[score, layer, head]``."""
    return np.stack([result[name][weighting, prompts].astype(float).mean(0) for name in SCORES.values()])


def moved(one: np.ndarray, other: np.ndarray) -> Estimate:
    """How far apart two measurements ``[score, layer, head]`` are, mean over heads and scores; over layers."""
    apart = np.abs(one - other).mean(0)[None]
    return statistic_interval(lambda x: x.mean((1, 2, 3)), apart, draws=RESAMPLES, vectorized=True)


def kept_order(one: np.ndarray, other: np.ndarray) -> Estimate:
    """Rank correlation over heads of s_SYM - s_POS in two measurements ``[score, layer, head]``."""
    lean, again = (np.diff(x, axis=0) for x in (one, other))
    return correlate_heads(lean, again, draws=RESAMPLES, by_rank=True)

"""What scores hang on beside the model: choices of the measurer (U25-12), and what a layer trend could be instead.

The trend is looked at in medians over heads by thirds of the layers, on prompts of one wording and 16 facts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, Tally
from posym_companion.language_models import score_robustness
from posym_companion.language_models.judges.binding_planes import GAP
from posym_companion.language_models.judges.origins import ATTENDS, by_thirds
from posym_companion.language_models.judges.random_weights import BesideRandomWeights, random_weight_results
from posym_companion.language_models.layer_doubts import LayerDoubts
from posym_companion.language_models.origins import LEAD, WORDINGS
from posym_companion.language_models.random_weights import FACTS, TAUS, RandomWeights
from posym_companion.results import Result, load_result
from posym_core.metrics import Estimate, head_correlation, statistic_interval
from posym_profile.language_models import PACKAGED

SCORES = {"s_POS": "positional", "s_SYM": "symbolic"}
ALIKE = list(TAUS).index("equal")
Thirds = list[float]
SHOWN_IN = "book/language_model/score_trust.ipynb"
RESAMPLES = 2000
# Heads whose rank correlation is below this are in another order.
SAME_ORDER = 0.9
CUTS = ("single tokens", "two tokens a block", "two facts a block")


def thirds_by_doubt(model: str = PACKAGED, folder: Path | None = None) -> dict[str, dict[str, Thirds]]:
    """Both scores by thirds of the layers, by what is done; and, under ``"attention"``, that to all facts together.

    A third in which no head is left is NaN.

    Raises:
        MissingResultError: if a result is not there.
    """
    setting = LayerDoubts(model=model)
    own = load_result(setting.name, folder=folder)
    mass = own["mass"].astype(float)
    attends = mass[0].mean(0) > ATTENDS
    rows = {
        "as they come": (0, 0, True),
        "heads with a tenth of their attention on facts": (0, 0, attends),
        "all pairs of facts weighed alike": (0, ALIKE, True),
        "without the mark of beginning": (1, 0, True),
        f"behind {LEAD} facts of the same frame": (2, 0, True),
    }
    found = {"attention": {"attention": by_thirds(mass[0])}}
    for what, (kind, weighting, heads) in rows.items():
        scores = {name: own[array][kind, weighting].astype(float) for name, array in SCORES.items()}
        found[what] = {name: by_thirds(np.where(heads, x, np.nan)) for name, x in scores.items()}
    for draw, result in enumerate(random_weight_results(WORDINGS[0], setting.facts, folder, model=model), 1):
        scores = {name: result[array][0].astype(float) for name, array in SCORES.items()}
        found[f"random weights, draw {draw}"] = {name: by_thirds(x) for name, x in scores.items()}
    return found


def choices_move_scores(folder: Path | None, model: str = PACKAGED) -> Measured:
    """U25-12: by how much heads move, and change their order, with temperature, number and length of blocks."""
    tally, born, stored = Tally(), Tally(), []

    def add(choice: str, where: str, one: np.ndarray, other: np.ndarray) -> None:
        for number, found, part in (
            ("move", moved(one, other), f"moves heads by more than {GAP}"),
            ("order", kept_order(one, other), f"correlates with the first by less than {SAME_ORDER}"),
        ):
            holds = found.low > GAP if number == "move" else found.high < SAME_ORDER
            said = f"{number} with another {choice}"
            tally.add(said, where, found, {f"another {choice} {part}": holds}, f"{said} ({where}): {found}")

    def beside(choice: str, where: str, pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
        own, *drawn = (moved(*pair) for pair in pairs)
        birth = BesideRandomWeights(found=own, drawn=tuple(each.value for each in drawn))
        said = f"move with {choice}"
        holds = {"heads move more than in every draw of random weights": birth.above}
        born.add(said, where, own, holds, f"{said} ({where}): {birth}")
        born.numbers.update({f"{said} ({where}, random weights {n})": x for n, x in enumerate(birth.drawn)})

    halves = Tally()
    for wording in WORDINGS:
        runs = {facts: of_weights(folder, model, wording, facts) for facts in FACTS}
        for facts, results in runs.items():
            where = f"{wording}, {facts} facts"
            beside("all pairs weighed alike", where, [(mean_scores(x), mean_scores(x, ALIKE)) for x in results])
            half = [mean_scores(results[0], prompts=slice(first, None, 2)) for first in range(2)]
            apart, order = moved(*half), kept_order(*half)
            neither = {"two halves": apart.high < GAP and order.low > SAME_ORDER}
            halves.add("move with other prompts", where, apart, neither, f"move with other prompts ({where}): {apart}")
            halves.numbers[f"order with other prompts ({where})"] = order
        few, many = ([mean_scores(x) for x in runs[facts]] for facts in FACTS)
        add("number of blocks", wording, few[0], many[0])
        beside("another number of blocks", wording, [*zip(few, many, strict=True)])
        stored += [result.name for results in runs.values() for result in results]
    chosen = load_result(score_robustness.full_size(model)[0].name, folder=folder)
    home, eps = (
        each.index(default)
        for each, default in (
            (score_robustness.TAUS, score_robustness.DEFAULT_TAU),
            (score_robustness.FLOORS, score_robustness.DEFAULT_EPS),
        )
    )
    for name, grid, cut in zip(score_robustness.WORDINGS, chosen["grid"], chosen["cut"], strict=True):
        wording = name.removeprefix("binding-")
        for tau in (home - 1, home + 1):
            where = f"{wording}, {score_robustness.TAUS[tau]:.0e}"
            add("temperature", where, grid[home, eps].astype(float), grid[tau, eps].astype(float))
        for kind in CUTS:
            other = cut[score_robustness.CUTS.index(kind)].astype(float)
            add("length of blocks", f"{wording}, {kind}", cut[0].astype(float), other)
    kinds = "kinds of prompt of which {} move heads by less than 0.1 and keep their order"
    ours: dict[str, Number] = {
        **tally.counts("cases in which {}"),
        **halves.counts(kinds),
        **born.counts("cases in which {}"),
        **tally.numbers,
        **halves.numbers,
        **born.numbers,
    }
    return Measured(
        ours=ours,
        model=model,
        evidence=[chosen.name, *stored, SHOWN_IN],
        fails_in=[*tally.missed, *halves.missed, *born.missed],
        note="Means over prompts; a move is the mean over heads and both scores of how far a score lies from where it "
        "was. Shorter blocks of the same facts are more blocks, and 64 facts are a longer prompt.",
    )


def of_weights(folder: Path | None, model: str, wording: str, facts: int) -> list[Result]:
    """Results of the trained model and of every draw of random weights on one kind of prompt."""
    trained = RandomWeights(model=model, weights="trained", wording=wording, facts=facts)
    return [load_result(trained.name, folder=folder), *random_weight_results(wording, facts, folder, model=model)]


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
    return head_correlation(lean, again, draws=RESAMPLES).spearman

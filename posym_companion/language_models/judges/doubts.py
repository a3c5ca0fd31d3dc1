"""What a trend of scores over layers could be instead: doubts that come before belief, of one model at a time.

Heads that give the blocks next to no attention, the weights of the pairs of blocks, the mark of beginning, what stands
in front, and the architecture alone could each make it. Medians over heads by thirds of the layers, prompts of one
wording and 16 facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from posym_companion.language_models.judges.origins import attending, by_thirds, origins_result
from posym_companion.language_models.judges.random_weights import drawn_results
from posym_companion.language_models.origins import FACTS, LEAD, WORDINGS
from posym_companion.language_models.random_weights import TAUS, RandomWeights
from posym_core.models.language import PACKAGED
from posym_core.runs.results import Result, load_result

SCORES = {"s_POS": "positional", "s_SYM": "symbolic"}
Thirds = list[float]


def layer_doubts(
    model: str = PACKAGED, wording: str = WORDINGS[0], folder: Path | None = None
) -> dict[str, dict[str, Thirds]]:
    """Both scores by thirds of the layers, by what is done; and, under ``"attention"``, that to all facts together.

    Raises:
        MissingResultError: if a result is not there.
    """
    plain, unmarked, behind = (
        origins_result(folder, model=model, wording=wording, **kind)
        for kind in ({}, {"beginning": False}, {"lead": LEAD})
    )
    trained = load_result(RandomWeights(model=model, weights="trained", wording=wording).name, folder=folder)
    found = {
        "attention": {"attention": by_thirds(plain["mass"].astype(float))},
        "as they come": scores_by_thirds(plain),
        "heads with a tenth of their attention on facts": {
            name: by_thirds(attending(plain[array].astype(float), plain)) for name, array in SCORES.items()
        },
        "all pairs of facts weighed alike": weighted(trained, "equal"),
        "without the mark of beginning": scores_by_thirds(unmarked),
        f"behind {LEAD} facts of the same frame": scores_by_thirds(behind),
    }
    for draw, result in enumerate(drawn_results(wording, FACTS, folder, model=model), 1):
        found[f"random weights, draw {draw}"] = weighted(result, "1e-4")
    return found


def scores_by_thirds(scores: Mapping[str, np.ndarray] | Result) -> dict[str, Thirds]:
    """Medians over heads of ``positional`` and ``symbolic``, ``[prompt, layer, head]``, in each third of the layers."""
    return {name: by_thirds(scores[array].astype(float)) for name, array in SCORES.items()}


def weighted(result: Result, tau: str) -> dict[str, Thirds]:
    """The same of scores at one of the weightings of :mod:`posym_companion.language_models.random_weights`."""
    place = list(TAUS).index(tau)
    return scores_by_thirds({array: result[array][place] for array in SCORES.values()})

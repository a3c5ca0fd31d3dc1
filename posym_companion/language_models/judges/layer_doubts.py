"""What a trend of scores over layers could be instead: doubts that come before belief, of one model at a time.

Medians over heads by thirds of the layers, prompts of one wording and 16 facts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.language_models.judges.origins import ATTENDS, by_thirds
from posym_companion.language_models.judges.random_weights import drawn_results
from posym_companion.language_models.layer_doubts import LayerDoubts
from posym_companion.language_models.origins import LEAD, WORDINGS
from posym_companion.language_models.random_weights import TAUS
from posym_core.models.language import PACKAGED
from posym_core.runs.results import load_result

SCORES = {"s_POS": "positional", "s_SYM": "symbolic"}
ALIKE = list(TAUS).index("equal")
Thirds = list[float]


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
    for draw, result in enumerate(drawn_results(WORDINGS[0], setting.facts, folder, model=model), 1):
        scores = {name: result[array][0].astype(float) for name, array in SCORES.items()}
        found[f"random weights, draw {draw}"] = {name: by_thirds(x) for name, x in scores.items()}
    return found

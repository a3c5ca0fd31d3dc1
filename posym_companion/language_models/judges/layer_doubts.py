"""What a layer trend could be instead: medians over heads by thirds of the layers, on prompts of one wording."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.language_models.judges.origins import ATTENDS, by_thirds
from posym_companion.language_models.judges.random_weights import random_weight_results
from posym_companion.language_models.layer_doubts import LayerDoubts
from posym_companion.language_models.origins import LEAD, WORDINGS
from posym_companion.language_models.random_weights import TAUS
from posym_companion.results import load_result
from posym_profile.language_models import PACKAGED

SCORES = {"s_POS": "positional", "s_SYM": "symbolic"}
ALIKE = list(TAUS).index("equal")
Thirds = list[float]


def thirds_by_doubt(model: str = PACKAGED, folder: Path | None = None) -> dict[str, dict[str, Thirds]]:
    """Return both scores and, under ``"attention"``, that to all facts, by thirds of the layers and by what is done.

    A third in which no head is left is NaN.
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

"""Figures of *What came after*."""

from __future__ import annotations

from typing import Any

import numpy as np

from posym_companion.figures import shown
from posym_companion.results import load_result
from posym_figures import Bars, Lines, Slider, slider_figure


@shown
def recall() -> Any:
    """Right answers without some planes of the heads that carry the answer."""
    groups = {"none": ["none"], "all": ["all planes"], "slow 1/8": ["slowest 0.125"], "slow 1/4": ["slowest 0.25"],
              "slow 1/2": ["slowest 0.5"], "fast 1/4": ["fastest 0.25"], "unrotated": ["slowest 0.25 stopped"],
              "random": ["random 0.25, 0", "random 0.25, 1"],
              "others": ["other heads, slowest 0.25, 0", "other heads, slowest 0.25, 1"]}  # fmt: skip
    heights = {}
    for family, name in {"Gemma": "retrieval", "SmolLM2": "retrieval_smollm2-135m-binds"}.items():
        run = load_result(f"later_claims/{name}")
        right = dict(zip(run["conditions"].tolist(), run["correct"].astype(float).mean(1), strict=True))
        heights[family] = [np.mean([right[name] for name in some]) for some in groups.values()]
    bars = Bars("Recall", list(groups), np.array([*heights.values()]), y_limits=(0, 1), wide=True, aspect=2.4,
                colours=("grey",))  # fmt: skip
    return slider_figure(
        [bars],
        [Slider("family", "Model, taught to bind", [*heights])],
        caption="A bar is the share of right answers when planes of the heads that carry the answer are ablated. In "
        "the bar named unrotated only the frequencies of the slowest quarter are zero.",
        alt="Bars of the share of right answers, one for each set of planes taken out of the heads that carry the "
        "answer.",
    )


def over_middle(logs: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the mean of profiles ``[..., position]`` at common places, above the central quarter."""
    logs = logs.reshape(-1, logs.shape[-1])
    mean = logs[np.isfinite(logs).all(1)].mean(0)
    n = len(mean)
    return np.interp(places, np.linspace(0, 1, n), mean - mean[n // 2 - n // 8 : n // 2 + n // 8].mean())


@shown
def influence() -> Any:
    """Influence of each token on the last state, before and after training."""
    places, names = np.linspace(0, 1, 65), {"Gemma": "influence", "SmolLM2": "influence_smollm2-135m"}
    runs = [load_result(f"later_claims/{name}") for name in names.values()]
    ways = [[run["rotated"][-1], run["unrotated"][-1], run["trained"]] for run in runs]
    curves = np.array([[over_middle(np.log(way.astype(float)), places) for way in three] for three in ways])
    lines = Lines("Influence on the last state", places, curves, series=("random", "no angles", "trained"),
                  x_label="place, first to last token", wide=True, aspect=2.2)  # fmt: skip
    return slider_figure(
        [lines],
        [Slider("model", "Model", [*names])],
        caption="The curves are logarithms above the middle. Before training the first tokens and the last one are "
        "most influential, with rotation or without.",
        alt="Three curves over the place of a token: the two untrained ones fall from the beginning and jump at the "
        "last token, and the trained one rises towards the end.",
    )

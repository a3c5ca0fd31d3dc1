"""Figures of *Does one head hold the positions?*"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posym_companion.figures import shown
from posym_companion.results import Result, load_result
from posym_core.encodings import LABELS
from posym_figures import Choice, Heatmap, Lines, Points, Readout, Slider, slider_figure


@shown
def one_plane(n: int = 60, longest: int = 35) -> Any:
    """Attention from one trigger to the other over their distance, by one plane."""
    apart, angles = np.arange(1, longest + 1), np.geomspace(1, 0.01, 25)

    def read(angle: float, size: float) -> tuple[Any, ...]:
        weight = np.exp(size * np.cos(angle * apart))
        attention = weight / (weight + n - 1)
        steps = np.diff(attention)
        falls = "yes" if (steps < 0).all() else "no"
        return {"frames": attention, "marker": min(np.pi / angle, longest)}, [falls, abs(steps).min()]

    step = "smallest step between neighbours"
    curve = Lines("Attention to the other trigger", apart, series=("one plane",), x_label="distance d",
                  y_limits=(0, 1), marker_label="half a turn", wide=True)  # fmt: skip
    table = Readout(["every distance its own attention", step], title="Can it be read off?", format={step: ".1e"})
    return slider_figure(
        [curve, table],
        [Slider("angle", "Angle θ, fast to slow", angles, start=0.1, format=".3f"),
         Slider("size", "Query a", np.array([1.0, 2, 4, 6, 8, 12]), start=6.0)],
        caption="The curve is the attention from one trigger to the other in a sentence of sixty tokens, by one "
        "rotation plane. It falls up to the marker of half a turn and rises beyond it.",
        alt="A curve of attention over distance. It falls, and for fast angles it rises again beyond half a turn.",
        compute=read,
    )  # fmt: skip


@shown
def removals(models: Mapping[str, str], mine: Result) -> Any:
    """Return what each head of each stored model, and of the reader's, costs if it is removed."""
    runs = [*(load_result(f"encoding_study/{name}") for name in models.values()), mine]
    cost = np.stack([100 * (run["whole"][:, None, None] - run["ablated"])[:3] for run in runs])
    top, following = (np.sort(cost.reshape(*cost.shape[:2], -1))[..., -place] for place in (1, 2))
    accuracy = np.stack([run["whole"][:3] for run in runs])
    table = Heatmap("Points lost without a head", cost, x_label="head", y_label="layer", row_labels=["0", "1"],
                    column_labels=[*"01234567"], limits=(0, 100), colours="sequential", decimals=0,
                    wide=True)  # fmt: skip
    rows = {"accuracy with all heads": accuracy, "costliest head, points": top, "next, points": following}
    formats = dict(zip(rows, (".2f", ".0f", ".0f"), strict=True))
    return slider_figure(
        [table, Readout(rows, format=formats)],
        [Choice("model", "Model", [*models, "your run"]), Slider("seed", "Seed", [0, 1, 2])],
        caption="A cell is the points of accuracy lost without a head, by model and seed. Heads of different seeds "
        "are unrelated. Few models have a matrix with a single bright cell.",
        alt="A matrix of two layers and eight heads. With rotary heads on Distance several heads of the first layer "
        "are costly and the second layer is cheap. On Count most heads of the first layer are costly.",
    )


@shown
def two_tasks(accuracy: np.ndarray, names: Sequence[str]) -> Any:
    """Accuracy on both tasks, ``[way, task, encoding, seed]``, all else equal and as released."""
    dots = Points("Two tasks, five encodings", accuracy.transpose(0, 3, 2, 1), labels=[LABELS[name] for name in names],
                  x_limits=(0, 1.05), y_limits=(0.5, 1.0), x_label="accuracy on Distance",
                  y_label="accuracy on Count", equal_aspect=False, wide=True)  # fmt: skip
    return slider_figure(
        [dots],
        [Choice("setup", "Set-up", ["everything else equal", "as released"]), Slider("seed", "Seed", [0, 1, 2])],
        caption="Each dot is an encoding's accuracy on both tasks. As released, the five dots lie near a falling "
        "line. With everything else equal RoPE and MLA are high on both, and the line disappears.",
        alt="Five dots. With everything else equal RoPE and MLA are high on both tasks, and as released they are "
        "lower on Count.",
    )

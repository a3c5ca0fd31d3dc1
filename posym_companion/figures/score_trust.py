"""Figures of *How far can the scores be trusted?*"""

from __future__ import annotations

from typing import Any

import numpy as np

from posym_companion.figures import shown
from posym_companion.results import Result, load_result
from posym_figures import Lines, Points, Readout, Slider, slider_figure

TASKS = ("likes", "bought", "lives", "list", "keyvalue", "induction", "text")
TAUS, FLOORS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0), (0.0, 1e-12, 1e-8, 1e-4)
HEADS = [f"layer {layer}, head {head}" for layer in range(18) for head in range(4)]
SQUARE: dict[str, Any] = {"x_label": "s_POS", "y_label": "s_SYM", "x_limits": (0, 1.05), "y_limits": (0, 1.05)}
SQUARE |= {"diagonal": True, "labels": HEADS, "write_labels": False}


@shown
def tasks(pos: np.ndarray, sym: np.ndarray, mine: Result) -> Any:
    """Return every head on seven tasks, ``[task, head]``, and in a run; heads that change sides have a colour."""
    side = pos - sym
    turns = (side > 0.5).any(0) & (side < -0.5).any(0)
    settled = (side > 0).all(0) | (side < 0).all(0)
    yours = [mine[name].astype(float).mean(1).reshape(7, -1) for name in ("positional", "symbolic")]
    kinds: dict[str, Any] = {"groups": np.where(turns, 2, np.where(settled, 0, 1)), **SQUARE}
    kinds |= {"group_labels": ["one side on all tasks", "between", "changes sides by over 0.5"]}
    kinds |= {"colours": ["grey", "yellow", "purple"]}
    both = {"Heads, mean over prompts": [pos, sym], "The same heads in your run": yours}
    medians = {"median s_POS": np.median(pos, -1), "median s_SYM": np.median(sym, -1)}
    medians |= {"more positional heads": [str(int(x)) for x in (side > 0).sum(1)]}
    return slider_figure(
        [*(Points(title, np.stack(x, -1), **kinds) for title, x in both.items()), Readout(medians, format=".2f")],
        [Slider("task", "Task", TASKS)],
        caption="The points are the 72 heads of Gemma 3 270M on seven tasks. Purple heads are clearly positional "
        "(scores more than 0.5 apart) on one task and clearly symbolic on another, so they cross the square as the "
        "task changes.",
        alt="Scatter of heads by positional and symbolic score for seven tasks; many heads move from the lower right "
        "to the upper left as the task changes.",
    )


@shown
def constants() -> Any:
    """Return every head at the temperature and the floor that the reader sets, in three wordings."""
    run = load_result("score_robustness/gemma-3-270m_choices")
    grid = run["grid"].reshape(3, len(TAUS), len(FLOORS), 2, -1).swapaxes(-1, -2)
    r = run["grid_r"].swapaxes(1, 2)  # wording, floor, temperature, value and interval
    home = grid[:, [TAUS.index(1e-4)], [FLOORS.index(1e-8)]][:, :, None]
    readout = {"correlation r": run["grid_r"][..., 0], "largest move of a head": np.abs(grid - home).max((-1, -2))}
    lines = Lines(
        "Correlation of the scores",
        TAUS,
        r[..., 0],
        lower=r[..., 1],
        upper=r[..., 2],
        colours=["purple"],
        over=("wording", "eps"),
        x_log=True,
        x_label="τ",
        y_limits=(-1, 1),
    )
    shades = {"shades": np.repeat(np.arange(18), 4), "shade_label": "layer"}
    return slider_figure(
        [Points("Heads, mean over prompts", grid, **SQUARE, **shades), [lines, Readout(readout, format=".2f")]],
        [
            Slider("wording", "Wording", TASKS[:3]),
            Slider("tau", "Temperature τ", TAUS, start=1e-4, format=".0e"),
            Slider("eps", "Floor ε", FLOORS, start=1e-8, format="g"),
        ],
        caption="The panels show the 72 heads of Gemma 3 270M at the temperature and floor that you set, and the "
        "correlation of their scores, with a 95% band by bootstrap over prompts and layers. As the temperature rises, "
        "the points go to the upper right while the correlation stays negative.",
        alt="Scatter of heads by positional and symbolic score that drifts to the upper right as the temperature "
        "rises, and a curve of their correlation that weakens from strongly to moderately negative.",
    )

"""Figures of *Watching heads become pure*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from posym_companion.figures import Picture, shown
from posym_companion.results import Result
from posym_companion.several_hops.multihop import MultihopSettings
from posym_figures import Heatmap, Lines, Points, Readout, Slider, plots, slider_figure

GRID = np.unique(np.concatenate([np.arange(0, 1001, 500), np.arange(1000, 3501, 250), [4000, 5000, 6750]]))
NAMES = {"number": "Number", "letter": "Letter"}
Runs = Mapping[str, Result]


def at_grid(run: Result, values: np.ndarray) -> np.ndarray:
    """Return what was last measured at each step of the grid."""
    return values[np.searchsorted(run["checkpoint_step"], GRID, side="right") - 1]


def of_task(runs: Runs, task: str) -> dict[str, Result]:
    """Return the runs of one task."""
    return {name: run for name, run in runs.items() if name.startswith(task)}


@shown
def history(runs: Runs, lean: Mapping[str, np.ndarray]) -> Picture:
    """Symbolic minus positional score of every layer while models learn, mean over seeds."""
    drawing, axes = plt.subplots(1, 2, figsize=(9.2, 3.6), layout="constrained")
    ticks = [f"{step / 1000:g}" if step % 1000 == 0 else "" for step in GRID]
    for ax, (task, title) in zip(axes, NAMES.items(), strict=True):
        mean = np.mean([at_grid(run, lean[name]) for name, run in of_task(runs, task).items()], axis=0)
        plots.heatmap(
            mean.T,
            x_label="training step, thousands",
            y_label="layer",
            limits=(-1, 1),
            title=title,
            row_labels=[str(layer) for layer in range(12)],
            column_labels=ticks,
            ax=ax,
        )
    return Picture(
        drawing,
        caption="In Number all layers begin pale, with two nearly equal scores. Layers 1 to 3 become positional (blue) "
        "and the later ones symbolic (orange). In Letter the first layers become symbolic first, and the last ones are "
        "positional for a while. The colour is the symbolic minus the positional score of each layer’s head, averaged "
        "over stations and seeds. Columns are 250 steps apart from 1,000 to 3,500, more elsewhere.",
        alt="Two tables, layers by training steps, all pale at first. Number: the second layer turns deep blue and the "
        "later ones orange. Letter: the first layers turn orange, the last ones blue and then orange.",
    )


@shown
def becoming(runs: Runs, mine: Result) -> Picture:
    """Accuracy, shares of pure heads and entropy of attention over the steps of both tasks, and of a run."""

    def look(run: Result) -> np.ndarray:
        positional, symbolic = (np.nanmean(run[name], axis=(1, 2))[..., 0] for name in ("positional", "symbolic"))
        accuracy, entropy = run["accuracy"].mean(1), np.nanmean(run["entropy"], axis=(1, 2, 3, 4))
        P = ((positional > 0.9) & (symbolic < 0.1)).mean(1)
        S = ((symbolic > 0.9) & (positional < 0.1)).mean(1)
        return np.stack([accuracy, P, S, entropy], -1)

    panels = {
        title: (GRID, [at_grid(run, look(run)).T for run in of_task(runs, task).values()])
        for task, title in NAMES.items()
    } | {"Number, your run": (mine["checkpoint_step"], [look(mine).T])}
    drawing, axes = plt.subplots(1, 3, figsize=(11.4, 3.2), layout="constrained")
    for ax, (title, (steps, rows)) in zip(axes, panels.items(), strict=True):
        plots.curve(
            steps,
            np.mean(rows, axis=0),
            lower=np.min(rows, axis=0),
            upper=np.max(rows, axis=0),
            series=("accuracy", "positional", "symbolic", "entropy"),
            colours=("grey", "positional", "symbolic", "purple"),
            title=title,
            x_label="training step",
            y_limits=(0, 1.02),
            ax=ax,
        )
    return Picture(
        drawing,
        caption="In both tasks accuracy rises before the shares of pure positional and pure symbolic heads do. Entropy "
        "is the mean entropy of attention, which is 1 for even attention. Curves are means over seeds, shaded from the "
        "least to the largest; your run has steps of its own.",
        alt="Accuracy rises first. In Number symbolic heads end above one half and positional ones near a quarter; in "
        "Letter symbolic ones reach nearly one and there are no positional ones. Entropy falls. Your run is beside.",
    )


def follow_stations(run: Result, task: str) -> dict[str, np.ndarray]:
    """Return what one model does on its four-hop example, ``[step, station, ...]``."""
    path, tokens = run["example_path"][3], run["example_tokens"][3]
    names = MultihopSettings(task=task).make_task().token_names  # pyright: ignore[reportArgumentType]
    seen = at_grid(run, run["attention"])[:, 3, :, 0] / 255
    kept = [at_grid(run, run[name])[:, 3, ..., 0] for name in ("positional", "symbolic")]
    frames, asked = np.empty((len(GRID), 4, 12, 17)), np.zeros((len(GRID), 4, 12, 17))
    for station in range(4):
        frames[:, station] = seen[:, :, path[station]]
        asked[:, station, :, path[station + 1]] = 1
    words = [names[token].strip("()").replace(",", "") for token in tokens]
    return {"scores": np.stack(kept, 2), "weight": frames, "asked": asked, "words": np.array(words)}


@shown
def training(runs: Runs) -> Any:
    """One model of each task through its training, scored at each station."""
    first = [runs[f"{task} 0"] for task in NAMES]
    seen = [follow_stations(run, task) for run, task in zip(first, NAMES, strict=True)]
    scores, weight, asked = (np.stack([x[name] for x in seen]) for name in ("scores", "weight", "asked"))
    words = np.stack([np.broadcast_to(x["words"], (len(GRID), 4, 17)) for x in seen])
    looks = np.stack([np.repeat(run["look_accuracy"].T[None, :, ::2], len(GRID), 0) for run in first])
    mean = np.stack([np.repeat(at_grid(run, run["accuracy"]).mean(1)[:, None], 4, 1) for run in first])
    series: Any = {"series": ("positional", "symbolic"), "colours": ("positional", "symbolic")}
    sliders = [Slider("task", "Task", list(NAMES.values())), Slider("step", "Training step", GRID, start=0)]
    return slider_figure(
        [
            Lines("Accuracy by hops", first[0]["look_step"][::2], looks, over=("task", "step"), y_limits=(0, 1.05),
                  series=["1", "2", "3", "4"], colours=("grey", "sky", "purple", "yellow"), x_label="training step",
                  marker=np.tile(GRID, (2, 1))),
            Lines("Scores of the layers", np.arange(12), scores, y_limits=(-0.05, 1.05), x_label="layer", dots=True,
                  **series),
            Points("Plane of scores", scores.swapaxes(-1, -2), shades=np.arange(12), shade_label="layer",
                   labels=[f"layer {layer}" for layer in range(12)], write_labels=False, x_label="positional score",
                   y_label="symbolic score", x_limits=(-0.05, 1.05), y_limits=(-0.05, 1.05), diagonal=True),
            Readout({"mean accuracy": mean}, title="At this checkpoint", format=".2f"),
            Heatmap("Attention of the station", np.round(weight, 2), column_labels=words, row_labels=range(12),
                    colours="sequential", limits=(0, 1), outlined=asked, wide=True, aspect=2.1,
                    x_label="token (a pair like (b,6) is written b6)", y_label="layer"),
        ],
        [*sliders, Slider("station", "Station", ["query", "first", "second", "third"])],
        caption="While the step grows, the points leave the even corner as accuracy rises, and attention moves to the "
        "framed column, the next station. Scores are means over sequences of four hops. Pure heads have one score "
        "above 0.9 and the other below 0.1.",
        alt="Curves of accuracy with a moving line, scores of twelve layers, points in the plane of scores, and a "
        "table of attention by layer and token that sharpens on the framed column as training goes on.",
        digits=3,
    )  # fmt: skip

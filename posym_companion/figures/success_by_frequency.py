"""Figures of the chapter *Success by frequency*."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from posym_companion.figures import Picture, shown
from posym_companion.one_head import training_figure
from posym_companion.results import Result, load_result
from posym_companion.score_statistics import student_interval
from posym_companion.theory import PlanarRetrievalHead, PositionalIndexHead, find_positional_beta, is_right
from posym_core.tasks import IndexTask, RetrievalTask
from posym_figures import Guess, Lines, Points, Readout, Slider, plots, slider_figure

SINGLE = {"Index (absolute)": "index_single", "Retrieval": "retrieval_single"}
ONE, PAIR = {"induction, one angle": "induction_single"}, {"induction, 0 and θ": "induction_pair"}
ANGLE = "angle θ in radians per position, fast to slow"
COLOURS = ("positional", "symbolic", "grey", "purple")


def by_place(cell: str) -> np.ndarray:
    """Return the accuracy by the answer's position, ``[seed, angle, position]``; NaN where no answer stands."""
    run = load_result("frequency_control/full")
    asked = run[f"{cell}/asked"].astype(float)[:, None]
    return np.where(asked > 0, run[f"{cell}/hits"] / np.maximum(asked, 1), np.nan)


def accuracy(cell: str, run: Result | None = None) -> np.ndarray:
    """Return the accuracy over all inputs of the stored run, or of another, ``[seed, angle]``."""
    run = run or load_result("frequency_control/full")
    return run[f"{cell}/hits"].sum(-1) / run[f"{cell}/asked"].sum(-1)[:, None]


def find_stored_runs(kinds: list[tuple[str, str]]) -> dict[str, Any]:
    """Return what a trainer is given of the grid: runs of tasks with single planes or pairs, and how they were made."""
    run = load_result("frequency_control/full")
    stored = [
        training_figure.StoredRuns(
            task, length, angles=run["angles"], accuracy=accuracy(cell := f"{task}_{kind}_{length}"),
            by_position=by_place(cell), fixed=0.0 if kind == "pair" else None)
        for length in run.settings["lengths"] for task, kind in kinds
    ]  # fmt: skip
    made = {name: run.settings[name] for name in ("training", "attributes", "repetition", "test_inputs")}
    return {"stored": stored, **made}


@shown
def trainer():
    """Return a head that learns in the reader's browser, before the stored runs of the grid."""
    kinds = [("index", "single"), ("retrieval", "single"), ("induction", "single"), ("induction", "pair")]
    return training_figure.trainer(
        **find_stored_runs(kinds),
        caption="The line shows the mean of the stored runs of this chapter for the same task, length and number of "
        "planes, and the band reaches from their lowest to their highest seed. Your dot shows your own run. The dotted "
        "line marks the angle that is set, and dashed curves show your previous run.",
        alt="Controls for task, angles, positions and seed. Below are accuracy by angle with stored runs, the loss, "
        "accuracy by position of the answer, attention for three targets, and keys and queries in the plane.",
    )


@shown
def one_angle_two_tasks():
    """Return an Index head and a Retrieval head with the same angle, built from their formulas."""
    most, kinds = 64, ((IndexTask, PositionalIndexHead), (RetrievalTask, PlanarRetrievalHead))
    tasks = {n: [IndexTask(length=n), RetrievalTask(length=n, symbols=n)] for n in (16, 32, 64)}
    drawn = {n: [task.sample(512, torch.Generator().manual_seed(0)) for task in pair] for n, pair in tasks.items()}

    def measure(theta, length, beta):
        n = round(length)
        bells, places, totals = np.full((3, most), np.nan), np.full((2, most), np.nan), []
        target = np.array([0, n // 2, n - 1])[:, None]
        bells[:, :n] = torch.tensor(beta * np.cos((target - np.arange(n)) * theta)).softmax(-1)
        for row, (_, build) in enumerate(kinds):
            batch = drawn[n][row]
            right = is_right(build(tasks[n][row], angle=theta, beta=beta), batch).double()
            asked, hits = (np.bincount(batch.position, weights=w, minlength=n) for w in (None, right))
            places[row, :n] = np.divide(hits, asked, out=np.full(n, np.nan), where=asked > 0)
            totals.append(right.mean())
        return bells, places, [*totals, find_positional_beta(n, theta)]

    said = ["Index (absolute), accuracy", "Retrieval, accuracy", "norm that Index needs for every input"]
    guess = "Both heads have one plane of 0.1 radians a position, 32 positions and norm 80. Drag the bars to their "
    return slider_figure(
        [Lines("Index (absolute): attention to three targets", np.arange(most), y_limits=(0, 1), wide=True,
               series=("first", "middle", "last"), colours=("sky", "positional", "grey"), aspect=3,
               x_label="position", y_label="attention"),
         Lines("Accuracy by position of the answer", np.arange(most), y_limits=(0, 1.02), wide=True,
               series=tuple(SINGLE), colours=COLOURS[:2], aspect=3,
               x_label="position of the answer", y_label="accuracy"),
         Readout(said, title="Measured on random inputs", format={said[2]: ".0f"})],
        [Slider("theta", "Angle θ", np.geomspace(1, 0.001, 10), start=0.1, format=".3f"),
         Slider("length", "Length n", tuple(tasks), start=32),
         Slider("beta", "Norm β", [10.0, 80.0, 640.0, 5000.0], start=80.0, format=".0f")],
        caption="As the angle falls at a moderate norm, Index fails before Retrieval works. Accuracy is measured on "
        "512 random inputs. Index has 32 symbols. Retrieval has one for each position, and all lie in one plane.",
        alt="Bells of attention that widen as the angle falls, and two curves of accuracy by position.",
        compute=measure, digits=3,
        guess=Guess(guess + "accuracies.", [float(x) for x in measure(0.1, 32, 80.0)[2][:2]], bars=tuple(SINGLE)),
    )  # fmt: skip


@shown
def accuracy_by_angle(mine: Result):
    """Accuracy of four kinds of toys over the angle, stored and in the reader's run."""
    angles, cells = load_result("frequency_control/full")["angles"], SINGLE | ONE | PAIR
    known = [student_interval(accuracy(f"{cell}_32"), least=0, most=1) for cell in cells.values()]
    value, low, high = (np.stack([getattr(one, part) for one in known]) for part in ("value", "low", "high"))
    figure = plots.curve(
        angles, value, lower=low, upper=high, series=tuple(cells), colours=COLOURS, x_log=True, x_label=ANGLE,
        y_label="accuracy", y_limits=(0, 1.02),
    )  # fmt: skip
    for line, cell in zip(figure.axes[0].lines, cells.values(), strict=True):
        yours = accuracy(f"{cell}_32", mine).mean(0)
        figure.axes[0].plot(mine["angles"][mine["frequencies"] - 1], yours, "x", color=line.get_color())
    figure.axes[0].invert_xaxis()
    return Picture(
        figure,
        caption="From fast planes on the left to slow ones on the right, Index is solved first and Retrieval last, and "
        "Partial induction in between, but only with two angles. The curves show the accuracy at 32 positions, as a "
        "mean over seeds with its 95% interval from Student's distribution, and the crosses are your run.",
        alt="Accuracy against the angle for four tasks: Index is high at large angles, Retrieval at small ones, "
        "Partial induction with one angle has a low hump, with two angles a high plateau in the middle.",
    )


@shown
def accuracy_by_place():
    """Accuracy of Index by angle and by the position of the answer."""
    angles = load_result("frequency_control/full")["angles"]
    figure = plots.heatmap(
        by_place("index_single_32").mean(0), colours="sequential", limits=(0, 1), x_label="position of the answer",
        y_label="angle θ, fast above", row_labels=[f"{angle:.2g}" for angle in angles],
        column_labels=[str(k) for k in range(32)],
    )  # fmt: skip
    figure.set_size_inches(7, 4.6)
    figure.axes[0].set_aspect("auto")
    return Picture(
        figure,
        caption="Just below the bright region only the two ends survive. At its border, at 0.056 rad, the positions "
        "beside the ends are the darkest. The two dark cells near the top are explained below. The map shows the "
        "accuracy of Index at 32 positions, as a mean over seeds.",
        alt="Rows of angle, columns of position: Index is bright above a boundary and dark below it.",
    )


@shown
def scores_by_angle():
    """Accuracy by angle, and the scores of each seed at one angle."""
    run, single = load_result("frequency_control/full"), SINGLE | ONE
    scores = np.concatenate([run[f"{cell}_32/scores"][..., :2].swapaxes(0, 1) for cell in single.values()], axis=1)
    seeds = scores.shape[1] // 3
    return slider_figure(
        [Lines("Accuracy", np.arange(1, 33), np.stack([accuracy(f"{cell}_32").mean(0) for cell in single.values()]),
               over=(), series=tuple(single), colours=COLOURS[:3], x_label="frequency ID (fast to slow)",
               y_limits=(0, 1.02)),
         Points("Scores of every seed", scores, groups=np.repeat(np.arange(3), seeds), group_labels=tuple(single),
                colours=COLOURS[:3], labels=[f"{name}, seed {k}" for name in single for k in range(seeds)],
                write_labels=False, diagonal=True, x_label="positional score", y_label="symbolic score",
                x_limits=(-0.05, 1.05), y_limits=(-0.05, 1.05))],
        [Slider("theta", "Angle θ", run["angles"], start=0.0237, format=".4f")],
        caption="At angles where a task's accuracy is high, its points lie in a corner. Heads that solve Index are "
        "positional (lower right) and heads that solve Retrieval are symbolic (upper left). All heads have one angle "
        "and were trained at 32 positions.",
        alt="Points of three tasks in the plane of scores; they sit in opposite corners where their task is solved.",
    )  # fmt: skip


@shown
def rescaled_angles():
    """Accuracy at three lengths over the angle times a power of the length."""
    angles, cells, lengths = load_result("frequency_control/full")["angles"], SINGLE | PAIR, (16, 32, 64)
    axis = np.geomspace(angles[-1] / 2, angles[0] * 2, 120)

    def rescale(exponent):
        frames = []
        for cell in cells.values():
            curves = [accuracy(f"{cell}_{n}").mean(0)[::-1] for n in lengths]
            places = [np.log(angles[::-1] * (n / 32) ** exponent) for n in lengths]
            pairs = zip(places, curves, strict=True)
            frames.append([np.interp(np.log(axis), x, y, left=np.nan, right=np.nan)[::-1] for x, y in pairs])
        return frames

    return slider_figure(
        [Lines(name, 1 / axis[::-1], series=[f"n = {n}" for n in lengths], y_limits=(0, 1.02), x_log=True,
               colours=("sky", "purple", "yellow"), x_label="1 / θ (n/32)ᵃ, fast to slow", y_label="accuracy")
         for name in cells],
        [Slider("exponent", "Exponent a", np.round(np.arange(0, 2.51, 0.25), 2), start=0.0, format=".2f")],
        caption="Near the right exponent the three curves of a task nearly coincide, though Retrieval ends lower at 64 "
        "positions. The predicted exponents are 0 for Index, 2 for Retrieval and 1 for the pair.",
        alt="Three panels with three curves each, which shift against each other as the exponent grows.",
        compute=rescale,
    )  # fmt: skip

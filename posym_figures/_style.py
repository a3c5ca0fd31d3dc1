"""The look that all plots share, and the parts that they are drawn from.

Plots have no ground of their own, so that they stand on light and on dark pages alike: text and lines have colours that
differ enough from both, and what is pale on white is transparent instead. Colours can be told apart by colour-blind
readers; blue stands for position and orange for symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise
from typing import Any, NamedTuple, ParamSpec

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import Colormap, ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from posym_figures._frames import UNDEFINED, find_limits, read_limits

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#3a98cf", "#c08400", "#8c959f")
"""Okabe and Ito's colours in the order of ``COLOURS``, the lightest ones darkened."""

INK, EDGE = "#6e7782", "#8c959f"
GRID = VOID = EDGE + "40"
WIDTH = 7.4
"""Inches: the width of the book's column at 100 dots an inch."""
SMALL = 8.5

STYLE: Any = {
    "figure.facecolor": "none",
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "axes.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": EDGE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": EDGE,
    "ytick.color": EDGE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "hatch.color": EDGE,
    "hatch.linewidth": 0.8,
}
UNKNOWN: Any = {"facecolor": VOID, "edgecolor": EDGE, "hatch": "////", "linewidth": 0}
DASHED: Any = {"color": INK, "linewidth": 1, "linestyle": (0, (3, 3))}

Drawing = ParamSpec("Drawing")


def _diverging() -> Colormap:
    # Clear in the middle: 0 has the colour of the page.
    low, high = to_rgb(PALETTE[0]), to_rgb(PALETTE[1])
    return ListedColormap([(*(low if at < 0 else high), abs(at)) for at in np.linspace(-1, 1, 255)], "blue_orange")


COLOUR_MAPS: dict[str, Colormap] = {"diverging": _diverging(), "sequential": matplotlib.colormaps["viridis"]}


def apply_style(draw: Callable[Drawing, Figure]) -> Callable[Drawing, Figure]:
    """Let ``draw`` draw in the style of all plots, and leave it as it was; the figure shows once in a notebook."""

    @wraps(draw)
    def styled(*args: Drawing.args, **options: Drawing.kwargs) -> Figure:
        before = set(plt.get_fignums())
        try:
            with matplotlib.rc_context(STYLE):
                return draw(*args, **options)
        finally:
            # Made by pyplot so that notebooks show it; closed so that they show it once, and never half drawn.
            for number in set(plt.get_fignums()) - before:
                plt.close(number)

    return styled


class Series(NamedTuple):
    """One row of a plot's values, with the ends of its interval where it has one."""

    values: np.ndarray
    name: str
    colour: str
    ends: tuple[np.ndarray, np.ndarray] | None


def get_figure(ax: Axes) -> Figure:
    """Return the figure that an axes stands in."""
    figure = ax.figure
    return figure if isinstance(figure, Figure) else figure.figure


def draw_scale_bar(ax: Axes, shown: Any, label: str = "", *, whole: bool = False, **look: Any) -> None:
    """Draw the scale of a drawing's colours beside it."""
    bar = get_figure(ax).colorbar(shown, ax=ax, **{"shrink": 0.85, "pad": 0.03, **look})
    if whole:
        bar.locator = MaxNLocator(integer=True)
        bar.update_ticks()
    bar.set_label(label, color=INK)
    bar.outline.set_visible(False)


def draw_cells(
    ax: Axes,
    matrix: np.ndarray,
    colours: str,
    limits: tuple[float, float] | None,
    decimals: int | None,
    x_label: str,
    y_label: str,
) -> Any:
    """Draw a matrix as coloured cells, those that are undefined hatched; return the image."""
    low, high = read_limits("limits", limits or find_limits([matrix], symmetric=colours == "diverging", margin=0))
    rows, columns = matrix.shape
    if unknown := [Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in np.argwhere(np.isnan(matrix))]:
        ax.add_collection(PatchCollection(unknown, **UNKNOWN))
        say_undefined(ax, len(unknown), "cell")
    if decimals is not None:
        # Numbers need a ground that is the same on every page.
        ax.add_patch(Rectangle((-0.5, -0.5), columns, rows, facecolor="white", zorder=-2))
    image = ax.imshow(matrix, cmap=COLOUR_MAPS[colours], vmin=low, vmax=high, interpolation="nearest")
    if decimals is not None:
        for (row, column), value in np.ndenumerate(matrix):
            *colour, alpha = image.cmap(image.norm(value))
            dark = not np.isnan(value) and 1 - alpha * (1 - np.dot(colour, (0.299, 0.587, 0.114))) < 0.44
            text = "?" if np.isnan(value) else f"{value:.{decimals}f}".replace("-", "−")
            ax.text(column, row, text, ha="center", va="center", color="white" if dark else "#24292f")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set(xlabel=x_label, ylabel=y_label, xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    return image


def draw_tick_labels(ax: Axes, shape: Sequence[int], rows: Sequence[str] | None, columns: Sequence[str] | None) -> None:
    """Draw names of rows and columns, as many as there is room for; numbers from 0 where none are given."""
    for axis, labels, count, most in ((ax.yaxis, rows, shape[0], 18), (ax.xaxis, columns, shape[1], 16)):
        if labels is not None and len(labels) != count:
            raise ValueError(f"labels must be one for each of the {count} rows or columns; got {len(labels)}")
        names = [str(place) for place in range(count)] if labels is None else [str(label) for label in labels]
        stride = next(step for step in (1, 2, 4, 5, 8, 10, 16, 20, 50, 100, count) if count / step <= most)
        axis.set_ticks(range(0, count, stride), names[::stride])


def draw_line(ax: Axes, x: np.ndarray, one: Series, *, dots: bool = False) -> None:
    """Draw a curve with its interval as a band; the label of one without values says so."""
    label = f"{one.name} {UNDEFINED}".strip() if np.isnan(one.values).all() else one.name
    if one.ends is not None:
        ax.fill_between(x, *one.ends, color=one.colour, alpha=0.22, linewidth=0)
    ax.plot(x, one.values, color=one.colour, label=label, marker="o" if dots else None, markersize=4)


def label_ends(ax: Axes) -> None:
    """Label curves at their right ends instead of in a legend; labels that would touch are pushed apart."""
    named = [line for line in ax.lines if str(line.get_label()) and not str(line.get_label()).startswith("_")]
    if not named:
        return
    ax.autoscale_view()
    to_pixels, back = ax.transData, ax.transAxes.inverted()
    heights = []
    for line in named:
        y = np.asarray(line.get_ydata(), dtype=float)
        known = np.flatnonzero(~np.isnan(y))
        spot = to_pixels.transform((1.0, float(y[known[-1]]))) if len(known) else None
        heights.append(0.0 if spot is None else float(np.clip(back.transform(spot)[1], 0, 1)))
    gap = 13 / (ax.get_window_extent().height * 72 / get_figure(ax).dpi)
    order = np.argsort(heights)
    for before, after in pairwise(order):
        heights[after] = max(heights[after], heights[before] + gap)
    over = max(0.0, heights[order[-1]] - 1)
    for line, height in zip(named, heights, strict=True):
        draw_note(ax, str(line.get_label()), (1, height - over), (6, 0), va="center", color=line.get_color(),
             fontweight="bold")  # fmt: skip


def draw_note(ax: Axes, text: str, spot: tuple[float, float], shift: tuple[float, float], **look: Any) -> None:
    """Draw a text at a place in the axes, in fractions of it, moved by so many points."""
    ax.annotate(text, spot, **{"xycoords": "axes fraction", "xytext": shift, "textcoords": "offset points",
                               "color": INK, **look})  # fmt: skip


def draw_points(ax: Axes, x: np.ndarray, y: np.ndarray, layers: np.ndarray | None) -> None:
    """Draw heads as points, coloured by layer where layers are given."""
    paint: Any = {"color": PALETTE[0]} if layers is None else {"c": layers, "cmap": COLOUR_MAPS["sequential"]}
    points = ax.scatter(x, y, s=26, edgecolors=INK, linewidths=0.5, zorder=3, **paint)
    if layers is not None:
        draw_scale_bar(ax, points, "layer", whole=True)


def say_undefined(ax: Axes, count: int, what: str) -> None:
    """Say above the axes how many values are undefined."""
    if count:
        text = f"{count} {what}{'s' if count > 1 else ''} {UNDEFINED}"
        draw_note(ax, text, (1, 1), (0, 4), ha="right", va="bottom", fontsize=SMALL)

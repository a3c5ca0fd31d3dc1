"""The look that all plots share, and the parts that they are drawn from.

The look is set where a plot is drawn and nowhere else: an opaque white ground, so that it reads the same on dark pages,
colours that colour-blind readers can tell apart, blue for position and orange for symbol, and text that stays legible
at the width of the book.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import pairwise
from typing import Any, ParamSpec

import matplotlib
import matplotlib.pyplot as plt
import matplotlib.ticker
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from posym_core.figures.frames import UNDEFINED, as_array, as_pair, limits_of

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c959f")
"""Okabe and Ito's colours, in the order of :data:`posym_core.figures.frames.COLOURS`."""

INK, SOFT, GRID = "#24292f", "#59636e", "#e4e7eb"
WIDTH = 7.4
"""Inches: the width of the book's column at 100 dots an inch."""

STYLE: Any = {
    "figure.facecolor": "white",
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "savefig.transparent": False,
    "axes.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": "#afb8c1",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": "#afb8c1",
    "ytick.color": "#afb8c1",
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "hatch.color": "#afb8c1",
    "hatch.linewidth": 0.8,
}

Drawing = ParamSpec("Drawing")


def _diverging() -> LinearSegmentedColormap:
    # Matplotlib has no blue-orange map: the blue half of one and the orange half of another meet in the same grey.
    blue, orange = matplotlib.colormaps["RdBu"], matplotlib.colormaps["PuOr"]
    steps = np.linspace(0.06, 0.5, 64)
    table = [*blue(1 - steps), *orange(steps[::-1])]
    return LinearSegmentedColormap.from_list("blue_orange", table)


COLOUR_MAPS = {"diverging": _diverging(), "sequential": matplotlib.colormaps["viridis"]}


def styled(draw: Callable[Drawing, Figure]) -> Callable[Drawing, Figure]:
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


def shaped(name: str, value: Any, *dims: str | tuple[str, int]) -> np.ndarray:
    array = as_array(name, value)
    sizes = [(size, None) if isinstance(size, str) else size for size in dims]
    fits = zip(array.shape, sizes, strict=False)
    if array.ndim != len(sizes) or any(length not in (None, size) for size, (_, length) in fits):
        shown = ", ".join(label if length is None else f"{label}: {length}" for label, length in sizes)
        raise ValueError(f"{name} must have shape [{shown}]; got {list(array.shape)}. Reshape or reduce it first")
    return array


def rows_of(name: str, value: Any, count: int, last: str) -> np.ndarray:
    array = as_array(name, value)
    return shaped(name, array[None] if array.ndim == 1 else array, "series", (last, count))


def interval(lower: Any, upper: Any, shape: tuple[int, ...], last: str) -> tuple[np.ndarray, np.ndarray] | None:
    if lower is None and upper is None:
        return None
    if lower is None or upper is None:
        raise ValueError("intervals need both ends; pass lower and upper, or neither")
    ends = (rows_of("lower", lower, shape[1], last), rows_of("upper", upper, shape[1], last))
    for name, end in zip(("lower", "upper"), ends, strict=True):
        if end.shape != shape:
            raise ValueError(f"{name} must have shape {list(shape)} like the values; got {list(end.shape)}")
    if (ends[0] > ends[1]).any():
        raise ValueError(f"lower must not exceed upper; it does in {int((ends[0] > ends[1]).sum())} places. Swap them")
    return ends


def figure_of(ax: Axes) -> Figure:
    figure = ax.figure
    return figure if isinstance(figure, Figure) else figure.figure


def draw_cells(
    ax: Axes,
    matrix: np.ndarray,
    colours: str,
    limits: tuple[float, float] | None,
    decimals: int | None,
    x_label: str,
    y_label: str,
    *,
    bar: bool,
) -> Any:
    low, high = as_pair("limits", limits or limits_of([matrix], symmetric=colours == "diverging", margin=0))
    rows, columns = matrix.shape
    if np.isnan(matrix).any():
        # Under the image, which leaves undefined cells transparent.
        ground = {"facecolor": "#eceef1", "hatch": "////", "edgecolor": "#afb8c1", "zorder": -1}
        ax.add_patch(Rectangle((-0.5, -0.5), columns, rows, **ground))
        say_undefined(ax, int(np.isnan(matrix).sum()), "cell")
    image = ax.imshow(matrix, cmap=COLOUR_MAPS[colours], vmin=low, vmax=high, interpolation="nearest")
    if decimals is not None:
        for row, column in np.ndindex(rows, columns):
            value = matrix[row, column]
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = not np.isnan(value) and 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
            text = "?" if np.isnan(value) else f"{value:.{decimals}f}".replace("-", "−")
            ax.text(column, row, text, ha="center", va="center", color="white" if dark else INK)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set(xlabel=x_label, ylabel=y_label, xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    if bar:
        figure_of(ax).colorbar(image, ax=ax, shrink=0.85, pad=0.03).outline.set_visible(False)
    return image


def tick_labels(
    ax: Axes, rows: Sequence[str] | None, columns: Sequence[str] | None, row_count: int, column_count: int
) -> None:
    for axis, labels, count, most in ((ax.yaxis, rows, row_count, 18), (ax.xaxis, columns, column_count, 16)):
        if labels is not None and len(labels) != count:
            raise ValueError(f"labels must be one for each of the {count} rows or columns; got {len(labels)}")
        names = [str(place + 1) for place in range(count)] if labels is None else [str(label) for label in labels]
        stride = next(step for step in (1, 2, 4, 5, 8, 10, 16, 20, 50, 100, count) if count / step <= most)
        axis.set_ticks(range(0, count, stride), names[::stride])


def draw_line(
    ax: Axes,
    x: np.ndarray,
    values: np.ndarray,
    colour: str,
    label: str,
    band: tuple[np.ndarray, ...] | None,
    *,
    dots: bool = False,
) -> None:
    if np.isnan(values).all():
        label = f"{label} {UNDEFINED}".strip()
    if band is not None:
        ax.fill_between(x, band[0], band[1], color=colour, alpha=0.18, linewidth=0)
    ax.plot(x, values, color=colour, label=label, marker="o" if dots else None, markersize=4)


def label_ends(ax: Axes) -> None:
    """Labels curves at their right ends instead of in a legend; labels that would touch are pushed apart."""
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
    gap = 13 / (ax.get_window_extent().height * 72 / figure_of(ax).dpi)
    order = np.argsort(heights)
    for before, after in pairwise(order):
        heights[after] = max(heights[after], heights[before] + gap)
    over = max(0.0, heights[order[-1]] - 1)
    for line, height in zip(named, heights, strict=True):
        ax.annotate(str(line.get_label()), (1, height - over), xycoords="axes fraction", xytext=(6, 0), va="center",
                    textcoords="offset points", color=line.get_color(), fontweight="bold")  # fmt: skip


def legend_above(ax: Axes, names: Sequence[str], title: str) -> None:
    if any(names):
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(names), borderaxespad=0, handlelength=1)
    ax.set_title(title, pad=26 if any(names) else None)


def draw_points(ax: Axes, x: np.ndarray, y: np.ndarray, shades: np.ndarray | None) -> Any:
    look = {"s": 26, "edgecolors": "white", "linewidths": 0.5, "zorder": 3}
    if shades is None:
        return ax.scatter(x, y, color=PALETTE[0], **look)
    return ax.scatter(x, y, c=shades, cmap=COLOUR_MAPS["sequential"], **look)


def layer_bar(ax: Axes, points: Any) -> None:
    shown = figure_of(ax).colorbar(points, ax=ax, shrink=0.85, pad=0.03)
    shown.locator = matplotlib.ticker.MaxNLocator(integer=True)
    shown.update_ticks()
    shown.set_label("layer", color=SOFT)
    shown.outline.set_visible(False)


def line_of_equality(ax: Axes, low: float, high: float, label: str = "") -> None:
    ax.plot([low, high], [low, high], color=SOFT, linewidth=1, linestyle=(0, (3, 3)), label="_equality")
    if label:
        ax.annotate(label, (high, high), xytext=(-26, -8), textcoords="offset points", ha="right", va="top", color=SOFT)


def draw_level(ax: Axes, value: float, label: str) -> None:
    """A dashed line at a value to compare with, named at its left end above everything it crosses."""
    ax.axhline(value, color=SOFT, linewidth=1, linestyle=(0, (3, 3)))
    ax.annotate(label, (0, value), xycoords=("axes fraction", "data"), xytext=(3, 3), textcoords="offset points",
                color=SOFT, path_effects=[withStroke(linewidth=3, foreground="white")])  # fmt: skip


def say_undefined(ax: Axes, count: int, what: str) -> None:
    if count:
        said = f"{count} {what}{'s' if count > 1 else ''} {UNDEFINED}"
        ax.annotate(said, (1, 1), xycoords="axes fraction", xytext=(0, 4), ha="right", va="bottom",
                    textcoords="offset points", color=SOFT, fontsize=8.5)  # fmt: skip

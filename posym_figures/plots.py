"""Draw arrays: every function takes numbers and returns a figure; none computes or loads a model.

Functions of one drawing take ``ax`` to draw into a figure that stands already. Undefined values (NaN) are hatched or
left out, and said to be undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from posym_figures._frames import UNDEFINED, find_colours, read_array, read_limits, read_series_labels, require_shape
from posym_figures._style import (
    COLOUR_MAPS,
    DASHED,
    EDGE,
    GRID,
    INK,
    PALETTE,
    SMALL,
    WIDTH,
    Series,
    apply_style,
    draw_cells,
    draw_line,
    draw_note,
    draw_points,
    draw_scale_bar,
    draw_tick_labels,
    get_figure,
    label_ends,
    say_undefined,
)

__all__ = ["curve", "dots", "heatmap", "layer_head_scores", "score_plane", "share_triangle"]

# Corners of an equilateral triangle for symbol, origin and place.
_TRIANGLE = np.array([[0.5, np.sqrt(3) / 2], [0.0, 0.0], [1.0, 0.0]])


@apply_style
def heatmap(
    matrix: Any,
    *,
    title: str = "",
    x_label: str = "position b",
    y_label: str = "content a",
    colours: Literal["diverging", "sequential"] = "diverging",
    limits: tuple[float, float] | None = None,
    decimals: int | None = None,
    row_labels: Sequence[str] | None = None,
    column_labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a matrix ``[row, column]``, the first row on top; by default a cross-logit matrix ``C[a, b]``.

    Args:
        colours: ``"diverging"`` around 0 or ``"sequential"``.
        limits: values at the ends of the colours; from the matrix unless given.
        decimals: write the values in the cells with so many decimals.
    """
    matrix = require_shape("matrix", matrix, "row", "column")
    if colours not in COLOUR_MAPS:
        raise ValueError(f"colours must be 'diverging' or 'sequential'; got {colours!r}")
    rows, columns = matrix.shape
    size = 3.8 if ax is None else 0
    ax = ax or plt.subplots(figsize=(size * min(1.9, max(0.8, columns / rows)) + 0.8, size))[1]
    image = draw_cells(ax, matrix, colours, limits, decimals, x_label, y_label)
    if decimals is None:
        draw_scale_bar(ax, image)
    draw_tick_labels(ax, matrix.shape, row_labels, column_labels)
    ax.set_title(title)
    return get_figure(ax)


@apply_style
def layer_head_scores(positional: Any, symbolic: Any) -> Figure:
    """Draw positional and symbolic scores ``[layer, head]`` side by side on one colour scale from 0 to 1."""
    positional = require_shape("positional", positional, "layer", "head")
    symbolic = require_shape("symbolic", symbolic, *zip(("layer", "head"), positional.shape, strict=True))
    layers, heads = positional.shape
    height = min(8.0, max(2.6, 0.28 * layers + 1.1))
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, height), sharey=True)
    for ax, scores, name in zip(axes, (positional, symbolic), ("Positional score", "Symbolic score"), strict=True):
        image = draw_cells(ax, scores, "sequential", (0.0, 1.0), 2 if heads <= 4 else None, "head", "layer")
        ax.set(title=name, aspect="auto")
        draw_tick_labels(ax, scores.shape, list(map(str, range(layers))), list(map(str, range(heads))))
    draw_scale_bar(axes[1], image, shrink=0.9, pad=0.02)
    axes[1].set_ylabel("")
    return figure


@apply_style
def score_plane(
    positional: Any,
    symbolic: Any,
    *,
    layers: Any = None,
    title: str = "",
    gamma: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw heads in the positional-symbolic plane: scores ``[head]``, coloured by ``layers`` ``[head]`` where given.

    The diagonal parts heads that are more positional (below) from those that are more symbolic (above). ``gamma``
    frames the corners of pure heads: one score above ``1 - gamma``, the other below ``gamma``.
    """
    positional = require_shape("positional", positional, "head")
    symbolic = require_shape("symbolic", symbolic, ("head", len(positional)))
    ax = ax or plt.subplots(figsize=(5.2, 4.5))[1]
    ax.plot([0, 1], [0, 1], label="_equality", **DASHED)
    layers = None if layers is None else require_shape("layers", layers, ("head", len(positional)))
    draw_points(ax, positional, symbolic, layers)
    if gamma is not None:
        if not 0 < gamma < 0.5:
            raise ValueError(f"gamma must lie between 0 and 0.5, or pure heads would overlap; got {gamma}")
        for corner in ((1 - gamma, 0), (0, 1 - gamma)):
            ax.add_patch(Rectangle(corner, gamma, gamma, fill=False, edgecolor=INK, linewidth=1.2))
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xlabel="positional score", ylabel="symbolic score")
    ax.set_title(title)
    say_undefined(ax, int((np.isnan(positional) | np.isnan(symbolic)).sum()), "head")
    return get_figure(ax)


@apply_style
def share_triangle(
    symbol: Any, origin: Any, place: Any, *, layers: Any = None, title: str = "", ax: Axes | None = None
) -> Figure:
    """Draw heads in the triangle of symbol, origin and place: shares ``[head]`` of :func:`posym_profile.origin_cube`.

    The three are divided by their sum, so what interactions hold is not seen here: say beside it how much that is. A
    head in a corner follows that alone, one in the middle all three alike; each line stands where one is a quarter, a
    half or three quarters. Coloured by ``layers`` ``[head]`` where given.
    """
    symbol = require_shape("symbol", symbol, "head")
    head = ("head", len(symbol))
    shares = np.stack([symbol, require_shape("origin", origin, head), require_shape("place", place, head)])
    if (shares < 0).any():
        raise ValueError(f"shares must be at least 0; got {np.nanmin(shares):g}. Pass parts of a variance")
    total = shares.sum(0)
    x, y = _TRIANGLE.T @ (shares / np.where(total > 0, total, np.nan))
    layers = None if layers is None else require_shape("layers", layers, head)
    ax = ax or plt.subplots(figsize=(5.2, 4.2))[1]
    for corner, one, other in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        for part in (0, 0.25, 0.5, 0.75):
            ends = part * _TRIANGLE[corner] + (1 - part) * _TRIANGLE[[one, other]]
            ax.plot(*ends.T, label="_share", color=GRID if part else EDGE, linewidth=0.8 if part else 1.2, zorder=1)
    draw_points(ax, x, y, layers)
    for name, colour, spot, shift, side in zip(
        ("symbol", "origin", "place"), (1, 2, 0), _TRIANGLE, ((0, 6), (-4, -6), (4, -6)), ("bottom", "top", "top"),
        strict=True,
    ):  # fmt: skip
        draw_note(ax, name, (spot[0], spot[1]), shift, xycoords="data", ha="center", va=side, color=PALETTE[colour],
             fontweight="bold")  # fmt: skip
    ax.set(xlim=(-0.06, 1.06), ylim=(-0.1, _TRIANGLE[0, 1] + 0.09), aspect="equal")
    ax.set_axis_off()
    ax.set_title(title)
    say_undefined(ax, int(np.isnan(x).sum()), "head")
    return get_figure(ax)


@apply_style
def dots(
    labels: Sequence[str],
    values: Any,
    *,
    lower: Any = None,
    upper: Any = None,
    series: Sequence[str] = (),
    colours: Sequence[str] = (),
    x_label: str = "",
    reference: float | None = None,
) -> Figure:
    """Draw one row for every label, with dots ``[series, row]`` or ``[row]`` and intervals shaped alike."""
    rows = _read_series(values, ("row", len(labels)), series, colours, lower, upper)
    ax = plt.subplots(figsize=(WIDTH, 0.9 + 0.27 * len(labels)))[1]
    for place, one in enumerate(rows):
        at = np.arange(len(labels)) + (place - (len(rows) - 1) / 2) * 0.3
        if one.ends:
            ax.hlines(at, *one.ends, color=one.colour, linewidth=2, alpha=0.6)
        ax.scatter(one.values, at, s=26, color=one.colour, label=one.name, zorder=3)
        for spot in at[np.isnan(one.values)]:
            ax.text(0, spot, UNDEFINED, va="center", fontsize=SMALL, transform=ax.get_yaxis_transform())
    if reference is not None:
        ax.axvline(reference, **DASHED)
    ax.set_yticks(range(len(labels)), [str(label) for label in labels])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_xlabel(x_label)
    if any(one.name for one in rows):
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(rows), borderaxespad=0, handlelength=1)
    return get_figure(ax)


@apply_style
def curve(
    x: Any,
    values: Any,
    *,
    lower: Any = None,
    upper: Any = None,
    series: Sequence[str] = (),
    colours: Sequence[str] = (),
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    x_log: bool = False,
    y_log: bool = False,
    y_limits: tuple[float, float] | None = None,
    dots: bool = False,
    reference: float | None = None,
    reference_label: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw curves ``[series, point]`` or ``[point]`` over ``x`` ``[point]``, labelled at their ends, with intervals."""
    x = require_shape("x", x, "point")
    rows = _read_series(values, ("point", len(x)), series, colours, lower, upper)
    ax = ax or plt.subplots(figsize=(WIDTH, 3.6))[1]
    ax.set(xscale="log" if x_log else "linear", yscale="log" if y_log else "linear")
    for one in rows:
        draw_line(ax, x, one, dots=dots)
    _draw_level(ax, reference, reference_label)
    if y_limits is not None:
        ax.set_ylim(*read_limits("y_limits", y_limits))
    ax.set(xlabel=x_label, ylabel=y_label, title=title)
    label_ends(ax)
    return get_figure(ax)


def _read_series(
    values: Any, last: tuple[str, int], names: Sequence[str], colours: Sequence[str], lower: Any, upper: Any
) -> list[Series]:
    """Read rows ``[series, last]``, or one row ``[last]``, with intervals shaped alike."""

    def rows(name: str, value: Any, count: str | tuple[str, int] = "series") -> np.ndarray:
        array = read_array(name, value)
        return require_shape(name, array[None] if array.ndim == 1 else array, count, last)

    drawn = rows("values", values)
    count = len(drawn)
    if (lower is None) != (upper is None):
        raise ValueError("intervals need both ends; pass lower and upper, or neither")
    ends: list[Any] = [None] * count
    if lower is not None:
        low, high = (rows(name, end, ("series", count)) for name, end in (("lower", lower), ("upper", upper)))
        if wrong := int((low > high).sum()):
            raise ValueError(f"lower must not exceed upper; it does in {wrong} places. Swap them")
        ends = list(zip(low, high, strict=True))
    tints = [PALETTE[place] for place in find_colours(colours, count)]
    return list(map(Series, drawn, read_series_labels(names, count), tints, ends))


def _draw_level(ax: Axes, value: float | None, label: str) -> None:
    """Draw a dashed line at a value to compare with, if there is one, named at its left end."""
    if value is not None:
        ax.axhline(value, **DASHED)
        draw_note(ax, label, (0, value), (3, 3), xycoords=("axes fraction", "data"))

"""Plots of arrays: every function takes numbers and returns a figure; none computes or loads a model.

Functions of one drawing take ``ax`` to draw into a figure that stands already. Undefined values (NaN) are hatched or
left out, and said to be undefined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from posym_core.figures.frames import UNDEFINED, as_colours, as_pair, limits_of, shaped
from posym_core.figures.style import (
    COLOUR_MAPS,
    DASHED,
    EDGE,
    GRID,
    INK,
    PALETTE,
    SMALL,
    WIDTH,
    Series,
    draw_cells,
    draw_level,
    draw_line,
    draw_points,
    figure_of,
    label_ends,
    legend_above,
    note,
    say_undefined,
    scale_bar,
    series_of,
    styled,
    tick_labels,
)

# Corners of an equilateral triangle for symbol, origin and place.
TRIANGLE = np.array([[0.5, np.sqrt(3) / 2], [0.0, 0.0], [1.0, 0.0]])


@styled
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
    diagonal: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """A matrix ``[row, column]``, the first row on top; by default a cross-logit matrix ``C[a, b]``.

    Args:
        colours: ``"diverging"`` around 0 or ``"sequential"``.
        limits: values at the ends of the colours; from the matrix unless given.
        decimals: write the values in the cells with so many decimals.
        diagonal: frame the diagonal, the logits that a head really has.
    """
    matrix = shaped("matrix", matrix, "row", "column")
    if colours not in COLOUR_MAPS:
        raise ValueError(f"colours must be 'diverging' or 'sequential'; got {colours!r}")
    rows, columns = matrix.shape
    size = 3.8 if ax is None else 0
    ax = ax or plt.subplots(figsize=(size * min(1.9, max(0.8, columns / rows)) + 0.8, size))[1]
    image = draw_cells(ax, matrix, colours, limits, decimals, x_label, y_label)
    if decimals is None:
        scale_bar(ax, image)
    tick_labels(ax, matrix.shape, row_labels, column_labels)
    if diagonal:
        for place in range(min(rows, columns)):
            ax.add_patch(Rectangle((place - 0.47, place - 0.47), 0.94, 0.94, fill=False, edgecolor=INK, linewidth=1.5))
    ax.set_title(title)
    return figure_of(ax)


@styled
def layer_head_scores(positional: Any, symbolic: Any, *, title: str = "") -> Figure:
    """Positional and symbolic scores ``[layer, head]`` side by side on one colour scale from 0 to 1."""
    positional = shaped("positional", positional, "layer", "head")
    symbolic = shaped("symbolic", symbolic, *zip(("layer", "head"), positional.shape, strict=True))
    layers, heads = positional.shape
    height = min(8.0, max(2.6, 0.28 * layers + 1.1))
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, height), sharey=True)
    for ax, scores, name in zip(axes, (positional, symbolic), ("Positional score", "Symbolic score"), strict=True):
        image = draw_cells(ax, scores, "sequential", (0.0, 1.0), 2 if heads <= 4 else None, "head", "layer")
        ax.set(title=name, aspect="auto")
        tick_labels(ax, scores.shape, list(map(str, range(layers))), list(map(str, range(heads))))
    scale_bar(axes[1], image, shrink=0.9, pad=0.02)
    axes[1].set_ylabel("")
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
    return figure


@styled
def score_plane(
    positional: Any,
    symbolic: Any,
    *,
    layers: Any = None,
    title: str = "",
    gamma: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Heads in the positional-symbolic plane: scores ``[head]``, coloured by ``layers`` ``[head]`` where given.

    The diagonal parts heads that are more positional (below) from those that are more symbolic (above). ``gamma``
    frames the corners of pure heads: one score above ``1 - gamma``, the other below ``gamma``.
    """
    positional = shaped("positional", positional, "head")
    symbolic = shaped("symbolic", symbolic, ("head", len(positional)))
    ax = ax or plt.subplots(figsize=(5.2, 4.5))[1]
    ax.plot([0, 1], [0, 1], label="_equality", **DASHED)
    layers = None if layers is None else shaped("layers", layers, ("head", len(positional)))
    draw_points(ax, positional, symbolic, layers)
    if gamma is not None:
        if not 0 < gamma < 0.5:
            raise ValueError(f"gamma must lie between 0 and 0.5, or pure heads would overlap; got {gamma}")
        for corner in ((1 - gamma, 0), (0, 1 - gamma)):
            ax.add_patch(Rectangle(corner, gamma, gamma, fill=False, edgecolor=INK, linewidth=1.2))
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xlabel="positional score", ylabel="symbolic score")
    ax.set_title(title)
    say_undefined(ax, int((np.isnan(positional) | np.isnan(symbolic)).sum()), "head")
    return figure_of(ax)


@styled
def share_triangle(
    symbol: Any, origin: Any, place: Any, *, layers: Any = None, title: str = "", ax: Axes | None = None
) -> Figure:
    """Heads in the triangle of symbol, origin and place: shares ``[head]`` of :class:`posym_core.Cube`.

    The three are divided by their sum, so what interactions hold is not seen here: say beside it how much that is. A
    head in a corner follows that alone, one in the middle all three alike; each line stands where one is a quarter, a
    half or three quarters. Coloured by ``layers`` ``[head]`` where given.

    Raises:
        ValueError: if the shapes differ, or a share is negative.
    """
    symbol = shaped("symbol", symbol, "head")
    head = ("head", len(symbol))
    shares = np.stack([symbol, shaped("origin", origin, head), shaped("place", place, head)])
    if (shares < 0).any():
        raise ValueError(f"shares must be at least 0; got {np.nanmin(shares):g}. Pass parts of a variance")
    total = shares.sum(0)
    x, y = TRIANGLE.T @ (shares / np.where(total > 0, total, np.nan))
    layers = None if layers is None else shaped("layers", layers, head)
    ax = ax or plt.subplots(figsize=(5.2, 4.2))[1]
    for corner, one, other in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        for part in (0, 0.25, 0.5, 0.75):
            ends = part * TRIANGLE[corner] + (1 - part) * TRIANGLE[[one, other]]
            ax.plot(*ends.T, label="_share", color=GRID if part else EDGE, linewidth=0.8 if part else 1.2, zorder=1)
    draw_points(ax, x, y, layers)
    for name, colour, spot, shift, side in zip(
        ("symbol", "origin", "place"), (1, 2, 0), TRIANGLE, ((0, 6), (-4, -6), (4, -6)), ("bottom", "top", "top"),
        strict=True,
    ):  # fmt: skip
        note(ax, name, (spot[0], spot[1]), shift, xycoords="data", ha="center", va=side, color=PALETTE[colour],
             fontweight="bold")  # fmt: skip
    ax.set(xlim=(-0.06, 1.06), ylim=(-0.1, TRIANGLE[0, 1] + 0.09), aspect="equal")
    ax.set_axis_off()
    ax.set_title(title)
    say_undefined(ax, int(np.isnan(x).sum()), "head")
    return figure_of(ax)


@styled
def frequency_profile(
    positional: Any,
    symbolic: Any,
    shares: Mapping[str, Any],
    energy: Any,
    *,
    bands: Mapping[str, tuple[Any, Any]] | None = None,
    title: str = "",
) -> Figure:
    """Scores, variance shares and energy of a head's planes against the frequency ID, one above the other.

    Args:
        positional, symbolic: ``[plane]``, scores of each plane as a head of its own.
        shares: name -> ``[plane]``, for ``"positional"``, ``"symbolic"`` and ``"interaction"``.
        energy: ``[plane]``, each plane's part of the logits' energy.
        bands: name of a score or, with a leading ``"share "``, of a share -> (lower, upper), each ``[plane]``.
    """
    positional = shaped("positional", positional, "plane")
    plane = ("plane", len(positional))
    scores = {"positional": positional, "symbolic": shaped("symbolic", symbolic, plane)}
    parts = {name: shaped(f"shares of {name}", values, plane) for name, values in shares.items()}
    energy = shaped("energy", energy, plane)
    known = [*scores, *(f"share {name}" for name in parts)]
    for name in bands or {}:
        if name not in known:
            raise ValueError(f"bands must be of {', '.join(map(repr, known))}; got {name!r}")
    identity = np.arange(1, len(positional) + 1)
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 5.6), sharex=True, height_ratios=(1, 1, 0.6))
    for ax, curves, prefix, name in ((axes[0], scores, "", "score"), (axes[1], parts, "share ", "share of variance")):
        for label, values in curves.items():
            band = (bands or {}).get(prefix + label)
            ends = None if band is None else (shaped("bands", band[0], plane), shaped("bands", band[1], plane))
            draw_line(ax, identity, Series(values, label, PALETTE[as_colours([label], 1)[0]], ends))
        ax.set(ylabel=name, ylim=(-0.03, 1.03))
        label_ends(ax)
    axes[2].bar(identity, np.nan_to_num(energy), color=PALETTE[6], width=0.8)
    axes[2].set(ylabel="energy", xlabel="frequency ID (fast to slow)", xlim=(0.2, len(positional) + 0.8))
    axes[0].set_title(title)
    say_undefined(axes[0], int(np.isnan(positional).sum()), "plane")
    return figure


@styled
def bars(
    labels: Sequence[str],
    values: Any,
    *,
    lower: Any = None,
    upper: Any = None,
    series: Sequence[str] = (),
    colours: Sequence[str] = (),
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    reference: float | None = None,
    reference_label: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Bars ``[series, bar]`` or ``[bar]`` with intervals from ``lower`` to ``upper``, shaped alike."""
    rows = series_of(values, ("bar", len(labels)), series, colours, lower, upper)
    ax = ax or plt.subplots(figsize=(WIDTH, 3.3))[1]
    width = 0.72 / len(rows)
    for place, one in enumerate(rows):
        at = np.arange(len(labels)) + (place - (len(rows) - 1) / 2) * width
        ax.bar(at, np.nan_to_num(one.values), width * 0.94, color=one.colour, label=one.name)
        if one.ends:
            ax.vlines(at, *one.ends, color=INK, linewidth=1.3)
        for spot in at[np.isnan(one.values)]:
            ax.text(spot, 0, f" {UNDEFINED}", rotation=90, ha="center", va="bottom", fontsize=SMALL)
    if reference is not None:
        draw_level(ax, reference, reference_label)
    ax.set_xticks(range(len(labels)), [str(label) for label in labels])
    ax.tick_params(axis="x", length=0)
    ax.set(xlabel=x_label, ylabel=y_label)
    legend_above(ax, [one.name for one in rows], title)
    return figure_of(ax)


@styled
def dots(
    labels: Sequence[str],
    values: Any,
    *,
    lower: Any = None,
    upper: Any = None,
    series: Sequence[str] = (),
    colours: Sequence[str] = (),
    title: str = "",
    x_label: str = "",
    x_limits: tuple[float, float] | None = None,
    reference: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """One row for every label, with dots ``[series, row]`` or ``[row]`` and intervals shaped alike."""
    rows = series_of(values, ("row", len(labels)), series, colours, lower, upper)
    ax = ax or plt.subplots(figsize=(WIDTH, 0.9 + 0.27 * len(labels)))[1]
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
    if x_limits is not None:
        ax.set_xlim(*x_limits)
    ax.set_xlabel(x_label)
    legend_above(ax, [one.name for one in rows], title)
    return figure_of(ax)


@styled
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
    """Curves ``[series, point]`` or ``[point]`` over ``x`` ``[point]``, labelled at their ends, with intervals."""
    x = shaped("x", x, "point")
    rows = series_of(values, ("point", len(x)), series, colours, lower, upper)
    ax = ax or plt.subplots(figsize=(WIDTH, 3.6))[1]
    ax.set(xscale="log" if x_log else "linear", yscale="log" if y_log else "linear")
    for one in rows:
        draw_line(ax, x, one, dots=dots)
    if reference is not None:
        draw_level(ax, reference, reference_label)
    if y_limits is not None:
        ax.set_ylim(*as_pair("y_limits", y_limits))
    ax.set(xlabel=x_label, ylabel=y_label, title=title)
    label_ends(ax)
    return figure_of(ax)


@styled
def angle_position_heatmap(
    values: Any,
    angles: Any,
    *,
    title: str = "",
    limits: tuple[float, float] = (0.0, 1.0),
    positions: Any = None,
    ax: Axes | None = None,
) -> Figure:
    """Accuracy ``[angle, position]`` by rotation angle and by where the answer stands; from 0 unless given."""
    values = shaped("values", values, "angle", "position")
    angles = shaped("angles", angles, ("angle", len(values)))
    last = values.shape[1]
    spots = np.arange(last) if positions is None else shaped("positions", positions, ("position", last))
    ax = ax or plt.subplots(figsize=(WIDTH, min(6.0, 1.4 + 0.1 * len(values))))[1]
    above = "slow" if angles[0] < angles[-1] else "fast"
    image = draw_cells(ax, values, "sequential", limits, None, "position of the answer", f"angle θ, {above} above")
    ax.set(title=title, aspect="auto")
    tick_labels(ax, values.shape, [f"{angle:.2g}" for angle in angles], [f"{spot:g}" for spot in spots])
    scale_bar(ax, image, "accuracy", shrink=1, pad=0.015, aspect=28)
    return figure_of(ax)


@styled
def bound_scatter(variance: Any, bound: Any, *, layers: Any = None, title: str = "", ax: Axes | None = None) -> Figure:
    """Variance of each head's logits against its bound, ``[head]``, on logarithmic axes with the line of equality."""
    variance = shaped("variance", variance, "head")
    bound = shaped("bound", bound, ("head", len(variance)))
    shown = (variance > 0) & (bound > 0)
    layers = None if layers is None else shaped("layers", layers, ("head", len(variance)))[shown]
    ax = ax or plt.subplots(figsize=(5.2, 4.5))[1]
    least, most = limits_of([variance[shown], bound[shown]], log=True)
    ends = (least / 1.6, most * 1.6)
    ax.set(xscale="log", yscale="log", aspect="equal", xlabel="bound", ylabel="variance of the logits")
    ax.plot(ends, ends, label="_equality", **DASHED)
    note(ax, "variance = bound", (ends[1], ends[1]), (-26, -8), xycoords="data", ha="right", va="top")
    draw_points(ax, bound[shown], variance[shown], layers)
    ax.set(xlim=ends, ylim=ends, title=title)
    say_undefined(ax, int((np.isnan(variance) | np.isnan(bound)).sum()), "head")
    zero = int(((variance == 0) | (bound == 0)).sum())
    if zero:
        note(ax, f"{zero} at 0, off the logarithmic axes", (0, 0), (6, 6), fontsize=SMALL)
    return figure_of(ax)

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

from posym_core.figures.frames import UNDEFINED, as_colours, as_pair, as_series, limits_of
from posym_core.figures.style import (
    COLOUR_MAPS,
    INK,
    PALETTE,
    SOFT,
    WIDTH,
    draw_cells,
    draw_level,
    draw_line,
    draw_points,
    figure_of,
    interval,
    label_ends,
    layer_bar,
    legend_above,
    line_of_equality,
    rows_of,
    say_undefined,
    shaped,
    styled,
    tick_labels,
)


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
    draw_cells(ax, matrix, colours, limits, decimals, x_label, y_label, bar=decimals is None)
    tick_labels(ax, row_labels, column_labels, rows, columns)
    if diagonal:
        for place in range(min(rows, columns)):
            ax.add_patch(Rectangle((place - 0.47, place - 0.47), 0.94, 0.94, fill=False, edgecolor=INK, linewidth=1.5))
    ax.set_title(title)
    return figure_of(ax)


@styled
def layer_head_scores(positional: Any, symbolic: Any, *, title: str = "", first_layer: int = 0) -> Figure:
    """Positional and symbolic scores ``[layer, head]`` side by side on one colour scale from 0 to 1."""
    positional = shaped("positional", positional, "layer", "head")
    symbolic = shaped("symbolic", symbolic, *(("layer", positional.shape[0]), ("head", positional.shape[1])))
    layers, heads = positional.shape
    height = min(8.0, max(2.6, 0.28 * layers + 1.1))
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, height), sharey=True)
    for ax, scores, name in zip(axes, (positional, symbolic), ("Positional score", "Symbolic score"), strict=True):
        image = draw_cells(ax, scores, "sequential", (0.0, 1.0), 2 if heads <= 4 else None, "head", "layer", bar=False)
        ax.set_title(name)
        ax.set_aspect("auto")
        tick_labels(
            ax, [str(first_layer + layer) for layer in range(layers)], list(map(str, range(heads))), layers, heads
        )
        figure.colorbar(image, ax=ax, shrink=0.9, pad=0.02).outline.set_visible(False) if ax is axes[-1] else None
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
    line_of_equality(ax, 0.0, 1.0)
    shades = None if layers is None else shaped("layers", layers, ("head", len(positional)))
    points = draw_points(ax, positional, symbolic, shades)
    if shades is not None:
        layer_bar(ax, points)
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
            ends = None if band is None else tuple(shaped("bands", end, plane) for end in band)
            draw_line(ax, identity, values, PALETTE[as_colours([label], 1)[0]], label, ends)
        ax.set(ylabel=name, ylim=(-0.03, 1.03))
        label_ends(ax)
    axes[2].bar(identity, np.nan_to_num(energy), color=PALETTE[6], width=0.8)
    axes[2].set(ylabel="energy", xlabel="frequency ID (fast to slow)", xlim=(0.2, len(positional) + 0.8))
    axes[0].set_title(title)
    say_undefined(axes[0], int(np.isnan(positional).sum()), "plane")
    return figure


@styled
def plane_shares(shares: Mapping[str, Any], *, title: str = "", ax: Axes | None = None) -> Figure:
    """Variance shares of every plane as stacked areas: name -> ``[plane]``, for positional, symbolic, interaction."""
    arrays = {name: shaped(f"shares of {name}", values, "plane") for name, values in shares.items()}
    if len({len(values) for values in arrays.values()}) != 1:
        raise ValueError(f"shares must have one value per plane each; got {[len(v) for v in arrays.values()]} planes")
    ax = ax or plt.subplots(figsize=(WIDTH, 3.2))[1]
    stacked = np.stack(list(arrays.values()))
    identity, missing = np.arange(1, stacked.shape[1] + 1), np.isnan(stacked).any(axis=0)
    edges = np.vstack([np.zeros(stacked.shape[1]), np.cumsum(stacked, axis=0)])
    for place, name in enumerate(arrays):
        colour = PALETTE[as_colours([name], 1)[0]]
        ax.fill_between(identity, edges[place], edges[place + 1], color=colour, alpha=0.88, linewidth=0, label=name)
    for plane in identity[missing]:
        ax.axvspan(plane - 1, plane + 1, facecolor="#eceef1", hatch="////", edgecolor="#afb8c1", linewidth=0)
    ax.set(
        xlim=(1, max(2, len(identity))), ylim=(0, 1), xlabel="frequency ID (fast to slow)", ylabel="share of variance"
    )
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(arrays), borderaxespad=0, handlelength=1)
    ax.set_title(title, pad=26)
    say_undefined(ax, int(missing.sum()), "plane")
    return figure_of(ax)


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
    y_label: str = "",
    reference: float | None = None,
    reference_label: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Bars ``[series, bar]`` or ``[bar]`` with intervals from ``lower`` to ``upper``, shaped alike."""
    values = rows_of("values", values, len(labels), "bar")
    count = len(values)
    names, tints = as_series(series, count), as_colours(colours, count)
    ends = interval(lower, upper, values.shape, "bar")
    ax = ax or plt.subplots(figsize=(WIDTH, 3.3))[1]
    width = 0.72 / count
    for place, row in enumerate(values):
        at = np.arange(len(labels)) + (place - (count - 1) / 2) * width
        ax.bar(at, np.nan_to_num(row), width * 0.94, color=PALETTE[tints[place]], label=names[place])
        if ends:
            ax.vlines(at, ends[0][place], ends[1][place], color=INK, linewidth=1.3)
        for spot in at[np.isnan(row)]:
            ax.text(spot, 0, f" {UNDEFINED}", rotation=90, ha="center", va="bottom", color=SOFT, fontsize=8.5)
    if reference is not None:
        draw_level(ax, reference, reference_label)
    ax.set_xticks(range(len(labels)), [str(label) for label in labels])
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel(y_label)
    legend_above(ax, names, title)
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
    values = rows_of("values", values, len(labels), "row")
    names, tints = as_series(series, len(values)), as_colours(colours, len(values))
    ends = interval(lower, upper, values.shape, "row")
    ax = ax or plt.subplots(figsize=(WIDTH, 0.9 + 0.27 * len(labels)))[1]
    for place, row in enumerate(values):
        at = np.arange(len(labels)) + (place - (len(values) - 1) / 2) * 0.3
        if ends:
            ax.hlines(at, ends[0][place], ends[1][place], color=PALETTE[tints[place]], linewidth=2, alpha=0.6)
        ax.scatter(row, at, s=26, color=PALETTE[tints[place]], label=names[place], zorder=3)
        for spot in at[np.isnan(row)]:
            ax.text(0, spot, UNDEFINED, va="center", color=SOFT, fontsize=8.5, transform=ax.get_yaxis_transform())
    if reference is not None:
        ax.axvline(reference, color=SOFT, linewidth=1, linestyle="dashed")
    ax.set_yticks(range(len(labels)), [str(label) for label in labels])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    if x_limits is not None:
        ax.set_xlim(*x_limits)
    ax.set_xlabel(x_label)
    legend_above(ax, names, title)
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
    values = rows_of("values", values, len(x), "point")
    names, tints = as_series(series, len(values)), as_colours(colours, len(values))
    ends = interval(lower, upper, values.shape, "point")
    ax = ax or plt.subplots(figsize=(WIDTH, 3.6))[1]
    ax.set_xscale("log" if x_log else "linear")
    ax.set_yscale("log" if y_log else "linear")
    for place, row in enumerate(values):
        band = None if ends is None else (ends[0][place], ends[1][place])
        draw_line(ax, x, row, PALETTE[tints[place]], names[place], band, dots=dots)
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
    value_label: str = "accuracy",
    limits: tuple[float, float] = (0.0, 1.0),
    positions: Any = None,
    ax: Axes | None = None,
) -> Figure:
    """Values ``[angle, position]``, such as accuracy by rotation angle and by where the answer stands."""
    values = shaped("values", values, "angle", "position")
    angles = shaped("angles", angles, ("angle", len(values)))
    last = values.shape[1]
    spots = np.arange(1, last + 1) if positions is None else shaped("positions", positions, ("position", last))
    ax = ax or plt.subplots(figsize=(WIDTH, min(6.0, 1.4 + 0.1 * len(values))))[1]
    image = draw_cells(ax, values, "sequential", limits, None, "position of the answer", "angle θ", bar=False)
    ax.set_aspect("auto")
    tick_labels(ax, [f"{angle:.2g}" for angle in angles], [f"{spot:g}" for spot in spots], len(values), last)
    shown = ax.figure.colorbar(image, ax=ax, pad=0.015, aspect=28)
    shown.set_label(value_label, color=SOFT)
    shown.outline.set_visible(False)
    ax.set_title(title)
    return figure_of(ax)


@styled
def bound_scatter(variance: Any, bound: Any, *, layers: Any = None, title: str = "", ax: Axes | None = None) -> Figure:
    """Variance of each head's logits against its bound, ``[head]``, on logarithmic axes with the line of equality."""
    variance = shaped("variance", variance, "head")
    bound = shaped("bound", bound, ("head", len(variance)))
    shown = (variance > 0) & (bound > 0)
    shades = None if layers is None else shaped("layers", layers, ("head", len(variance)))[shown]
    ax = ax or plt.subplots(figsize=(5.2, 4.5))[1]
    low, high = limits_of([variance[shown], bound[shown]], log=True)
    ax.set(xscale="log", yscale="log", aspect="equal", xlabel="bound", ylabel="variance of the logits")
    line_of_equality(ax, low / 1.6, high * 1.6, "variance = bound")
    points = draw_points(ax, bound[shown], variance[shown], shades)
    if shades is not None:
        layer_bar(ax, points)
    ax.set(xlim=(low / 1.6, high * 1.6), ylim=(low / 1.6, high * 1.6), title=title)
    say_undefined(ax, int((np.isnan(variance) | np.isnan(bound)).sum()), "head")
    zero = int(((variance == 0) | (bound == 0)).sum())
    if zero:
        ax.annotate(f"{zero} at 0, off the logarithmic axes", (0, 0), xycoords="axes fraction", xytext=(6, 6),
                    textcoords="offset points", color=SOFT, fontsize=8.5)  # fmt: skip
    return figure_of(ax)

"""Plots of single chapters, beside :mod:`posym_figures.plots`: every function takes numbers and returns a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from posym_figures import (
    INK,
    PALETTE,
    WIDTH,
    apply_style,
    plots,
    require_shape,
    say_undefined,
)

COLOURS: dict[str, str] = dict(zip(("positional", "symbolic", "interaction"), PALETTE, strict=False))


@apply_style
def frequency_profile(
    positional: Any,
    symbolic: Any,
    shares: Mapping[str, Any],
    energy: Any,
    *,
    bands: Mapping[str, tuple[Any, Any]] | None = None,
    title: str = "",
) -> Figure:
    """Scores, variance shares and energy of a head's planes against the frequency ID, one above the other."""
    positional = require_shape("positional", positional, "plane")
    plane = ("plane", len(positional))
    scores = {"positional": positional, "symbolic": require_shape("symbolic", symbolic, plane)}
    if unknown := [name for name in shares if name not in COLOURS]:
        raise ValueError(f"shares must be of {', '.join(map(repr, COLOURS))}; got {unknown[0]!r}")
    parts = {name: require_shape(f"shares of {name}", values, plane) for name, values in shares.items()}
    energy = require_shape("energy", energy, plane)
    known = [*scores, *(f"share {name}" for name in parts)]
    for name in bands or {}:
        if name not in known:
            raise ValueError(f"bands must be of {', '.join(map(repr, known))}; got {name!r}")
    identity = np.arange(1, len(positional) + 1)
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 5.6), sharex=True, height_ratios=(1, 1, 0.6))
    for ax, curves, prefix, name in ((axes[0], scores, "", "score"), (axes[1], parts, "share ", "share of variance")):
        look = {"series": list(curves), "colours": list(curves), "y_label": name, "y_limits": (-0.03, 1.03)}
        unknown = np.full(len(identity), np.nan)
        ends = [(bands or {}).get(prefix + label, (unknown, unknown)) for label in curves]
        low, high = ([require_shape("bands", values[side], plane) for values in ends] for side in (0, 1))
        plots.curve(identity, list(curves.values()), lower=low, upper=high, **look, ax=ax)
    axes[2].bar(identity, np.nan_to_num(energy), color=PALETTE[6], width=0.8)
    axes[2].set(ylabel="energy", xlabel="frequency ID (fast to slow)", xlim=(0.2, len(positional) + 0.8))
    axes[0].set_title(title)
    say_undefined(axes[0], int(np.isnan(positional).sum()), "plane")
    return figure


@apply_style
def angle_position_heatmap(
    values: Any,
    angles: Any,
    *,
    title: str = "",
    limits: tuple[float, float] = (0.0, 1.0),
    positions: Any = None,
) -> Figure:
    """Accuracy ``[angle, position]`` by rotation angle and by where the answer stands; from 0 unless given."""
    values = require_shape("values", values, "angle", "position")
    angles = require_shape("angles", angles, ("angle", len(values)))
    last = values.shape[1]
    spots = np.arange(last) if positions is None else require_shape("positions", positions, ("position", last))
    figure, ax = plt.subplots(figsize=(WIDTH, min(6.0, 1.4 + 0.1 * len(values))))
    above = "slow" if angles[0] < angles[-1] else "fast"
    plots.heatmap(
        values,
        title=title,
        x_label="position of the answer",
        y_label=f"angle θ, {above} above",
        colours="sequential",
        limits=limits,
        row_labels=[f"{angle:.2g}" for angle in angles],
        column_labels=[f"{spot:g}" for spot in spots],
        ax=ax,
    )
    ax.set_aspect("auto")
    figure.axes[1].set_ylabel("accuracy", color=INK)
    return figure

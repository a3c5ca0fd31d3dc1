"""Panels of curves and of bars: series of numbers over a common axis, with intervals where they have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from posym_figures._frames import (
    find_colours,
    find_limits,
    pack_numbers,
    read_array,
    read_frames,
    read_highlight,
    read_labels,
    read_limits,
    read_series_labels,
)
from posym_figures._panels import Panel


@dataclass(frozen=True, kw_only=True, eq=False)
class SeriesPanel(Panel):
    """Common part of curves and bars.

    Args:
        series: a label for each series.
        colours: a name of :data:`COLOURS` for each series.
        lower, upper: ends of intervals, shaped like ``frames``.
        y_limits: ends of the upright axis; from all frames unless given.
    """

    series: Sequence[str] = ()
    colours: Sequence[str] = ()
    lower: Any = None
    upper: Any = None
    y_limits: tuple[float, float] | None = None

    moving: ClassVar[tuple[str, ...]] = ("frames", "lower", "upper")

    def drawn(self, frames: Any, dims: dict[str, int], last: str, count: int | None = None) -> dict[str, np.ndarray]:
        """Frames ``[*slider, series, last]``, with the ends of their intervals where they have them."""
        inner = ("series", last if count is None else (last, count))
        frames = read_frames(f"frames of {self.title!r}", frames, dims, inner)
        if (self.lower is None) != (self.upper is None):
            raise ValueError(f"intervals of {self.title!r} need both ends; pass lower and upper, or neither")
        ends = {"lower": self.lower, "upper": self.upper} if self.lower is not None else {}
        inner = tuple(zip(("series", last), frames.shape[-2:], strict=True))
        return {"frames": frames, **{name: read_frames(name, end, dims, inner) for name, end in ends.items()}}

    def shown(self, drawn: Mapping[str, np.ndarray], digits: int) -> dict[str, Any]:
        """Return the series as the script takes them."""
        count = drawn["frames"].shape[-2]
        names = {"series": read_series_labels(self.series, count), "colours": find_colours(self.colours, count)}
        return {**names, **{name: pack_numbers(array, digits, 2) for name, array in drawn.items()}}


@dataclass(frozen=True, eq=False)
class Lines(SeriesPanel):
    """Curves over a common axis, labelled beside; NaN is a gap.

    Args:
        x: ``[point]``, the common axis.
        frames: ``[*slider, series, point]``.
        marker: ``[*slider]``, place of a dotted upright line in each frame; ``marker_label`` is written beside it.
        reference: ``[series, point]``, thin curves that do not move; ``reference_labels`` names them.
        dots: whether to draw the points themselves, for an axis of counts.
        x_log, y_log: logarithmic axes.
    """

    title: str
    x: Any
    frames: Any = None
    _: KW_ONLY
    x_log: bool = False
    y_log: bool = False
    marker: Any = None
    marker_label: str = "here"
    reference: Any = None
    reference_labels: Sequence[str] = ()
    dots: bool = False

    kind: ClassVar[str] = "lines"
    sent: ClassVar[tuple[str, ...]] = ("marker_label", "dots", "x_log", "y_log")
    moving: ClassVar[tuple[str, ...]] = ("frames", "lower", "upper", "marker")

    def payload(self, dims: dict[str, int], digits: int) -> dict[str, Any]:
        x = read_array(f"x of {self.title!r}", self.x)
        if x.ndim != 1 or np.isnan(x).any():
            raise ValueError(f"x of {self.title!r} must be one row of numbers without NaN; got shape {x.shape}")
        drawn = self.drawn(self.frames, dims, "point", len(x))
        series = self.shown(drawn, digits)
        marker = reference = None
        if self.reference is not None:
            drawn["reference"] = read_frames("reference", self.reference, {}, ("series", ("point", len(x))))
            reference = pack_numbers(drawn["reference"], digits, 2)
        if self.marker is not None:
            marker = pack_numbers(read_frames("marker", self.marker, dims, (), fixed=True), digits, 0)
        x_limits = find_limits([x], margin=0, log=self.x_log)
        y_limits = self.y_limits or find_limits(drawn.values(), log=self.y_log)
        for axis, log, numbers in (
            ("x", self.x_log, [x, np.asarray(x_limits)]),
            ("y", self.y_log, [*drawn.values(), np.asarray(y_limits)]),
        ):
            least = min(np.nanmin(array) for array in numbers if not np.isnan(array).all())
            if log and least <= 0:
                raise ValueError(
                    f"a logarithmic {axis} axis must hold values above 0 only; got {least:g}. Put NaN where a value "
                    f"cannot be shown, or use a linear axis"
                )
        return super().payload(dims, digits) | {
            **series,
            "x": pack_numbers(x, max(digits, 6), 1),
            "reference": reference,
            "reference_labels": list(self.reference_labels),
            "marker": marker,
            "x_limits": list(x_limits),
            "y_limits": read_limits("y_limits", y_limits),
        }


@dataclass(frozen=True, eq=False)
class Bars(SeriesPanel):
    """Bars side by side, or stacked; NaN is a hatched bar.

    Args:
        labels: ``[bar]`` or ``[*slider, bar]``, written below the bars.
        frames: ``[*slider, series, bar]``.
        stacked: pile the series of a bar up; without intervals.
        decimals: write every bar's value with so many decimals.
        highlight: ``[*slider]``, number of the bar to frame, counted from 0.
    """

    title: str
    labels: Any
    frames: Any = None
    _: KW_ONLY
    stacked: bool = False
    decimals: int | None = None
    highlight: Any = None

    kind: ClassVar[str] = "bars"
    sent: ClassVar[tuple[str, ...]] = ("stacked", "decimals")
    moving: ClassVar[tuple[str, ...]] = ("frames", "lower", "upper", "labels", "highlight")

    def payload(self, dims: dict[str, int], digits: int) -> dict[str, Any]:
        if self.stacked and self.lower is not None:
            raise ValueError(f"intervals of {self.title!r} need bars that are not stacked; leave lower and upper out")
        drawn = self.drawn(self.frames, dims, "bar")
        bars = drawn["frames"].shape[-1]
        piled = [np.nansum(drawn["frames"], axis=-2)] if self.stacked else drawn.values()
        return super().payload(dims, digits) | {
            **self.shown(drawn, digits),
            "bars": bars,
            "labels": read_labels("labels", self.labels, dims, bars),
            "highlight": read_highlight(self.highlight, dims, bars),
            "y_limits": read_limits("y_limits", self.y_limits or find_limits([*piled, np.zeros(1)])),
        }

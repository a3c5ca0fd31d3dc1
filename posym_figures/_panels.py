"""Panels of a slider figure: what each kind of drawing takes, checks and sends to the page.

Arrays of frames lead with one dimension for each slider that the panel depends on; a panel without frames gets them
from the figure's ``compute``. Panels are checked when :func:`posym_figures.slider_figure` puts them
together with the sliders. Curves and bars stand in ``series``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from posym_figures._frames import (
    Format,
    find_colours,
    find_limits,
    format_value,
    has_text,
    pack_numbers,
    read_frames,
    read_highlight,
    read_labels,
    read_limits,
    read_series_labels,
    read_texts,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """Common part of all panels.

    Args:
        title: heading of the panel.
        over: names of the sliders that the frames depend on, in the order of the frames' leading dimensions; all
            sliders of the figure unless given, none with ``()``.
        x_label, y_label: what the axes are, or columns and rows.
        aspect: width over height of the drawing.
        wide: whether the panel takes the figure's whole width.
        alt: what the drawing shows, for readers who hear it; the figure's ``alt`` unless given.
    """

    title: str
    over: Sequence[str] | None = None
    x_label: str = ""
    y_label: str = ""
    aspect: float | None = None
    wide: bool = False
    alt: str = ""

    kind: ClassVar[str] = ""
    shape: ClassVar[float] = 1.5
    sent: ClassVar[tuple[str, ...]] = ()
    moving: ClassVar[tuple[str, ...]] = ("frames",)
    """What may differ from frame to frame, the drawing itself first."""

    @property
    def complete(self) -> bool:
        """Return whether the panel brings its own frames."""
        return getattr(self, self.moving[0]) is not None

    def given(self, result: Any) -> dict[str, Any]:
        """Return as fields what ``compute`` gave for this panel: an array is the drawing, None changes nothing."""
        if result is None:
            return {}
        if not isinstance(result, Mapping):
            return {self.moving[0]: result}
        if unknown := [name for name in result if name not in self.moving]:
            raise ValueError(
                f"compute may set {', '.join(self.moving)} of {self.title!r}; got {', '.join(map(repr, unknown))}"
            )
        return dict(result)

    def payload(self, dims: dict[str, int], digits: int) -> dict[str, Any]:
        """Everything the script draws from, ready for JSON; ``dims`` maps slider names to their lengths."""
        return {name: getattr(self, name) for name in ("kind", "x_label", "y_label", *self.sent)}


@dataclass(frozen=True, eq=False)
class Heatmap(Panel):
    """A matrix as coloured cells; NaN is a hatched cell.

    Args:
        frames: ``[*slider, row, column]``.
        colours: ``"diverging"`` (blue below 0, orange above) or ``"sequential"``.
        limits: values at the ends of the colours; from all frames unless given.
        decimals: write every cell's value with so many decimals (small matrices); none unless given.
        row_labels, column_labels: ``[row]`` or ``[*slider, row]``; ``None`` numbers them from 0, ``()`` writes none.
        outlined: cells to frame, ``[row, column]`` or ``[*slider, row, column]`` booleans, or ``"diagonal"``.
        colour_bar: whether to draw the scale of the colours; only where no values are written unless given.
    """

    title: str
    frames: Any = None
    _: KW_ONLY
    colours: Literal["diverging", "sequential"] = "diverging"
    limits: tuple[float, float] | None = None
    decimals: int | None = None
    row_labels: Any = None
    column_labels: Any = None
    outlined: Any = None
    colour_bar: bool | None = None

    kind: ClassVar[str] = "heatmap"
    shape: ClassVar[float] = 1.12
    sent: ClassVar[tuple[str, ...]] = ("colours", "decimals")
    moving: ClassVar[tuple[str, ...]] = ("frames", "row_labels", "column_labels", "outlined")

    def payload(self, dims: dict[str, int], digits: int) -> dict[str, Any]:
        if self.colours not in ("diverging", "sequential"):
            raise ValueError(f"colours must be 'diverging' or 'sequential'; got {self.colours!r}")
        frames = read_frames(f"frames of {self.title!r}", self.frames, dims, ("row", "column"))
        rows, columns = frames.shape[-2:]
        limits = self.limits or find_limits([frames], symmetric=self.colours == "diverging", margin=0)
        outlined = self.outlined
        if isinstance(outlined, str):
            if outlined != "diagonal":
                raise ValueError(f"outlined must be booleans per cell or 'diagonal'; got {outlined!r}")
            outlined = np.eye(rows, columns)
        if outlined is not None:
            cells = read_frames("outlined", outlined, dims, (("row", rows), ("column", columns)), fixed=True)
            outlined = pack_numbers(cells, digits, 2)
        return super().payload(dims, digits) | {
            "rows": rows,
            "columns": columns,
            "frames": pack_numbers(frames, digits, 2),
            "limits": read_limits("limits", limits),
            "colour_bar": self.decimals is None if self.colour_bar is None else self.colour_bar,
            "row_labels": read_labels("row_labels", self.row_labels, dims, rows),
            "column_labels": read_labels("column_labels", self.column_labels, dims, columns),
            "outlined": outlined,
        }


@dataclass(frozen=True, eq=False)
class Points(Panel):
    """Points in a plane, or arrows to them from the origin; NaN leaves a point out and counts it as undefined.

    Args:
        frames: ``[*slider, point, 2]``, x and y.
        labels: a label for each point; shown on hover, and written beside it if ``write_labels``.
        groups: a whole number for each point, its colour, ``[point]`` or ``[*slider, point]``; ``group_labels`` names
            the groups.
        colours: a name of :data:`COLOURS` for each group.
        shades: a number for each point (its layer, say), drawn on the sequential scale instead of ``groups``.
        arrows: draw every point as an arrow from the origin, or one boolean per point.
        highlight: ``[*slider]``, number of the point to ring, counted from 0.
        diagonal: draw the line ``y = x``.
        circle: radius of a circle around the origin.
        equal_aspect: one unit is equally long on both axes.
    """

    title: str
    frames: Any = None
    _: KW_ONLY
    labels: Sequence[str] = ()
    write_labels: bool = True
    groups: Any = None
    group_labels: Sequence[str] = ()
    colours: Sequence[str] = ()
    shades: Any = None
    shade_label: str = ""
    arrows: Any = False
    highlight: Any = None
    diagonal: bool = False
    circle: float | None = None
    equal_aspect: bool = True
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None

    kind: ClassVar[str] = "points"
    shape: ClassVar[float] = 1.08
    sent: ClassVar[tuple[str, ...]] = ("write_labels", "shade_label", "diagonal", "circle", "equal_aspect")
    moving: ClassVar[tuple[str, ...]] = ("frames", "groups", "highlight")

    def payload(self, dims: dict[str, int], digits: int) -> dict[str, Any]:
        frames = read_frames(f"frames of {self.title!r}", self.frames, dims, ("point", ("x and y", 2)))
        count = frames.shape[-2]
        per_point = (("point", count),)
        groups = np.zeros(count) if self.groups is None else self.groups
        groups = read_frames("groups", groups, dims, per_point, fixed=True)
        if (groups < 0).any() or (groups % 1 != 0).any():
            raise ValueError("groups must be whole numbers from 0, one per point; renumber them")
        kinds = max(int(groups.max()) + 1, len(self.group_labels), len(self.colours))
        arrows = np.broadcast_to(np.asarray(self.arrows, dtype=float), (count,))
        shades = None if self.shades is None else read_frames("shades", self.shades, {}, per_point)
        origin = np.zeros(1) if arrows.any() or self.circle else np.zeros(0)
        reach = np.array([-1.0, 1.0]) * (self.circle or 0.0) if self.circle else origin
        return super().payload(dims, digits) | {
            "points": count,
            "frames": pack_numbers(frames, digits, 2),
            "labels": read_texts("labels", self.labels, {}, count)["v"] if len(self.labels) else [],
            "groups": pack_numbers(groups, 15, 1),
            "group_labels": read_series_labels(self.group_labels, kinds),
            "colours": find_colours(self.colours, kinds),
            "shades": None if shades is None else pack_numbers(shades, digits, 1),
            "shade_limits": None if shades is None else read_limits("shades", find_limits([shades], margin=0)),
            "arrows": [int(arrow) for arrow in arrows],
            "highlight": read_highlight(self.highlight, dims, count),
            "x_limits": read_limits("x_limits", self.x_limits or find_limits([frames[..., 0], origin, reach])),
            "y_limits": read_limits("y_limits", self.y_limits or find_limits([frames[..., 1], origin, reach])),
        }


@dataclass(frozen=True, eq=False)
class Readout(Panel):
    """A small table of live values; NaN reads "undefined".

    Args:
        rows: label -> ``[*slider]`` numbers or strings; labels alone where ``compute`` gives the values, none where it
            gives the labels, too.
        format: how numbers are written, for all rows or label -> format.
    """

    rows: Mapping[str, Any] | Sequence[str] | None = None
    _: KW_ONLY
    title: str = ""
    format: Format | Mapping[str, Format] = ".3f"

    kind: ClassVar[str] = "readout"
    moving: ClassVar[tuple[str, ...]] = ("rows",)

    @property
    def complete(self) -> bool:
        return isinstance(self.rows, Mapping)

    def given(self, result: Any) -> dict[str, Any]:
        """Label -> value; an array has one value for each row, in order."""
        if result is None:
            return {}
        if isinstance(result, Mapping):
            return {"rows": dict(result)}
        labels = list(self.rows or ())
        values = [result] if isinstance(result, str) or not np.ndim(result) else list(result)
        if len(values) != len(labels):
            raise ValueError(
                f"compute must return one value for each of the {len(labels)} rows of the readout {self.title!r}, or "
                f"label -> value; got {len(values)} values"
            )
        return {"rows": dict(zip(labels, values, strict=True))}

    def payload(self, dims: dict[str, int], digits: int) -> dict[str, Any]:
        if not self.rows or not isinstance(self.rows, Mapping):
            raise ValueError("a readout must have at least one row; got none. Pass label -> values")
        rows = []
        for label, values in self.rows.items():
            form = self.format.get(label, ".3f") if isinstance(self.format, Mapping) else self.format
            if has_text(values):
                texts = np.array(values, dtype=object) if isinstance(values, str) else values
                rows.append({"label": label, **read_texts(f"row {label!r}", texts, dims, None)})
            else:
                array = read_frames(f"row {label!r}", values, dims, ())
                rows.append({"label": label, "n": 1, "v": [format_value(value, form) for value in array.ravel()]})
        return super().payload(dims, digits) | {"rows": rows}

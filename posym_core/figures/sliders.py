"""Slider figures: frames of numbers prepared in Python, drawn in the browser.

A slider figure answers without a kernel: every number that it can show is computed beforehand, one *frame* for each
setting of the sliders, and a small script (``figure.js``) draws the frame that is asked for. The same output works on
a built page, in JupyterLab, Colab and VS Code, with no network.

>>> import numpy as np
>>> angle = Slider("angle", "Angle θ", [0.1, 0.5, 1.0], format=".1f")
>>> curve = Lines("cos(θt)", x=np.arange(8), frames=np.cos(np.outer([0.1, 0.5, 1.0], np.arange(8)))[:, None])
>>> slider_figure([curve], [angle], caption="One plane.", alt="A cosine that quickens with the angle.")
<slider figure 'cos(θt)': A cosine that quickens with the angle.>
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from posym_core.figures.frames import Format, is_number, write
from posym_core.figures.pages import SliderFigure, page, require_said
from posym_core.figures.panels import Bars, Heatmap, Lines, Panel, Points, Readout

__all__ = [
    "Bars",
    "Choice",
    "Heatmap",
    "Lines",
    "Panel",
    "Points",
    "Readout",
    "Slider",
    "SliderFigure",
    "slider_figure",
]

PAGE_WIDTH = 34.0
"""Width in rem that panels side by side share on a page of ordinary width, without the gaps between them."""
PAYLOAD_LIMIT = 1_500_000
"""Bytes of numbers that one figure may carry: a page with ten figures still opens on a phone."""


@dataclass(frozen=True, eq=False)
class Slider:
    """One quantity that the reader moves.

    Args:
        name: what panels call it in ``over``.
        label: what the reader sees.
        values: its settings in order, numbers or strings.
        start: the setting shown first; for numbers, the nearest one. The first setting unless given.
        format: format specification or function that writes a setting, such as ``".2f"`` or ``"{:.0f} keys".format``.

    Raises:
        ValueError: if there are no values, or ``start`` is not among them.
    """

    name: str
    label: str
    values: Sequence[Any] | np.ndarray
    _: KW_ONLY
    start: Any = None
    format: Format = ""

    listed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if len(self.values) == 0:
            raise ValueError(f"slider {self.name!r} must have at least one value; got none. Pass the settings it steps")
        self.index  # noqa: B018  (a start that is not a setting is refused at once)

    @property
    def index(self) -> int:
        """Place of ``start`` among the values."""
        if self.start is None:
            return 0
        values = list(self.values)
        if all(is_number(value) for value in [*values, self.start]):
            low, high = min(values), max(values)
            if low <= self.start <= high:
                return int(np.argmin(np.abs(np.asarray(values, dtype=float) - float(self.start))))
            raise ValueError(f"start of slider {self.name!r} must lie in {low} to {high}; got {self.start}")
        if self.start not in values:
            raise ValueError(
                f"start of slider {self.name!r} must be one of its {len(values)} values; got {self.start!r}"
            )
        return values.index(self.start)

    @property
    def texts(self) -> list[str]:
        """The settings as the reader sees them."""
        return [write(value, self.format) for value in self.values]


@dataclass(frozen=True, eq=False)
class Choice(Slider):
    """A slider whose settings have names and no order: the reader picks one from a list.

    It stands among the sliders and panels follow it in the same way.

    >>> Choice("fruit", "Fruit", ["apple", "pear"], start="pear").index
    1
    """

    listed: ClassVar[bool] = True


def slider_figure(
    panels: Sequence[Panel | Sequence[Panel]],
    sliders: Sequence[Slider],
    *,
    caption: str,
    alt: str,
    columns: int = 2,
    digits: int = 4,
) -> SliderFigure:
    """Panels that follow sliders, as one self-contained piece of HTML.

    Args:
        panels: what is drawn, from left to right; on a narrow page they wrap. A list among them is a column of panels.
        sliders: what the reader moves.
        caption: what the figure shows and how to use it; maths between dollars is typeset on the built page.
        alt: what is seen, for readers who hear it.
        columns: how many panels or columns of panels fit beside each other on a page of ordinary width.
        digits: significant digits of the numbers sent to the page.

    Raises:
        ValueError: if frames do not fit the sliders, a panel names an unknown slider, texts are missing, or the
            numbers are more than :data:`PAYLOAD_LIMIT`.
    """
    names = [slider.name for slider in sliders]
    stacks = [[panel] if isinstance(panel, Panel) else list(panel) for panel in panels]
    flat = [panel for stack in stacks for panel in stack]
    if not flat:
        raise ValueError("a slider figure must have at least one panel; got none")
    if columns < 1:
        raise ValueError(f"columns must be at least 1; got {columns}")
    if len(set(names)) < len(names):
        raise ValueError(f"slider names must differ, since panels name them in over; got {', '.join(names)}")
    require_said(caption=caption, alt=alt)
    titles = " | ".join(panel.title for panel in flat if panel.title)
    return SliderFigure(
        html=page(
            "figure.html.j2",
            [_payload(panel, sliders, digits) for panel in flat],
            limit=PAYLOAD_LIMIT,
            too_much="the frames take {size:.1f} MB, but a figure may carry {limit:.1f} MB; use fewer slider settings "
            "or cells, let each panel depend on fewer sliders with over=(...), or pass a smaller digits",
            scripts=("core.js", "figure.js"),
            styles=("figure.css",),
            stacks=stacks,
            sliders=sliders,
            least=f"{PAGE_WIDTH / columns:.4g}",
            caption=caption,
            alt=alt,
        ),
        text=f"<slider figure {titles!r}: {alt}>",
    )


def _payload(panel: Panel, sliders: Sequence[Slider], digits: int) -> dict[str, Any]:
    lengths = {slider.name: len(slider.values) for slider in sliders}
    over = list(lengths) if panel.over is None else panel.over
    for name in over:
        if name not in lengths:
            known = ", ".join(map(repr, lengths)) or "none"
            raise ValueError(f"over must name sliders of the figure ({known}); got {name!r}")
    order = list(lengths)
    return {
        "over": [order.index(name) for name in over],
        "dims": [lengths[name] for name in over],
        **panel.payload({name: lengths[name] for name in over}, digits),
    }

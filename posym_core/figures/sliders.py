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

import html
import json
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from importlib import resources
from typing import Any

import numpy as np

from posym_core.figures.frames import Format, is_number, write
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

    def control(self) -> str:
        """The control as it stands above the panels."""
        texts, index, label = self.texts, self.index, html.escape(self.label)
        shown = html.escape(texts[index])
        return (
            f'<label class="posym-slider"><span class="posym-label">{label}</span>'
            f'<span class="posym-value" aria-hidden="true">{shown}</span>'
            f'<input type="range" min="0" max="{len(texts) - 1}" step="1" value="{index}" autocomplete="off" '
            f'name="{html.escape(self.name)}" aria-label="{label}" aria-valuetext="{shown}" '
            f'data-texts="{html.escape(json.dumps(texts, ensure_ascii=False))}"></label>'
        )


@dataclass(frozen=True, eq=False)
class Choice(Slider):
    """A slider whose settings have names and no order: the reader picks one from a list.

    It stands among the sliders and panels follow it in the same way.

    >>> Choice("fruit", "Fruit", ["apple", "pear"], start="pear").index
    1
    """

    def control(self) -> str:
        label, index = html.escape(self.label), self.index
        options = "".join(
            f'<option value="{place}"{" selected" if place == index else ""}>{html.escape(text)}</option>'
            for place, text in enumerate(self.texts)
        )
        return (
            f'<label class="posym-slider"><span class="posym-label">{label}</span>'
            f'<select name="{html.escape(self.name)}" aria-label="{label}" autocomplete="off">{options}'
            "</select></label>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class SliderFigure:
    """A finished figure: displays itself in notebooks and on built pages."""

    html: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


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
    for name, text in (("caption", caption), ("alt", alt)):
        if not text.strip():
            raise ValueError(f"{name} must say what is seen; got an empty text")
    data = json.dumps([_payload(panel, sliders, digits) for panel in flat], separators=(",", ":"), allow_nan=False)
    if len(data) > PAYLOAD_LIMIT:
        raise ValueError(
            f"the frames take {len(data) / 1e6:.1f} MB, but a figure may carry {PAYLOAD_LIMIT / 1e6:.1f} MB; use fewer "
            "slider settings or cells, let each panel depend on fewer sliders with over=(...), or pass a smaller digits"
        )
    titles = " | ".join(title for panel in flat if (title := getattr(panel, "title", "")))
    return SliderFigure(
        html=_page(stacks, sliders, caption, alt, data, columns),
        text=f"<slider figure {titles!r}: {alt}>",
    )


def _page(
    stacks: Sequence[Sequence[Panel]], sliders: Sequence[Slider], caption: str, alt: str, data: str, columns: int
) -> str:
    files = resources.files("posym_core.figures") / "static"
    escaped = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return (
        '<figure class="posym-figure">\n'
        f"<style>{files.joinpath('figure.css').read_text('utf-8')}</style>\n"
        f'<div class="posym-sliders">{"".join(slider.control() for slider in sliders)}</div>\n'
        f'<div class="posym-panels" style="--posym-least:{PAGE_WIDTH / columns:.4g}rem">'
        f"{''.join(_column_html(stack, alt) for stack in stacks)}</div>\n"
        "<noscript><p>This figure follows its sliders where JavaScript is on. "
        f"What it shows: {html.escape(alt)}</p></noscript>\n"
        f'<figcaption class="tex2jax_process mathjax_process">{_maths(html.escape(caption))}</figcaption>\n'
        f'<script type="application/json" class="posym-data">{escaped}</script>\n'
        f"<script>{files.joinpath('figure.js').read_text('utf-8')}</script>\n"
        "</figure>"
    )


def _maths(caption: str) -> str:
    # The built page and notebooks share the bracketed form only.
    return re.sub(r"\$([^$]+)\$", r"\\(\1\\)", caption)


def _column_html(column: Sequence[Panel], alt: str) -> str:
    inner = "".join(_panel_html(panel, alt) for panel in column)
    return inner if len(column) == 1 else f'<div class="posym-column">{inner}</div>'


def _panel_html(panel: Panel, alt: str) -> str:
    title = getattr(panel, "title", "")
    heading = f'<div class="posym-title">{html.escape(title)}</div>' if title else ""
    if panel.kind == "readout":
        inner = '<div class="posym-drawing posym-readout mathjax_ignore" role="table" aria-live="polite"></div>'
    else:
        described = html.escape(panel.alt or (f"{title}. {alt}" if title else alt))
        inner = (
            f'<div class="posym-drawing posym-box mathjax_ignore" role="img" aria-label="{described}" '
            f'style="aspect-ratio:{panel.aspect or panel.shape:g}"></div>'
        )
    return f'<div class="posym-panel{" posym-wide" if panel.wide else ""}">{heading}{inner}</div>'


def _payload(panel: Panel, sliders: Sequence[Slider], digits: int) -> dict[str, Any]:
    lengths = {slider.name: len(slider.values) for slider in sliders}
    over = tuple(lengths) if panel.over is None else tuple(panel.over)
    for name in over:
        if name not in lengths:
            known = ", ".join(map(repr, lengths)) or "none"
            raise ValueError(f"over must name sliders of the figure ({known}); got {name!r}")
    order = list(lengths)
    return {
        "kind": panel.kind,
        "over": [order.index(name) for name in over],
        "dims": [lengths[name] for name in over],
        "xLabel": getattr(panel, "x_label", ""),
        "yLabel": getattr(panel, "y_label", ""),
        **panel.payload({name: lengths[name] for name in over}, digits),
    }

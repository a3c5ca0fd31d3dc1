"""Slider figures: frames of numbers prepared in Python, drawn in the browser, and live where a kernel runs.

A slider figure answers without a kernel: every number that it can show is computed beforehand, one *frame* for each
setting of the sliders, and a small script (``figure.js``) draws the frame that is asked for. The same output works on
a built page, in JupyterLab, Colab and VS Code, with no network. Where a kernel runs and the figure knows the function
behind its frames, ``compute``, the same drawing takes any value between the ends of a slider.

>>> import numpy as np
>>> from posym_figures import Lines
>>> tokens = np.arange(8)
>>> angle = Slider("angle", "Angle θ", [0.1, 0.5, 1.0], format=".1f")
>>> curve = Lines("cos(θt)", tokens)
>>> slider_figure([curve], [angle], caption="One plane.", alt="A cosine that quickens with the angle.",
...               compute=lambda angle: [np.cos(angle * tokens)])
<slider figure 'cos(θt)': A cosine that quickens with the angle.>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posym_figures._computed import Compute, fill_panels, list_panel_sliders, require_callable
from posym_figures._controls import Slider
from posym_figures._guess import Guess
from posym_figures._pages import SCRIPTS, LiveFigure, render_page, require_texts, write_plain_maths
from posym_figures._panels import Panel

if TYPE_CHECKING:
    from posym_figures._live import FigureWidget

PAGE_WIDTH = 34.0
"""Width in rem that panels side by side share on a page of ordinary width, without the gaps between them."""
PAYLOAD_LIMIT = 1_500_000
"""Bytes of numbers that one figure may carry: a page with ten figures still opens on a phone."""


@dataclass(frozen=True, eq=False, repr=False)
class SliderFigure(LiveFigure):
    """A finished figure: displays itself in notebooks and on built pages, live where it can be.

    Made by :func:`slider_figure`, which says what the parts are; ``data`` is what its script draws from.
    """

    panels: tuple[Panel, ...]
    sliders: tuple[Slider, ...]
    data: dict[str, Any]
    digits: int
    compute: Compute | None

    @property
    def lives(self) -> bool:
        """Return whether something can be computed between the frames."""
        return self.compute is not None

    def markup(self) -> str:
        """Return the figure without its script and its numbers."""
        return re.sub(r"<script.*?</script>\s*", "", super().markup(), flags=re.DOTALL)

    def widget(self) -> FigureWidget:
        """Return a new widget of this figure, whose trait ``values`` moves it and is moved by it.

        Raises:
            ValueError: if the figure has no ``compute``, so that nothing lies between its frames.
        """
        if self.compute is None:
            raise ValueError("a figure of frames alone has no widget; pass slider_figure the compute that makes them")
        from posym_figures._live import FigureWidget

        return FigureWidget(self)


def slider_figure(
    panels: Sequence[Panel | Sequence[Panel]],
    sliders: Sequence[Slider],
    *,
    caption: str,
    alt: str,
    compute: Compute | None = None,
    guess: Guess | None = None,
    columns: int = 2,
    digits: int = 4,
) -> SliderFigure:
    """Show panels that follow sliders, as one self-contained piece of HTML, and as a widget where a kernel runs.

    Args:
        panels: what is drawn, from left to right; on a narrow page they wrap. A list among them is a column of panels.
        sliders: what the reader moves.
        caption: what the figure shows and how to use it; maths between dollars is typeset on the built page.
        alt: what is seen, for readers who hear it.
        compute: the function behind the frames. ``compute(**values)``, with a value for each slider's name, returns one
            array for each panel, shaped like one of its frames; or field -> value where more than the frames moves
            (``{"frames": ..., "marker": ...}``), label -> value for a readout, None for a panel with frames of its
            own. The others get theirs from it, over the grid of settings; in a kernel it is called for values between.
        guess: what the reader is asked before the figure shows.
        columns: how many panels or columns of panels fit beside each other on a page of ordinary width.
        digits: significant digits of the numbers sent to the page.

    Raises:
        TypeError: if ``compute`` does not take the sliders' names, or returns no arrays.
        ValueError: if frames do not fit the sliders, a panel names an unknown slider, texts or frames are missing,
            ``compute`` returns too few arrays, or the numbers are more than :data:`PAYLOAD_LIMIT`.
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
    require_texts(caption=caption, alt=alt)
    if unknown := [name for panel in flat for name in list_panel_sliders(panel, sliders) if name not in names]:
        known = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"over must name sliders of the figure ({known}); got {unknown[0]!r}")
    if compute is not None:
        require_callable(compute, sliders)
    drawn = fill_panels(flat, sliders, compute)
    titles = " | ".join(panel.title for panel in flat if panel.title)
    data = {
        "name": _anchor(titles or alt),
        "caption": write_plain_maths(caption),
        "sliders": [{"name": slider.name, "numeric": slider.numeric, "whole": slider.whole, "keys": slider.keys}
                    for slider in sliders],
        "panels": [_payload(panel, sliders, digits) for panel in drawn],
        **({"guess": guess.data()} if guess else {}),
    }  # fmt: skip
    html = render_page(
        "figure.html.j2",
        data,
        limit=PAYLOAD_LIMIT,
        too_much="the frames take {size:.1f} MB, but a figure may carry {limit:.1f} MB; use fewer slider settings "
        "or cells, let each panel depend on fewer sliders with over=(...), or pass a smaller digits",
        scripts=(*SCRIPTS, "page.js"),
        styles=("figure.css",),
        stacks=stacks,
        sliders=sliders,
        guess=guess,
        least=f"{PAGE_WIDTH / columns:.4g}",
        caption=caption,
        alt=alt,
    )
    return SliderFigure(
        html=html,
        text=f"<slider figure {titles!r}: {alt}>",
        panels=tuple(drawn),
        sliders=tuple(sliders),
        data=data,
        digits=digits,
        compute=compute,
    )


def _anchor(title: str) -> str:
    """Return the figure's name in addresses.

    >>> _anchor("Scores against τ | Attention before any swap")
    'scores-against-attention-before'
    """
    words = re.findall(r"[a-z0-9]+", title.lower())
    return "-".join(words[:4]) or "figure"


def _payload(panel: Panel, sliders: Sequence[Slider], digits: int) -> dict[str, Any]:
    lengths = {slider.name: len(slider.values) for slider in sliders}
    order, over = list(lengths), list_panel_sliders(panel, sliders)
    return {
        "title": panel.title,
        "over": [order.index(name) for name in over],
        "dims": [lengths[name] for name in over],
        **panel.payload({name: lengths[name] for name in over}, digits),
    }

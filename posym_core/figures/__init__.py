"""Arrays in, figures out: sliders, the head explorer, static plots."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from posym_core.figures.explorer import ARRAYS, ExplorerFigure, HeadInput, head_explorer
from posym_core.figures.sliders import (
    Bars,
    Choice,
    Heatmap,
    Lines,
    Points,
    Readout,
    Slider,
    SliderFigure,
    slider_figure,
)

if TYPE_CHECKING:
    from posym_core.figures.style import INK, PALETTE, STYLE, WIDTH, styled

__all__ = [
    "ARRAYS",
    "INK",
    "PALETTE",
    "STYLE",
    "WIDTH",
    "Bars",
    "Choice",
    "ExplorerFigure",
    "HeadInput",
    "Heatmap",
    "Lines",
    "Points",
    "Readout",
    "Slider",
    "SliderFigure",
    "head_explorer",
    "slider_figure",
    "styled",
]


def __getattr__(name: str) -> Any:
    # What styles static plots needs Matplotlib, which figures with sliders do without.
    if name in ("INK", "PALETTE", "STYLE", "WIDTH", "styled"):
        return getattr(importlib.import_module("posym_core.figures.style"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

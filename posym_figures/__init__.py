"""Arrays in, figures out, which move without a kernel: sliders, the head explorer, static plots."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posym_figures.explorer import ARRAYS, ExplorerFigure, HeadInput, head_explorer
    from posym_figures.sliders import Bars, Choice, Heatmap, Lines, Points, Readout, Slider, SliderFigure, slider_figure
    from posym_figures.style import INK, PALETTE, STYLE, WIDTH, apply_style

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
    "apply_style",
    "head_explorer",
    "slider_figure",
]

# Where names are imported from when they are first asked for: what styles static plots needs Matplotlib, which figures
# with sliders do without.
_HOMES = {
    "explorer": ("ARRAYS", "ExplorerFigure", "HeadInput", "head_explorer"),
    "sliders": ("Bars", "Choice", "Heatmap", "Lines", "Points", "Readout", "Slider", "SliderFigure", "slider_figure"),
    "style": ("INK", "PALETTE", "STYLE", "WIDTH", "apply_style"),
}


def __getattr__(name: str) -> Any:
    """A name of the package's face, or one of its modules and rooms."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            return value
    if name.startswith("__") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

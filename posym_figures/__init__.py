"""Arrays in, figures out, which move without a kernel: sliders, the head explorer, static plots."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posym_figures._explorer import (
        ARRAYS,
        ExplorerFigure,
        HeadInput,
        count_packed_bytes,
        format_tau,
        head_explorer,
        select_layers,
    )
    from posym_figures._frames import find_colours, find_limits, require_shape
    from posym_figures._live import AskingWidget
    from posym_figures._sliders import (
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
    from posym_figures.style import INK, PALETTE, STYLE, WIDTH, apply_style

__all__ = [
    "ARRAYS",
    "INK",
    "PALETTE",
    "STYLE",
    "WIDTH",
    "AskingWidget",
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
    "count_packed_bytes",
    "find_colours",
    "find_limits",
    "format_tau",
    "head_explorer",
    "require_shape",
    "select_layers",
    "slider_figure",
]

# Where names are imported from when they are first asked for: what styles static plots needs Matplotlib, which figures
# with sliders do without.
_HOMES = {
    "_explorer": (
        "ARRAYS",
        "ExplorerFigure",
        "HeadInput",
        "count_packed_bytes",
        "format_tau",
        "head_explorer",
        "select_layers",
    ),
    "_frames": ("find_colours", "find_limits", "require_shape"),
    "_live": ("AskingWidget",),
    "_sliders": ("Bars", "Choice", "Heatmap", "Lines", "Points", "Readout", "Slider", "SliderFigure", "slider_figure"),
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

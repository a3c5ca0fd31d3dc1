"""Arrays in, figures out, which move without a kernel: sliders, the head explorer, static plots."""

import importlib
from typing import TYPE_CHECKING, Any

from posym_figures._controls import Choice, Slider
from posym_figures._explorer import (
    ARRAYS,
    ExplorerFigure,
    HeadInput,
    count_packed_bytes,
    format_tau,
    head_explorer,
    select_layers,
)
from posym_figures._frames import require_shape
from posym_figures._guess import Guess
from posym_figures._pages import (
    Figure,
    LiveFigure,
    join_module,
    join_scripts,
    render_page,
    require_texts,
    write_plain_maths,
)
from posym_figures._panels import Heatmap, Points, Readout
from posym_figures._series import Bars, Lines
from posym_figures._sliders import SliderFigure, slider_figure

if TYPE_CHECKING:
    from posym_figures._live import AskingWidget
    from posym_figures._style import INK, PALETTE, STYLE, WIDTH, apply_style, draw_note, draw_points, say_undefined

__all__ = [
    "ARRAYS", "INK", "PALETTE", "STYLE", "WIDTH", "AskingWidget", "Bars", "Choice", "ExplorerFigure", "Figure", "Guess",
    "HeadInput", "Heatmap", "Lines", "LiveFigure", "Points", "Readout", "Slider", "SliderFigure", "apply_style",
    "count_packed_bytes", "draw_note", "draw_points", "format_tau", "head_explorer", "join_module", "join_scripts",
    "render_page", "require_shape", "require_texts", "say_undefined", "select_layers", "slider_figure",
    "write_plain_maths",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a name that needs anywidget or Matplotlib: figures with sliders do without either."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{'_live' if name == 'AskingWidget' else '_style'}")
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

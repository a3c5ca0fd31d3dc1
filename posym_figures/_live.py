"""Figures beside a kernel: a widget that computes what its sliders ask for, and one whose script asks for messages.

This module needs anywidget; :meth:`posym_figures.SliderFigure.widget` imports it when it is asked for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from posym_figures._computed import compute_results, pack_frame
from posym_figures._pages import SCRIPTS, join_module

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    missing = f"a live figure needs anywidget, but {error.name} is not installed"
    raise ImportError(f"{missing}; install posym-core[chapters]") from error


class FigureWidget(anywidget.AnyWidget):
    """A :class:`posym_figures.SliderFigure` that takes any value between the ends of its sliders.

    Attributes:
        values: slider name -> value. Assigning recomputes the figure before it returns; names that are left out keep
            theirs. If the function raises, the assignment does, and the figure stays as it was and shows the error.
        arrays: what the function returned for these values, an array for each panel.
        error: what went wrong with the last values that were asked for, or nothing.
    """

    _esm = join_module(*SCRIPTS)

    values = traitlets.Dict()
    error = traitlets.Unicode().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    markup = traitlets.Unicode().tag(sync=True)
    shown = traitlets.Dict().tag(sync=True)

    def __init__(self, figure: Any) -> None:
        self._figure, self._ready = figure, False
        start = {slider.name: slider.settings[slider.index] for slider in figure.sliders}
        self.arrays, panels = self._frame(start)
        super().__init__(
            values=start,
            data=figure.data,
            markup=figure.markup(),
            shown={"values": self._keys(start), "panels": panels},
        )
        self._ready = True
        self.on_msg(self._hear)

    def _frame(self, values: Mapping[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
        """Return what the function returns for these values, as it is and as the script draws it."""
        figure = self._figure
        returned = compute_results(figure.compute, figure.panels, values)
        parts = zip(figure.panels, figure.data["panels"], returned, strict=True)
        panels = [pack_frame(panel, sent, panel.given(result), figure.digits) for panel, sent, result in parts]
        return [_own(result) for result in returned], panels

    def _keys(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values as messages name them."""
        sliders = self._figure.sliders
        return {
            slider.name: value if slider.numeric else slider.keys[slider.place(value)]
            for slider in sliders
            for value in [values[slider.name]]
        }

    @traitlets.validate("values")
    def _taken(self, proposal: Any) -> dict[str, Any]:
        """Return the values with those that were left out, computed; nothing changes if that fails."""
        sliders = {slider.name: slider for slider in self._figure.sliders}
        if unknown := [name for name in proposal["value"] if name not in sliders]:
            raise ValueError(f"values must name sliders of the figure ({', '.join(sliders)}); got {unknown[0]!r}")
        asked = {name: sliders[name].setting(value) for name, value in proposal["value"].items()}
        if not self._ready:  # at the start all is computed already
            return asked
        values = {**self.values, **asked}
        try:
            arrays, panels = self._frame(values)
        except Exception as error:
            at = ", ".join(f"{name} = {value}" for name, value in self._keys(values).items())
            self.error = f"{type(error).__name__}: {error} (at {at})"
            raise
        with self.hold_sync():
            self.arrays, self.error = arrays, ""
            self.shown = {"values": self._keys(values), "panels": panels}
        return values

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Return what a browser sends: values that the reader asks for. What goes wrong is shown where it was asked."""
        asked = sync_data.get("values")
        super().set_state({name: value for name, value in sync_data.items() if name != "values"})
        if asked is None:
            return
        self.error = ""
        try:
            self.values = asked
        except Exception as error:
            self.error = self.error or str(error)

    def _hear(self, _: Any, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and content.get("wanted") == "page":
            self.send({"page": self._figure.page()})


class AskingWidget(anywidget.AnyWidget):
    """A figure whose script asks the kernel for what is not on the page.

    Args:
        markup: the figure without its script.
        script: an ES module that exports ``render``.
        answer: from a message of the script to what is sent back, or ``None`` where nothing is.
    """

    markup = traitlets.Unicode().tag(sync=True)

    def __init__(self, markup: str, script: str, answer: Callable[[Any], dict[str, Any] | None]) -> None:
        self._esm, self._answer = script, answer
        super().__init__(markup=markup)
        self.on_msg(self._hear)

    def _hear(self, _: Any, content: Any, buffers: Any) -> None:
        if (message := self._answer(content)) is not None:
            self.send(message)


def _own(result: Any) -> Any:
    """Return what the function returned, as an array of its own; a mapping stays one."""
    if isinstance(result, Mapping):
        return {name: _own(value) for name, value in result.items()}
    if result is None or isinstance(result, str):
        return result
    if hasattr(result, "detach"):
        result = result.detach().cpu().numpy()
    array = np.array(result)
    return (np.array(result, dtype=object) if array.dtype.kind == "U" else array)[()]

"""Panels from a function of the sliders: its frames over the grid of settings, and one setting between them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from posym_figures._controls import Slider
from posym_figures._frames import has_text, read_array
from posym_figures._panels import Panel, Readout

Compute = Callable[..., Any]

GRID_LIMIT = 20_000
"""Settings for which a figure calls ``compute`` at most."""


def require_callable(compute: Compute, sliders: Sequence[Slider]) -> None:
    """Raise if a function does not take the sliders' names as keywords."""
    names = [slider.name for slider in sliders]
    try:
        inspect.signature(compute).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise TypeError(
            f"compute must take the names of the sliders as keywords ({', '.join(names) or 'none'}): {error}"
        ) from None
    except ValueError:  # a function of another language may keep its arguments to itself
        return


def compute_results(compute: Compute, panels: Sequence[Panel], values: Mapping[str, Any]) -> list[Any]:
    """Return what ``compute`` returns for one setting, one item for each panel; a single panel's may stand alone."""
    returned = compute(**values)
    alone = len(panels) == 1 and not (isinstance(returned, (list, tuple)) and len(returned) == 1)
    if not alone and (isinstance(returned, (str, Mapping)) or not np.iterable(returned)):
        raise TypeError(f"compute must return one array for each panel; got {type(returned).__name__}")
    items = [returned] if alone else list(returned)
    if len(items) != len(panels):
        raise ValueError(f"compute must return one array for each of the {len(panels)} panels; got {len(items)}")
    return items


def fill_panels(panels: Sequence[Panel], sliders: Sequence[Slider], compute: Compute | None) -> list[Panel]:
    """Return the panels, those without frames with what ``compute`` gives over the settings of their sliders.

    Sliders that no such panel depends on stay at their start.

    Raises:
        ValueError: if there is no ``compute``, or it would be called for more than :data:`GRID_LIMIT` settings.
    """
    lacking = [place for place, panel in enumerate(panels) if not panel.complete]
    if not lacking:
        return list(panels)
    if compute is None:
        bare = panels[lacking[0]]
        raise ValueError(f"{bare.kind} {bare.title!r} has no {bare.moving[0]}; pass them, or a compute that makes them")
    over = [set(list_panel_sliders(panels[place], sliders)) for place in lacking]
    moved = [slider for slider in sliders if slider.name in set().union(*over)]
    lengths = [len(slider.values) for slider in moved]
    if math.prod(lengths) > GRID_LIMIT:
        raise ValueError(
            f"compute would be called for {math.prod(lengths):,} settings, but a figure calls it for {GRID_LIMIT:,} at "
            "most; use fewer settings, or let panels depend on fewer sliders with over=(...)"
        )
    start = {slider.name: slider.settings[slider.index] for slider in sliders}
    names = [slider.name for slider in moved]
    computed: list[list[dict[str, Any]]] = [[] for _ in lacking]
    for setting in product(*(slider.settings for slider in moved)):
        items = compute_results(compute, panels, start | dict(zip(names, setting, strict=True)))
        for fields, place in zip(computed, lacking, strict=True):
            fields.append(panels[place].given(items[place]))
    whole = list(panels)
    for fields, place in zip(computed, lacking, strict=True):
        whole[place] = _with_frames(panels[place], fields, moved, sliders)
    return whole


def list_panel_sliders(panel: Panel, sliders: Sequence[Slider]) -> list[str]:
    """Names of the sliders that a panel depends on, in the order of its frames."""
    return [slider.name for slider in sliders] if panel.over is None else list(panel.over)


def _with_frames(
    panel: Panel, fields: list[dict[str, Any]], moved: Sequence[Slider], sliders: Sequence[Slider]
) -> Panel:
    """Return the panel with the fields of all settings of ``moved`` as frames over the sliders that it depends on."""
    if any(one.keys() != fields[0].keys() for one in fields) or panel.moving[0] not in fields[0]:
        raise ValueError(
            f"compute must return {panel.moving[0]} of {panel.title!r} for every setting, since the panel has none"
        )
    over, names = list_panel_sliders(panel, sliders), [slider.name for slider in moved]
    shape = [len(slider.values) for slider in moved]
    # The settings where the other sliders are at their start, in the order of the panel's own.
    at_start = tuple(slice(None) if slider.name in over else slider.index for slider in moved)
    moving = [name for name in names if name in over]
    places = np.arange(math.prod(shape)).reshape(shape)[at_start].transpose([moving.index(name) for name in over])

    def frames(values: list[Any]) -> Any:
        chosen = [values[place] for place in places.ravel()]
        if has_text(chosen[0]):
            array = np.array([list(one) if np.ndim(one) else one for one in chosen], dtype=object)
        else:
            array = np.stack([read_array(f"what compute returns for {panel.title!r}", one) for one in chosen])
        return array.reshape(*places.shape, *array.shape[1:])

    if isinstance(panel, Readout):
        rows = [one["rows"] for one in fields]
        if any(list(one) != list(rows[0]) for one in rows):
            raise ValueError(f"compute must return the same rows of the readout {panel.title!r} for every setting")
        return replace(panel, rows={label: frames([one[label] for one in rows]) for label in rows[0]})
    return replace(panel, **{name: frames([one[name] for one in fields]) for name in fields[0]})


def pack_frame(panel: Panel, sent: Mapping[str, Any], fields: dict[str, Any], digits: int) -> dict[str, Any]:
    """Return the fields of one setting as the script takes them, with the sizes of the panel ``sent`` to the page."""
    if not fields:
        return {}
    alone = replace(panel, **{**dict.fromkeys(panel.moving), **fields})
    payload = alone.payload({}, digits)
    for name in fields:
        new, old = ([part["n"] for part in parts] for parts in (_parts(payload[name]), _parts(sent[name])))
        if old and new != old:
            raise ValueError(f"compute must return {name} of {panel.title!r} in the shape of its frames; got another")
    return {name: payload[name] for name in fields}


def _parts(field: Any) -> list[dict[str, Any]]:
    return field if isinstance(field, list) else [field] if field else []

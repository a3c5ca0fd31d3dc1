"""Frames of numbers and texts for slider figures: checked, rounded and ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Format = str | Callable[[Any], str]
Dim = str | tuple[str, int]

UNDEFINED = "undefined"
COLOURS = {"blue": 0, "orange": 1, "green": 2, "purple": 3, "sky": 4, "yellow": 5, "grey": 6}
COLOURS |= {"positional": 0, "symbolic": 1, "interaction": 2}
"""Names of series colours: blue stands for position and orange for symbol throughout the book."""


def read_array(name: str, value: Any) -> np.ndarray:
    """Read ``value`` as float64: lists, numpy arrays, torch tensors on any device. NaN passes, infinity does not."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers; got {type(value).__name__} that is not one") from None
    if array.size == 0:
        raise ValueError(f"{name} must not be empty; got shape {array.shape}")
    if np.isinf(array).any():
        raise ValueError(
            f"{name} must be finite, or NaN where undefined; {int(np.isinf(array).sum())} of its {array.size} entries "
            "are infinite. Replace them before drawing"
        )
    return array


def has_shape(array: np.ndarray, dims: Sequence[Dim]) -> bool:
    """Return whether an array has the dimensions, of the lengths that are given."""
    known = [None if isinstance(dim, str) else dim[1] for dim in dims]
    return array.ndim == len(known) and all(
        length in (None, size) for size, length in zip(array.shape, known, strict=True)
    )


def require_shape(name: str, value: Any, *dims: Dim, way_out: str = "Reshape or reduce it first") -> np.ndarray:
    """Read ``value`` as an array of these dimensions; an error shows both shapes."""
    array = read_array(name, value)
    if has_shape(array, dims):
        return array
    shown = ", ".join(dim if isinstance(dim, str) else f"{dim[0]}: {dim[1]}" for dim in dims)
    raise ValueError(f"{name} must have shape [{shown}]; got {list(array.shape)}. {way_out}")


def read_frames(
    name: str, value: Any, sliders: Mapping[str, int], inner: Sequence[Dim], *, fixed: bool = False
) -> np.ndarray:
    """Read ``value`` as ``[*slider, *inner]``.

    ``fixed`` also takes one frame for all settings; a single series may leave its dimension out.
    """
    array = read_array(name, value)
    if len(inner) == 2 and inner[0] in ("series", ("series", 1)) and array.ndim == len(sliders) + 1:
        array = array[..., None, :]
    if fixed and has_shape(array, inner):
        return array
    way_out = "name the sliders that they depend on with over=(...)" if sliders else "leave the slider dimensions out"
    return require_shape(name, array, *sliders.items(), *inner, way_out=f"Reorder the dimensions, or {way_out}")


def read_texts(name: str, value: Any, dims: Mapping[str, int], count: int | None) -> dict[str, Any]:
    """Read texts ``[count]`` or ``[*slider, count]``, flat; ``count`` None stands for one text a frame."""
    if isinstance(value, str):
        raise TypeError(f"{name} must be a sequence of texts; got the single text {value!r}")
    array = np.asarray(value.tolist() if hasattr(value, "tolist") else list(value), dtype=object)
    last = () if count is None else (count,)
    allowed = [(*dims.values(), *last), last] if last else [tuple(dims.values())]
    if array.shape not in allowed:
        shapes = " or ".join(str(list(shape)) for shape in dict.fromkeys(allowed))
        raise ValueError(f"{name} must have shape {shapes}, one text for each; got {list(array.shape)}")
    return _pack(count or 1, [format_value(item, "") for item in array.ravel()])


def read_labels(name: str, value: Any, dims: Mapping[str, int], count: int) -> dict[str, Any]:
    """Read tick labels: numbered from 0 if None, none if empty."""
    if value is None:
        return {"n": count, "v": [str(number) for number in range(count)]}
    return {"n": 0, "v": []} if len(value) == 0 else read_texts(name, value, dims, count)


def read_series_labels(labels: Sequence[str], count: int) -> list[str]:
    """Read labels of series, empty where none are given."""
    if len(labels) not in (0, count):
        raise ValueError(f"labels must be one for each of the {count} series or groups; got {len(labels)}")
    return [str(label) for label in labels] or [""] * count


def find_colours(names: Sequence[str], count: int) -> list[int]:
    """Find places in the palette."""
    if not len(names):
        return [place % 7 for place in range(count)]
    if len(names) != count:
        raise ValueError(f"colours must be one for each of the {count} series or groups; got {len(names)}")
    for name in names:
        if name not in COLOURS:
            raise ValueError(f"colours must be among {', '.join(COLOURS)}; got {name!r}")
    return [COLOURS[name] for name in names]


def read_highlight(value: Any, dims: Mapping[str, int], count: int) -> dict[str, Any] | None:
    """Read the number of the highlighted item in each frame; NaN for none."""
    if value is None:
        return None
    places = read_frames("highlight", value, dims, (), fixed=True)
    bad = places[(places < 0) | (places >= count) | (places % 1 != 0)]
    bad = bad[~np.isnan(bad)]
    if len(bad):
        raise ValueError(f"highlight must be a whole number from 0 to {count - 1}, or NaN for none; got {bad[0]:g}")
    return pack_numbers(places, 15, 0)


def pack_numbers(array: np.ndarray, digits: int, inner: int) -> dict[str, Any]:
    """Pack numbers rounded to significant digits, flat, NaN as null; the last ``inner`` dimensions are one frame."""
    rounded = [None if math.isnan(value) else float(f"{value:.{digits}g}") for value in array.ravel().tolist()]
    whole = [
        int(value) if value is not None and value.is_integer() and abs(value) < 1e15 else value for value in rounded
    ]
    return _pack(math.prod(array.shape[array.ndim - inner :]), whole)


def _pack(size: int, values: list[Any]) -> dict[str, Any]:
    """Frames of ``size`` values, flat; where frames repeat, each once, and ``at`` holds the place of each setting's."""
    places: dict[tuple[Any, ...], int] = {}
    at = [places.setdefault(tuple(values[start : start + size]), len(places)) for start in range(0, len(values), size)]
    shared = {"n": size, "v": [value for frame in places for value in frame]}
    if len(places) == 1:
        return shared
    return shared | {"at": at} if len(shared["v"]) + len(at) < len(values) else {"n": size, "v": values}


def get_frame(field: Mapping[str, Any], setting: int) -> list[Any]:
    """Return the values of a packed field at a setting, counted over all; a field that does not move has one frame."""
    size, values = field["n"], field["v"]
    if "at" not in field and len(values) <= size:
        return values
    place = field["at"][setting] if "at" in field else setting
    return values[place * size : (place + 1) * size]


def read_limits(name: str, limits: tuple[float, float]) -> list[float]:
    """Read two ends of an axis or colour scale, the lower first."""
    low, high = (float(limit) for limit in limits)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"{name} must be two finite numbers, the lower first; got ({low:g}, {high:g})")
    return [low, high]


def find_limits(
    arrays: Iterable[np.ndarray], *, symmetric: bool = False, margin: float = 0.05, log: bool = False
) -> tuple[float, float]:
    """Find ends that hold all defined values, with a margin, and never of length 0."""
    values = np.concatenate([np.asarray(array, dtype=float).ravel() for array in arrays])
    values = values[~np.isnan(values)]
    if log:
        values = values[values > 0]
    if not len(values):
        return (1.0, 10.0) if log else (-1.0, 1.0) if symmetric else (0.0, 1.0)
    if symmetric:
        reach = float(np.abs(values).max()) or 1.0
        return (-reach, reach)
    low, high = float(values.min()), float(values.max())
    if log:
        return (low, high) if low < high else (low / 2, high * 2)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-300):
        room = abs(low) / 2 or 0.5
        return (low - room, high + room)
    room = margin * (high - low)
    return (low - room if low else 0.0, high + room if high else 0.0)


def has_text(values: Any) -> bool:
    """Return whether a row of a readout holds texts rather than numbers."""
    while isinstance(values, (list, tuple)) and len(values):
        values = values[0]
    return isinstance(values, str) or getattr(getattr(values, "dtype", None), "kind", "") in ("U", "O")


def is_number(value: Any) -> bool:
    """Return whether a slider's setting is a number."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def format_value(value: Any, form: Format) -> str:
    """Write ``value`` as the reader sees it: "undefined" for NaN, a true minus sign, no negative zero."""
    if isinstance(value, str):
        return value if isinstance(form, str) else form(value)
    if is_number(value) and math.isnan(value):
        return UNDEFINED
    if not isinstance(form, str):
        return form(value)
    if is_number(value) and not form and not isinstance(value, (int, np.integer)):
        form = ".4g"
    text = format(value, form) if form else str(value)
    if text.startswith("-"):
        return text[1:] if not any(digit in "123456789" for digit in text.split("e")[0]) else "−" + text[1:]
    return text

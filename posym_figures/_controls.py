"""Controls of a figure: sliders over numbers or names, and lists of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from posym_figures._frames import Format, format_value, is_number


@dataclass(frozen=True, eq=False)
class Slider:
    """One quantity that the reader moves.

    Args:
        name: what panels call it in ``over``, and ``compute`` its argument.
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
    def settings(self) -> list[Any]:
        """Return the values as Python's own numbers and strings."""
        return [_plain(value) for value in self.values]

    @property
    def numeric(self) -> bool:
        """Return whether the settings are numbers, so that others lie between them."""
        return all(map(is_number, self.settings))

    @property
    def whole(self) -> bool:
        """Return whether the settings are whole numbers, such as layers or lengths."""
        return all(isinstance(value, int) and not isinstance(value, bool) for value in self.settings)

    @property
    def index(self) -> int:
        """Place of ``start`` among the values."""
        return 0 if self.start is None else self.place(self.setting(self.start, f"start of slider {self.name!r}"))

    @property
    def texts(self) -> list[str]:
        """Return the settings as the reader sees them."""
        return [format_value(value, self.format) for value in self.settings]

    @property
    def keys(self) -> list[Any]:
        """Return the settings as addresses and messages name them: numbers as they are, else the text."""
        return self.settings if self.numeric else self.texts

    def setting(self, value: Any, what: str = "") -> Any:
        """Return a value that the slider can take: a number between its ends, or one of its names.

        Raises:
            ValueError: if it is neither; ``what`` is how the error calls it.
        """
        value, settings, what = _plain(value), self.settings, what or f"value of slider {self.name!r}"
        if self.numeric:
            low, high = min(settings), max(settings)
            if not is_number(value) or not low - (slack := 1e-9 * (high - low)) <= value <= high + slack:
                raise ValueError(f"{what} must lie in {low} to {high}; got {value!r}")
            value = min(max(value, low), high)
            return int(value) if self.whole and value == int(value) else float(value)
        for known in (settings, self.texts):
            if value in known:
                return settings[known.index(value)]
        names = f". They are {', '.join(map(repr, settings))}" if len(settings) <= 12 else ""
        raise ValueError(f"{what} must be one of its {len(settings)} values; got {value!r}{names}")

    def place(self, value: Any) -> int:
        """Return the place among the settings of a value that the slider can take, or of the setting nearest to it."""
        if not self.numeric:
            return self.settings.index(value)
        return int(np.argmin(np.abs(np.asarray(self.settings, dtype=float) - float(value))))


@dataclass(frozen=True, eq=False)
class Choice(Slider):
    """A slider whose settings have names and no order: the reader picks one from a list.

    It stands among the sliders and panels follow it in the same way.

    >>> Choice("fruit", "Fruit", ["apple", "pear"], start="pear").index
    1
    """

    listed: ClassVar[bool] = True

    @property
    def numeric(self) -> bool:
        """False: nothing lies between two entries of a list."""
        return False


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value

"""Text and tables that a cell shows, so that its code is about what is computed and not about Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch

RULES = {"l": ":--", "r": "--:", "c": ":-:"}


class Table:
    """A table that grows row by row; ``print`` and :func:`say` show it, and so does a cell that ends with it.

    ``align`` has a letter a column, ``l``, ``r`` or ``c``, and the last holds for all that follow; ``form`` is how
    numbers that are no whole numbers are written.

    >>> table = Table("task", "accuracy", "steps", form=".2f")
    >>> table.add("Index", 0.987, 1250)
    >>> print(table)
    | task | accuracy | steps |
    |:--|--:|--:|
    | Index | 0.99 | 1250 |
    """

    def __init__(
        self, *columns: object, rows: Iterable[Sequence[object]] = (), align: str = "lr", form: str = ""
    ) -> None:
        if not columns or not 0 < len(align) <= max(len(columns), 2) or not set(align) <= set(RULES):
            raise ValueError(
                f"a table has columns, and align has a letter of {', '.join(RULES)} for each, the last of which "
                f"repeats; got {len(columns)} columns and align={align!r}"
            )
        self.columns, self.form = tuple(map(str, columns)), form
        self.align = (align + align[-1] * len(columns))[: len(columns)]
        self.rows: list[tuple[str, ...]] = []
        for row in rows:
            self.add(*row)

    def add(self, *cells: object) -> None:
        """Add a row, a cell a column: text, numbers, estimates with their intervals."""
        if len(cells) != len(self.columns):
            raise ValueError(
                f"a row has a cell for each of the {len(self.columns)} columns {', '.join(self.columns)}; got "
                f"{len(cells)}: {', '.join(map(str, cells))}"
            )
        self.rows.append(tuple(self._written(cell) for cell in cells))

    def _written(self, cell: object) -> str:
        single = isinstance(cell, torch.Tensor | np.ndarray) and not cell.shape
        fraction = single or isinstance(cell, float | np.floating)
        return (_write(cell, self.form) if fraction else str(cell)).replace("|", r"\|")

    def __str__(self) -> str:
        rule = "|".join(RULES[letter] for letter in self.align)
        rows = [f"| {' | '.join(row)} |" for row in (self.columns, *self.rows)]
        return "\n".join([rows[0], f"|{rule}|", *rows[1:]])

    def _repr_markdown_(self) -> str:
        return str(self)


def fold(summary: str, *parts: object) -> str:
    """Return paragraphs and tables behind one line, which a reader opens."""
    return "\n\n".join([f"<details><summary>{summary}</summary>", *map(str, parts), "</details>"])


def _write(value: Any, form: str) -> str:
    """Write a number in a format; a fraction that rounds to 0 has no sign."""
    if isinstance(value, Integral):
        return format(value, form)
    sign = "+" * form.startswith("+")
    return format(value, f"{sign}z{form.removeprefix(sign)}")

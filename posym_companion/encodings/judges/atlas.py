"""The atlas of encodings: one row an encoding, every cell from a proof or a measurement.

:data:`COLUMNS` says which columns there are and where each cell comes from; :func:`atlas_rows` fills them and
:func:`write_atlas` writes them down.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from posym_companion.encodings.abilities import ability
from posym_companion.encodings.encoding_study import EncodingStudy, StudyTask, list_setups
from posym_companion.encodings.encoding_tasks import TESTS, EncodingTasks
from posym_companion.encodings.judges.encoding_tasks import done_accuracy, longest_context
from posym_companion.encodings.known_heads import Question
from posym_companion.results import Result, load_stored_results
from posym_core.encodings import ENCODINGS
from posym_core.tasks import DistanceTask

NO_RESULT = "—"


class TableCell(NamedTuple):
    """What one column says of one encoding, Markdown, and whether it can or does; ``None`` where nobody knows."""

    text: str
    good: bool | None


class Column(NamedTuple):
    """A column with its heading, where its cells come from, and the cell of an encoding from results in a folder."""

    title: str
    source: Literal["proof", "measurement"]
    read: Callable[[str, Path | str | None], TableCell]


class AtlasRow(NamedTuple):
    """One encoding, by its key in ``ENCODINGS``, with as many cells as there are columns."""

    encoding: str
    cells: tuple[TableCell, ...]


def tasks_result(encoding: str, folder: Path | str | None = None) -> Result | None:
    """Return what :mod:`posym_companion.encodings.encoding_tasks` stored of an encoding, if anything.

    Raises:
        ResultError: if it is there and altered.
    """
    return next(iter(load_stored_results([EncodingTasks(encoding=encoding).name], folder)), None)


def study_result(encoding: str, task: StudyTask, folder: Path | str | None = None) -> Result | None:
    """Return what :mod:`posym_companion.encodings.encoding_study` stored of an encoding, all else equal, if anything.

    Raises:
        ResultError: if it is there and altered.
    """
    return next(iter(load_stored_results([EncodingStudy(task=task, setup=encoding).name], folder)), None)


@functools.cache
def level_without_order(task: StudyTask) -> float:
    """What the study's models can reach on Distance without the order of tokens, exactly; on Count, chance.

    >>> round(level_without_order("distance"), 3), round(level_without_order("count"), 3)
    (0.103, 0.02)
    """
    made = EncodingStudy(task=task, setup="nope").make_task()
    return made.best_without_order() if isinstance(made, DistanceTask) else 1 / made.classes


def ability_cell(encoding: str, folder: Path | str | None, *, question: Question) -> TableCell:
    """Say whether a head can be that, by :mod:`posym_companion.encodings.abilities`."""
    possible = ability(encoding, question).possible
    return TableCell({True: "✓", False: "✗", None: "–"}[possible], possible)


def task_cell(encoding: str, folder: Path | str | None, *, tests: Sequence[str]) -> TableCell:
    """Accuracy at the training's length, and under it the longest context of each test; a dagger where rows end."""
    result = tasks_result(encoding, folder)
    if result is None:
        return TableCell(NO_RESULT, None)
    rows = [TESTS.index(test) for test in tests]
    accuracy, chance = result["accuracy"][rows], float(result["chance"][rows[0]])
    reached = [longest_context(each, result["lengths"].tolist(), chance) for each in accuracy]
    mark = "†" if ENCODINGS[encoding].bounded and reached[0] else ""
    lengths = " / ".join("✗" if length is None else f"{length}{mark}" for length in reached)
    mean = float(accuracy[0, :, 0].mean())
    good = mean >= done_accuracy(chance)
    return TableCell(f"{mean:.2f}<br>{lengths if good else '✗'}", good)


def study_cell(encoding: str, folder: Path | str | None, *, task: StudyTask) -> TableCell:
    """Mean accuracy over seeds, and under it the lowest and the highest; a double dagger where heads look back only."""
    result = study_result(encoding, task, folder)
    if result is None:
        return TableCell(NO_RESULT, None)
    accuracy, mark = result["accuracy"], "‡" if list_setups()[encoding].get("causal") else ""
    good = bool(accuracy.mean() >= done_accuracy(level_without_order(task)))
    return TableCell(f"{accuracy.mean():.2f}{mark}<br>{accuracy.min():.2f}–{accuracy.max():.2f}", good)


COLUMNS: tuple[Column, ...] = (
    Column("P", "proof", functools.partial(ability_cell, question="positional")),
    Column("S", "proof", functools.partial(ability_cell, question="symbolic")),
    Column("P+S", "proof", functools.partial(ability_cell, question="additive")),
    Column("Index", "measurement", functools.partial(task_cell, tests=("index", "index_front"))),
    Column("Retr.", "measurement", functools.partial(task_cell, tests=("retrieval",))),
    Column("Ind.", "measurement", functools.partial(task_cell, tests=("induction",))),
    Column("Dist.", "measurement", functools.partial(study_cell, task="distance")),
    Column("Count", "measurement", functools.partial(study_cell, task="count")),
)
"""The atlas's columns in order. Another measurement is another :class:`Column` whose ``read`` looks up its result."""


EXPECTED: Mapping[str, Collection[str]] = MappingProxyType(
    {
        "grape-m": ("Index", "Retr.", "Ind.", "Dist.", "Count"),
        "grape-a": ("Retr.", "Ind.", "Dist.", "Count"),
        "tapa": ("Retr.", "Ind.", "Dist.", "Count"),
        "selective-rope": ("Index", "Retr.", "Ind.", "Dist.", "Count"),
    }
)
"""Of encodings whose models were trained after this was written: the measured columns in which they were expected to be
good, and in no other. GRAPE-M and Selective RoPE start as RoPE, which is good in all. With GRAPE-A a query sets a slope
and no place between the ends; TAPA's wave over a tenth root tells near distances apart, and far ones hardly."""


def unexpected(rows: Sequence[AtlasRow], *, columns: Sequence[Column] = COLUMNS) -> list[tuple[str, str]]:
    """Return encodings and titles of measured columns that turned out otherwise than :data:`EXPECTED`."""
    return [
        (row.encoding, column.title)
        for row in rows
        if row.encoding in EXPECTED
        for cell, column in zip(row.cells, columns, strict=True)
        if column.source == "measurement" and cell.good not in (None, column.title in EXPECTED[row.encoding])
    ]


def atlas_rows(
    names: Collection[str] = ENCODINGS,
    *,
    columns: Sequence[Column] = COLUMNS,
    folder: Path | str | None = None,
) -> tuple[AtlasRow, ...]:
    """Return every named encoding with every column, from results in a folder.

    >>> [cell.text for cell in atlas_rows(["rope"], columns=COLUMNS[:3])[0].cells]
    ['✓', '✗', '✗']
    """
    return tuple(AtlasRow(name, tuple(column.read(name, folder) for column in columns)) for name in names)


def write_atlas(rows: Sequence[AtlasRow], *, columns: Sequence[Column] = COLUMNS) -> list[list[str]]:
    """Return the headings and the rows of a table; columns that are proved share one, enough for their ticks.

    Raises:
        ValueError: if a row has more or fewer cells than there are columns.
    """
    wrong = {row.encoding: len(row.cells) for row in rows if len(row.cells) != len(columns)}
    if wrong:
        raise ValueError(f"a row must have one cell for each of {len(columns)} columns; got {wrong}")
    groups = itertools.groupby(enumerate(columns), lambda each: "proof" if each[1].source == "proof" else each[0])
    places = [[place for place, _ in group] for _, group in groups]
    texts = [
        ["", *(column.title for column in columns)],
        *([f"**{ENCODINGS[row.encoding].label}**", *(cell.text for cell in row.cells)] for row in rows),
    ]
    return [
        [_unbroken(first), *(_unbroken(" · ".join(cells[place] for place in group)) for group in places)]
        for first, *cells in texts
    ]


def _unbroken(text: str) -> str:
    """The same with lines ending at ``<br>`` only: on a narrow page the table scrolls, and need not break cells too."""
    return re.sub("(?<=[0-9])–(?=[0-9])", "–\u2060", text.replace(" ", "\u00a0"))

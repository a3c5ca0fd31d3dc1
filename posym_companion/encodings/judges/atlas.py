"""The atlas of encodings: one row an encoding, every cell from a proof or a measurement.

:data:`COLUMNS` says which columns there are and where each cell comes from; :func:`atlas_rows` fills them and
:func:`atlas_table` writes them down. :func:`playground` prepares the figure in which a reader picks an encoding and
sees what its settings do to ``C``.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from posym_companion.encodings.abilities import ability
from posym_companion.encodings.encoding_study import EncodingStudy, StudyTask, list_setups
from posym_companion.encodings.encoding_tasks import TESTS, EncodingTasks
from posym_companion.encodings.judges.encoding_tasks import done_accuracy, longest_context
from posym_companion.encodings.known_heads import Question
from posym_companion.results import Result, load_stored_results
from posym_core.encodings import ENCODINGS
from posym_core.tasks import DistanceTask


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """What one column says of one encoding.

    Attributes:
        text: Markdown.
        good: whether the encoding can, or does; ``None`` where the question has no answer or was not measured.
    """

    text: str
    good: bool | None


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        title: its heading.
        source: whether its cells are proved or measured.
        read: cell of an encoding, from results in a folder.
    """

    title: str
    source: Literal["proof", "measurement"]
    read: Callable[[str, Path | str | None], TableCell]


@dataclass(frozen=True, kw_only=True)
class AtlasRow:
    """One encoding.

    Attributes:
        encoding: key of ``ENCODINGS``.
        cells: as many as columns.
    """

    encoding: str
    cells: tuple[TableCell, ...]


def tasks_result(encoding: str, folder: Path | str | None = None) -> Result | None:
    """What :mod:`posym_companion.encodings.encoding_tasks` kept of an encoding, if anything.

    Raises:
        ResultError: if it is there and altered.
    """
    return _if_there(EncodingTasks(encoding=encoding).name, folder)


def study_result(encoding: str, task: StudyTask, folder: Path | str | None = None) -> Result | None:
    """What :mod:`posym_companion.encodings.encoding_study` kept of an encoding with all else equal, if anything.

    Raises:
        ResultError: if it is there and altered.
    """
    return _if_there(EncodingStudy(task=task, setup=encoding).name, folder)


def _if_there(name: str, folder: Path | str | None) -> Result | None:
    return next(iter(load_stored_results([name], folder)), None)


@functools.cache
def level_without_order(task: StudyTask) -> float:
    """What the study's models can reach on Distance without the order of tokens, exactly; on Count, chance.

    >>> round(level_without_order("distance"), 3), round(level_without_order("count"), 3)
    (0.103, 0.02)
    """
    made = EncodingStudy(task=task, setup="nope").make_task()
    return made.best_without_order() if isinstance(made, DistanceTask) else 1 / made.classes


def ability_cell(encoding: str, folder: Path | str | None, *, question: Question) -> TableCell:
    """Whether a head can be that, by :mod:`posym_companion.encodings.abilities`."""
    possible = ability(encoding, question).possible
    return TableCell(text={True: "✓", False: "✗", None: "–"}[possible], good=possible)


def task_cell(encoding: str, folder: Path | str | None, *, tests: Sequence[str]) -> TableCell:
    """Accuracy at the training's length, and under it the longest context of each test; a dagger where rows end."""
    result = tasks_result(encoding, folder)
    if result is None:
        return TableCell(text=NO_RESULT, good=None)
    rows = [TESTS.index(test) for test in tests]
    accuracy, chance = result["accuracy"][rows], float(result["chance"][rows[0]])
    reached = [longest_context(each, result["lengths"].tolist(), chance) for each in accuracy]
    mark = "†" if ENCODINGS[encoding].bounded and reached[0] else ""
    lengths = " / ".join("✗" if length is None else f"{length}{mark}" for length in reached)
    mean = float(accuracy[0, :, 0].mean())
    good = mean >= done_accuracy(chance)
    return TableCell(text=f"{mean:.2f}<br>{lengths if good else '✗'}", good=good)


def study_cell(encoding: str, folder: Path | str | None, *, task: StudyTask) -> TableCell:
    """Mean accuracy over seeds, and under it the lowest and the highest; a double dagger where heads look back only."""
    result = study_result(encoding, task, folder)
    if result is None:
        return TableCell(text=NO_RESULT, good=None)
    accuracy = result["accuracy"]
    mark = "‡" if list_setups()[encoding].get("causal") else ""
    return TableCell(
        text=f"{accuracy.mean():.2f}{mark}<br>{accuracy.min():.2f}–{accuracy.max():.2f}",
        good=bool(accuracy.mean() >= done_accuracy(level_without_order(task))),
    )


NO_RESULT = "—"
COLUMNS: tuple[Column, ...] = (
    Column(title="P", source="proof", read=functools.partial(ability_cell, question="positional")),
    Column(title="S", source="proof", read=functools.partial(ability_cell, question="symbolic")),
    Column(title="P+S", source="proof", read=functools.partial(ability_cell, question="additive")),
    Column(title="Index", source="measurement", read=functools.partial(task_cell, tests=("index", "index_front"))),
    Column(title="Retr.", source="measurement", read=functools.partial(task_cell, tests=("retrieval",))),
    Column(title="Ind.", source="measurement", read=functools.partial(task_cell, tests=("induction",))),
    Column(title="Dist.", source="measurement", read=functools.partial(study_cell, task="distance")),
    Column(title="Count", source="measurement", read=functools.partial(study_cell, task="count")),
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
    """Encodings and titles of measured columns that turned out otherwise than :data:`EXPECTED`."""
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
    """Every encoding with every column.

    Args:
        names: of encodings.
        columns: what is said of each.
        folder: of results; by default :func:`posym_companion.results.find_results_folder`.

    >>> [cell.text for cell in atlas_rows(["rope"], columns=COLUMNS[:3])[0].cells]
    ['✓', '✗', '✗']
    """
    return tuple(
        AtlasRow(encoding=name, cells=tuple(column.read(name, folder) for column in columns)) for name in names
    )


def atlas_table(rows: Sequence[AtlasRow], *, columns: Sequence[Column] = COLUMNS) -> str:
    """The rows as a table in Markdown; columns that are proved share one, which is enough for their ticks.

    Raises:
        ValueError: if a row has more or fewer cells than there are columns.
    """
    groups = [list(group) for _, group in itertools.groupby(range(len(columns)), lambda place: _shared(columns, place))]
    titles = [_unbroken(" · ".join(columns[place].title for place in group)) for group in groups]
    lines = ["| | " + " | ".join(titles) + " |", "|:--|" + ":-:|" * len(groups)]
    for row in rows:
        if len(row.cells) != len(columns):
            raise ValueError(
                f"a row must have one cell for each of {len(columns)} columns; got {len(row.cells)} for {row.encoding}"
            )
        cells = [_unbroken(" · ".join(row.cells[place].text for place in group)) for group in groups]
        lines.append(f"| **{_unbroken(ENCODINGS[row.encoding].label)}** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _unbroken(text: str) -> str:
    """The same with lines ending at ``<br>`` only: on a narrow page the table scrolls, and need not break cells too."""
    return re.sub("(?<=[0-9])–(?=[0-9])", "–\u2060", text.replace(" ", "\u00a0"))


def _shared(columns: Sequence[Column], place: int) -> int:
    """One number for all proved columns, another for each measured one."""
    return -1 if columns[place].source == "proof" else place

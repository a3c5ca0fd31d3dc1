"""The atlas of encodings: one row an encoding, every cell from a proof or a measurement.

:data:`COLUMNS` says which columns there are and where each cell comes from; :func:`atlas_rows` fills them and
:func:`atlas_table` writes them down. :func:`playground` prepares the figure in which a reader picks an encoding and
sees what its settings do to ``C``.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch

from posym_core.encodings import (
    ENCODINGS,
    ALiBi,
    CARoPE,
    EncodedHeads,
    Encoding,
    LayerShape,
    PaTH,
    T5Bias,
    UndefinedCrossLogits,
    make_encoding,
)
from posym_core.encodings.abilities import Question, ability
from posym_core.encodings.scoring import cross_scores
from posym_core.exclusion import exclusion
from posym_core.experiments.encoding_study import SETUPS, EncodingStudy, StudyTask
from posym_core.experiments.encoding_tasks import TABLES, TESTS, longest_context, threshold
from posym_core.results import Result, load_result, results_folder
from posym_core.rope import rope_angles
from posym_core.tasks.distances import DistanceTask

LABELS = MappingProxyType(
    {
        "nope": "NoPE",
        "sinusoidal": "sinusoidal",
        "learned": "learned",
        "t5": "T5 bias",
        "alibi": "ALiBi",
        "dape": "DAPE",
        "rope": "RoPE",
        "rope-500k": "RoPE 500k",
        "p-rope": "p-RoPE",
        "partial-rope": "partial RoPE",
        "mla": "MLA",
        "rollpe": "RollPE",
        "pope": "PoPE",
        "carope": "CARoPE",
        "carope-own": "CARoPE own",
        "path": "PaTH",
        "urpe": "URPE",
    }
)
"""How encodings are called in tables and lists."""


@dataclass(frozen=True, kw_only=True)
class Cell:
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
    read: Callable[[str, Path | str | None], Cell]


@dataclass(frozen=True, kw_only=True)
class AtlasRow:
    """One encoding.

    Attributes:
        encoding: key of :data:`posym_core.encodings.ENCODINGS`.
        cells: as many as columns.
    """

    encoding: str
    cells: tuple[Cell, ...]


def tasks_result(encoding: str, folder: Path | str | None = None) -> Result | None:
    """What :mod:`posym_core.experiments.encoding_tasks` kept of an encoding, if anything.

    Raises:
        ResultError: if it is there and altered.
    """
    return _if_there(f"encoding_tasks_{encoding}", folder)


def study_result(encoding: str, task: StudyTask, folder: Path | str | None = None) -> Result | None:
    """What :mod:`posym_core.experiments.encoding_study` kept of an encoding with all else equal, if anything.

    Raises:
        ResultError: if it is there and altered.
    """
    return _if_there(EncodingStudy(task=task, setup=encoding).name, folder)


def _if_there(name: str, folder: Path | str | None) -> Result | None:
    folder = Path(folder) if folder is not None else results_folder()
    return load_result(name, folder=folder) if (folder / f"{name}.json").exists() else None


@functools.cache
def level_without_order(task: StudyTask) -> float:
    """What the study's models can reach on Distance without the order of tokens, exactly; on Count, chance.

    >>> round(level_without_order("distance"), 3), round(level_without_order("count"), 3)
    (0.103, 0.02)
    """
    made = EncodingStudy(task=task, setup="nope").make_task()
    return made.best_without_order() if isinstance(made, DistanceTask) else 1 / made.classes


def ability_cell(encoding: str, folder: Path | str | None, *, question: Question) -> Cell:
    """Whether a head can be that, by :mod:`posym_core.encodings.abilities`."""
    possible = ability(encoding, question).possible
    return Cell(text={True: "✓", False: "✗", None: "–"}[possible], good=possible)


def task_cell(encoding: str, folder: Path | str | None, *, tests: Sequence[str]) -> Cell:
    """Accuracy at the training's length, and under it the longest context of each test; a dagger where rows end."""
    result = tasks_result(encoding, folder)
    if result is None:
        return Cell(text=NO_RESULT, good=None)
    rows = [TESTS.index(test) for test in tests]
    accuracy, chance = result["accuracy"][rows], float(result["chance"][rows[0]])
    reached = [longest_context(each, result["lengths"].tolist(), chance) for each in accuracy]
    mark = "†" if encoding in TABLES and reached[0] else ""
    lengths = " / ".join("✗" if length is None else f"{length}{mark}" for length in reached)
    mean = float(accuracy[0, :, 0].mean())
    good = mean >= threshold(chance)
    return Cell(text=f"{mean:.2f}<br>{lengths if good else '✗'}", good=good)


def study_cell(encoding: str, folder: Path | str | None, *, task: StudyTask) -> Cell:
    """Mean accuracy over seeds, and under it the lowest and the highest; a double dagger where heads look back only."""
    result = study_result(encoding, task, folder)
    if result is None:
        return Cell(text=NO_RESULT, good=None)
    accuracy = result["accuracy"]
    mark = "‡" if SETUPS[encoding].get("causal") else ""
    return Cell(
        text=f"{accuracy.mean():.2f}{mark}<br>{accuracy.min():.2f}–{accuracy.max():.2f}",
        good=bool(accuracy.mean() >= threshold(level_without_order(task))),
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


def atlas_rows(
    names: Sequence[str] = tuple(ENCODINGS),
    *,
    columns: Sequence[Column] = COLUMNS,
    folder: Path | str | None = None,
) -> tuple[AtlasRow, ...]:
    """Every encoding with every column.

    Args:
        names: of encodings.
        columns: what is said of each.
        folder: of results; by default :func:`posym_core.results.results_folder`.

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
        lines.append(f"| **{_unbroken(LABELS[row.encoding])}** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _unbroken(text: str) -> str:
    """The same with lines ending at ``<br>`` only: on a narrow page the table scrolls, and need not break cells too."""
    return re.sub("(?<=[0-9])–(?=[0-9])", "–\u2060", text.replace(" ", "\u00a0"))


def _shared(columns: Sequence[Column], place: int) -> int:
    """One number for all proved columns, another for each measured one."""
    return -1 if columns[place].source == "proof" else place


KEYS = 6
PLAY = LayerShape(heads=1, dim=14, length=KEYS + 1)
SPREADS = (0.0, 0.25, 0.5, 1.0, 2.0)
"""How far the contents of the playground's keys lie apart."""
LEVELS = 7
"""Settings of an encoding's own knob."""
COMMON = 5.0  # logit of what all inputs share, the query's included, where nothing turns


@dataclass(frozen=True, kw_only=True)
class Playground:
    """What a head with each encoding does, for every spread of contents and every setting of the encoding's knob.

    Arrays lead with ``[encoding, spread, knob]``.

    Attributes:
        C: ``[..., content, position]``, less its mean, which attention does not see; NaN where the encoding has none.
        movement: ``[..., content, position]``: largest minus smallest logit of that content at that position over all
            orders of the other keys.
        attention: ``[..., position]``, of the keys in their own order; the query's own token takes no part.
        shares: ``[..., (positional, symbolic, interaction)]`` of the variance of ``C``.
        scores: ``[..., (positional, symbolic)]``.
        knobs: what the knob sets, ``[encoding][knob]``.
    """

    C: np.ndarray
    movement: np.ndarray
    attention: np.ndarray
    shares: np.ndarray
    scores: np.ndarray
    knobs: tuple[tuple[str, ...], ...]


def playground(names: Sequence[str] = tuple(ENCODINGS)) -> Playground:
    """Frames for a figure with a list of encodings and two sliders; some seconds."""
    orders = torch.tensor(list(itertools.permutations(range(KEYS))))
    generator = torch.Generator().manual_seed(3)
    apart = torch.randn(KEYS + 1, PLAY.width, generator=generator, dtype=torch.float64)
    shared = apart[KEYS] * (COMMON / PLAY.scale) ** 0.5 / apart[KEYS].norm()
    apart[KEYS] = 0  # the query
    size = (len(names), len(SPREADS), LEVELS)
    C, movement = np.full((2, *size, KEYS, KEYS), np.nan)
    attention, shares, scores = (np.full((*size, last), np.nan) for last in (KEYS, 3, 2))
    plain = torch.eye(PLAY.dim, dtype=torch.float64)[None]
    texts = []
    for row, name in enumerate(names):
        texts.append(tuple(text for text, _ in knob(name)))
        for (column, spread), (level, (_, encoding)) in itertools.product(enumerate(SPREADS), enumerate(knob(name))):
            at = row, column, level
            inputs = shared + spread * apart
            layer = EncodedHeads(encoding=encoding, query_map=plain, key_map=plain)
            logits = layer.logits(inputs)
            logits[:, -1, -1] = -math.inf
            attention[at] = encoding.attention(logits)[0, -1, :-1]
            movement[at] = _movement(layer.permuted_logits(inputs, orders)[:, 0], orders)
            try:
                found = layer.cross_logits(inputs)[0]
            except UndefinedCrossLogits:
                continue
            parts, score = exclusion(found), cross_scores(found)
            C[at] = found - found.mean()
            shares[at] = [parts.positional_share, parts.symbolic_share, parts.interaction_share]
            scores[at] = [score.positional, score.symbolic]
    return Playground(C=C, movement=movement, attention=attention, shares=shares, scores=scores, knobs=tuple(texts))


def _movement(logits: torch.Tensor, orders: torch.Tensor) -> np.ndarray:
    """Range of ``logits [order, position]`` over the orders that put a content at a position."""
    pairs = orders * KEYS + torch.arange(KEYS)
    empty = logits.new_zeros(KEYS**2)
    high = empty.scatter_reduce(0, pairs.flatten(), logits.flatten(), "amax", include_self=False)
    low = empty.scatter_reduce(0, pairs.flatten(), logits.flatten(), "amin", include_self=False)
    return (high - low).reshape(KEYS, KEYS).numpy()


@functools.cache
def knob(name: str) -> tuple[tuple[str, Encoding], ...]:
    """The settings of an encoding's knob: what each says, and the encoding set so; float64, without gradients."""
    made = []
    for level in range(LEVELS):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            text, encoding = _set(name, level)
        made.append((text, encoding.double().requires_grad_(False)))
    return tuple(made)


AMOUNTS = (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0)
BASES = (10.0, 30.0, 100.0, 1e3, 1e4, 1e5, 1e6)


def _set(name: str, level: int) -> tuple[str, Encoding]:
    amount, planes = AMOUNTS[level], PLAY.dim // 2
    if name == "learned":
        return f"spread of the table {amount:g}", make_encoding(name, PLAY, spread=amount)
    if name == "t5":
        return f"spread of the biases {2 * amount:g}", make_encoding(name, PLAY, spread=2 * amount)
    if name == "alibi":
        slope = 2.0 ** (level - 4)
        return f"slope {slope:g}", ALiBi(PLAY, slopes=torch.tensor([slope]))
    if name in ("sinusoidal", "pope"):
        return f"base {BASES[level]:g}", make_encoding(name, PLAY, base=BASES[level])
    if name == "rope":
        factor = 2.0 ** (level - 4)
        return f"angles times {factor:g}", make_encoding(name, PLAY, angles=factor * rope_angles(PLAY.dim))
    if name == "rope-500k":
        base = (10.0, 100.0, 1e3, 1e4, 5e5, 1e7, 1e9)[level]
        return f"base {base:g}", make_encoding("rope", PLAY, base=base)
    if name in ("p-rope", "partial-rope", "mla"):
        turning = level + 1
        return f"{turning} of {planes} planes turn", make_encoding(name, PLAY, share=turning / planes)
    encoding = make_encoding(name, PLAY)
    if name == "dape":
        encoding = make_encoding(name, PLAY, bias=ALiBi(PLAY, slopes=torch.tensor([0.5])))
        weights = encoding.get_parameter("map.0.weight").data
        # Units bend where contents and biases lie: beyond, the network would be a plane, and rows and columns add.
        encoding.get_parameter("map.0.bias").data = -weights @ torch.tensor([COMMON, -1.5])
        encoding.get_parameter("map.2.weight").data.mul_(4 * amount)
        return f"network times {4 * amount:g}", encoding
    if isinstance(encoding, CARoPE):
        encoding.weight.data = 4 * amount * torch.randn(1, PLAY.width) / PLAY.width**0.5
        return f"pull of contents {4 * amount:g}", encoding
    if isinstance(encoding, PaTH):
        beta = (0.001, 0.25, 0.5, 0.75, 1.0, 1.5, 1.999)[level]
        encoding.constant.data.fill_(math.log(beta / (2 - beta)))
        return f"strength β of the maps {beta:g}", encoding
    if name == "urpe":
        encoding = make_encoding(name, PLAY, bias=T5Bias(PLAY, spread=0.5))
        swing = level / 4
        distance = torch.arange(1 - PLAY.length, PLAY.length)
        encoding.get_parameter("factors").data = 1 + swing * torch.cos(1.3 * distance)[None]
        return f"factors 1 ± {swing:g}", encoding
    return "nothing to set", encoding

"""Write a survey as one page that asks no other file or host for anything, with models as points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posym_profile.report._page import TEMPLATES, render_svg
from posym_profile.scores._visibility import format_count, shorten_name

Row = Mapping[str, Any]

# Name of a number -> its label, and what it says.
COLUMNS = {
    "right": ("Right", "share of prompts answered right among the alternatives that they name"),
    "correlation": ("r", "Pearson correlation over heads of positional and symbolic score"),
    "positional_local": ("s_POS trend, local", "median positional score of early minus late layers that see a window"),
    "symbolic_local": ("s_SYM trend, local", "the same of symbolic scores"),
    "positional_global": ("s_POS trend, global", "the same of positional scores, in layers that see everything"),
    "symbolic_global": ("s_SYM trend, global", "the same of symbolic scores, in layers that see everything"),
    "frequency_law": (
        "Frequency law",
        "rank correlation over heads of positional minus symbolic score with the mean log angle of a head’s planes, "
        "weighted by their energy",
    ),
    "slow_energy": (
        "Slow energy",
        "part of the logits’ energy in planes that turn by less than an eighth of a circle over a prompt",
    ),
    **{
        f"{name}_share": (
            name.capitalize(),
            f"median over heads of the share of their logits’ variance that goes with {what}",
        )
        for name, what in (
            ("symbol", "what a block says"),
            ("origin", "where a block’s keys were computed"),
            ("place", "where they are read"),
        )
    },
    "symbolic_part_origin": (
        "Origin in symbolic part",
        "median over heads of origin’s share of what a single prompt shows as following contents",
    ),
    "parameters": ("Parameters", "how many the model has, tied ones counted once"),
    "rope_bases": ("RoPE base", "of its rotary encodings"),
    "windows": ("Window", "tokens that its local layers see"),
    "hidden_layers": (
        "Layers with hidden blocks",
        "how many do not see all blocks of a prompt, so that their heads come out as positional by construction",
    ),
}

SHARES = ("symbol_share", "origin_share", "place_share")
PARTS_OF_ONE = ("answers.svg", "shares.svg")


def render_survey(
    rows: Sequence[Row], settings: Mapping[str, Any], provenance: Mapping[str, Any], *, lists: str = ""
) -> str:
    """Render the page of a survey's rows, with what ``lists`` says of tasks; no figures where Matplotlib is missing."""
    measured = [row for row in rows if not row["refused"]]
    try:
        drawn = draw_survey_figures(measured) if measured else {}
    except ImportError:
        drawn = {}
    models = len({row["model"] for row in rows})
    columns = _select_columns(measured)
    return TEMPLATES.get_template("survey.html.j2").render(
        title="Heads of many models",
        measured=f"{format_count(models, 'model')} on {', '.join(settings['tasks'])}: "
        f"{format_count(len(measured), 'profile')}, {len(rows) - len(measured)} refused.",
        lists=lists,
        columns=columns,
        figures=drawn,
        drawable=bool(measured),
        measured_rows=[{**row, "cells": {name: _make_cell(row.get(name)) for name in columns}} for row in measured],
        refused_rows=[row for row in rows if row["refused"]],
        origin={
            **{name: value for name, value in settings.items() if value is not None and name != "tasks"},
            **{name: provenance[name] for name in ("date", "seconds")},
            "devices": ", ".join(sorted({row["device"] for row in measured})),
            "posym_core": f"{provenance['code_version']} (code {provenance['code_digest'][:12]})",
            **provenance["versions"],
        },
    )


def _select_columns(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Select the columns that a row has; shares only where they were asked for."""
    return {name: words for name, words in COLUMNS.items() if any(name in row for row in rows)}


def draw_survey_figures(rows: Sequence[Row]) -> dict[str, tuple[bytes, str, str]]:
    """Draw figures by file name: the SVG, its caption, and what it shows in words."""
    from posym_figures import plots

    several = len({row["task"] for row in rows}) > 1
    short = [shorten_name(row["model"]) for row in rows]
    labels = [f"{name}, {row['task']}" if several else name for name, row in zip(short, rows, strict=True)]
    drawn = {}
    for file, names, words in (
        ("laws.svg", ("correlation", "frequency_law"), "Correlation of both scores, and frequency law"),
        ("local_trends.svg", ("positional_local", "symbolic_local"), "Trend over layers that see a window"),
        ("global_trends.svg", ("positional_global", "symbolic_global"), "Trend over layers that see everything"),
        ("answers.svg", ("right", "slow_energy"), "Share of right answers, and of energy in slow planes"),
        ("shares.svg", SHARES, "Median share of symbol, origin and place in the variance of heads’ logits"),
    ):
        if names[0] not in _select_columns(rows):
            continue
        values, low, high = (np.array([[(row.get(name) or {}).get(end, np.nan) for row in rows] for name in names])
                             for end in ("value", "low", "high"))  # fmt: skip
        known = np.flatnonzero(np.isfinite(values).any(axis=0))
        if not known.size:
            continue
        shown = [labels[place] for place in known]
        figure = plots.dots(
            shown,
            values[:, known],
            lower=low[:, known],
            upper=high[:, known],
            series=[COLUMNS[name][0] for name in names],
            colours=("symbolic", "green", "positional") if names == SHARES else (),
            x_limits=(0, 1) if file in PARTS_OF_ONE else (-1, 1),
            reference=None if file in PARTS_OF_ONE else 0.0,
        )
        caption = f"{words}: a row a model, with 95% intervals."
        drawn[file] = render_svg(figure), caption, f"{caption} {_describe_ends(names, shown, values[:, known])}"
    return drawn


def _describe_ends(names: Sequence[str], labels: Sequence[str], values: np.ndarray) -> str:
    sentences = []
    for name, row in zip(names, values, strict=True):
        if np.isfinite(row).any():
            least, most = int(np.nanargmin(row)), int(np.nanargmax(row))
            ends = f"from {row[least]:.2f} ({labels[least]}) to {row[most]:.2f} ({labels[most]})"
            sentences.append(f"{COLUMNS[name][0]} reaches {ends}.")
    return " ".join(sentences)


def _make_cell(value: Any) -> dict[str, str]:
    """Make a cell's text, its interval, and what it is sorted by."""
    if value is None or value == []:
        return {"text": "", "interval": "", "sort": ""}
    if isinstance(value, Mapping):
        text, interval = f"{value['value']:.2f}", f"[{value['low']:.2f}, {value['high']:.2f}]"
        return {"text": text, "interval": interval, "sort": f"{value['value']:.6g}"}
    if isinstance(value, list):
        return {"text": ", ".join(f"{x:,g}" for x in value), "interval": "", "sort": f"{max(value):g}"}
    return {"text": f"{value:,}", "interval": "", "sort": str(value)}

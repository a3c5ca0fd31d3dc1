"""What axes must say: which way frequencies run, where positions count from, what bars of attention are a share of."""

from __future__ import annotations

import re
from typing import Any

FREQUENCIES = re.compile(r"frequency ID|angles? θ|\bangles? of|θ ·? ?n\b|radians per position|of the planes|1 / θ")
DIRECTIONS = ("fast to slow", "slow to fast")
UPRIGHT = ("fast above", "slow above")
POSITIONS = re.compile(r"\b(position|place|token|fact|block)\b")


def lacks_direction(label: str) -> bool:
    """Return whether a label names a frequency but not which way it runs."""
    return bool(FREQUENCIES.search(label)) and not any(way in label for way in DIRECTIONS + UPRIGHT)


def faults(data: dict[str, Any]) -> list[str]:
    """Return what is wrong with the axes of a slider figure, from the numbers that it carries."""
    found = []
    for panel in data["panels"]:
        title = panel["title"]
        for side in ("x_label", "y_label"):
            if lacks_direction(label := panel.get(side, "")):
                found.append(f"{title}: {label!r} does not say which way it runs")
        label = panel.get("x_label", "")
        if panel["kind"] == "lines" and (said := next((way for way in DIRECTIONS if way in label), None)):
            grows_slower = "frequency ID" in label or label.startswith("1 /")  # numbers grow to the right
            if said != DIRECTIONS[0 if grows_slower else 1]:
                found.append(f"{title}: {label!r} runs the other way")
        if panel["kind"] == "bars" and panel["title"].startswith("Attention") and not panel["y_label"]:
            size = panel["bars"] * (len(panel["series"]) if panel["stacked"] else 1)
            drawn = [value or 0 for value in panel["frames"]["v"]]
            most = max(sum(drawn[start : start + size]) for start in range(0, len(drawn), size))
            if most > 1.02:
                found.append(f"{title}: bars of attention add up to {most:.2f}, and no label says what they are")
        axes = {"heatmap": (("x_label", "column_labels"), ("y_label", "row_labels")), "bars": (("x_label", "labels"),)}
        for side, ticks in axes.get(panel["kind"], ()):
            label, texts = panel[side], panel[ticks]["v"]
            if not POSITIONS.search(label) or not texts or not all(text.isdecimal() or not text for text in texts):
                continue
            start = next(int(text) - place for place, text in enumerate(texts) if text)
            if start != ("from 1" in label):
                found.append(f"{title}: {label!r} begins at {start}")
    return found

"""The trainer: a toy with one layer and one head learns in the reader's browser, before the stored runs of a grid.

``toy.js`` is the model, its gradients and its optimiser in plain arrays, with the distributions, the initial spread and
the schedule of ``toys`` and ``index_retrieval``; ``toy_worker.js`` trains it
beside the page, and ``trainer.js`` draws. Chance is the browser's own, so a seed here is not the same seed in Python.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from posym_figures import Figure, join_scripts, render_page, require_shape, require_texts

__all__ = ["LENGTHS", "TASKS", "StoredRuns", "trainer"]

STATIC = Path(__file__).with_name("static")
TASKS: Mapping[str, str] = {"index": "Index (absolute)", "retrieval": "Retrieval", "induction": "Partial induction"}
"""Tasks that the trainer knows, with what readers call them."""
LENGTHS = (8, 64)
"""Fewest and most positions of a context."""
PAYLOAD_LIMIT = 500_000
"""Bytes of numbers of stored runs that a trainer may carry."""
# What the schedule in the browser needs of a TrainingSettings.
SCHEDULE = ("steps", "batch", "learning_rate", "warmup", "betas")
# Losses are means over so many steps; while a run goes on it is tested on so many inputs, and each of the three targets
# looked at on so many.
LOOKS = {"losses": 10, "inputs": 512, "probes": 32}


@dataclass(frozen=True, eq=False)
class StoredRuns:
    """Runs of a grid over angles, all else equal: what is drawn behind the reader's own."""

    task: str
    length: int
    _: KW_ONLY
    angles: Any
    accuracy: Any
    by_position: Any
    fixed: float | None = None

    def payload(self) -> dict[str, Any]:
        """Return means over seeds, with the lowest and the highest."""
        if self.task not in TASKS:
            raise ValueError(f"task of stored runs must be one of {', '.join(TASKS)}; got {self.task!r}")
        angles = require_shape("angles", self.angles, "angle")
        accuracy = require_shape("accuracy", self.accuracy, "seed", ("angle", len(angles)))
        places = require_shape(
            "by_position", self.by_position, ("seed", len(accuracy)), ("angle", len(angles)), ("position", self.length)
        )
        order = np.argsort(angles)
        asked = np.isfinite(places).all((0, 1))
        means = np.where(asked, np.nan_to_num(places).mean(0), -1)[order]
        return {
            "task": self.task,
            "length": self.length,
            "fixed": self.fixed,
            "seeds": len(accuracy),
            "angles": [float(f"{angle:.6g}") for angle in angles[order]],
            "mean": _short(accuracy.mean(0)[order]),
            "low": _short(accuracy.min(0)[order]),
            "high": _short(accuracy.max(0)[order]),
            # -1 where no answer stands
            "byPosition": [_short(row) for row in means],
        }


def _short(values: Any) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def trainer(
    stored: Sequence[StoredRuns] = (),
    *,
    training: Mapping[str, Any],
    caption: str,
    alt: str,
    symbols: int = 32,
    attributes: int = 8,
    repetition: int = 4,
    width: int = 64,
    test_inputs: int = 4096,
    task: str = "index",
    angles: Sequence[float] = (0.1,),
    length: int = 32,
    seed: int = 0,
) -> Figure:
    """Show a toy that the reader trains: loss, accuracy by position, attention and keys while it learns.

    Nothing is trained before the reader asks for it. The run is compared with those of ``stored`` of its task, length
    and planes; ``training`` are fields of a :class:`~posym_core.models.TrainingSettings`.
    """
    require_texts(caption=caption, alt=alt)
    if missing := [name for name in SCHEDULE if name not in training]:
        raise ValueError(f"training must say {', '.join(SCHEDULE)}; {', '.join(missing)} not given")
    counts = {"symbols": symbols, "attributes": attributes, "repetition": repetition, "width": width}
    for name, count in {**counts, "test_inputs": test_inputs}.items():
        if count < 2:
            raise ValueError(f"{name} must be 2 or more; got {count}")
    if repetition > LENGTHS[0]:
        raise ValueError(f"repetition must fit the shortest context of {LENGTHS[0]} positions; got {repetition}")
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
    if not LENGTHS[0] <= length <= LENGTHS[1]:
        raise ValueError(f"length must be {LENGTHS[0]} to {LENGTHS[1]} positions; got {length}")
    if len(angles) not in (1, 2) or not all(0 <= angle <= math.pi for angle in angles):
        raise ValueError(f"angles must be one or two numbers from 0 to pi; got {list(angles)}")
    data = {
        "stored": [runs.payload() for runs in stored],
        "training": {name: training[name] for name in SCHEDULE},
        "sizes": {"symbols": symbols, "attributes": attributes, "repetition": repetition},
        "width": width,
        "looks": {**LOOKS, "final": test_inputs},
        "lengths": LENGTHS,
        "names": TASKS,
        "classes": {"index": symbols, "retrieval": attributes, "induction": attributes},
    }
    html = render_page(
        STATIC / "trainer.html.j2",
        data,
        limit=PAYLOAD_LIMIT,
        too_much="the stored runs take {size:.1f} MB, but a trainer may carry {limit:.1f} MB; pass fewer of them",
        scripts=("core.js", "keep.js", STATIC / "charts.js", STATIC / "trainer.js"),
        styles=("figure.css", STATIC / "live.css"),
        worker=Markup(join_scripts(STATIC / "toy.js", STATIC / "toy_worker.js")),
        names=TASKS,
        lengths=LENGTHS,
        steps=training["steps"],
        first={"task": task, "length": length, "seed": seed, "angle": f"{angles[0]:g}"}
        | {"second": "".join(f"{angle:g}" for angle in angles[1:])},
        caption=caption,
        alt=alt,
    )
    return Figure(html=html, text=f"<trainer of {', '.join(TASKS.values())}: {alt}>")

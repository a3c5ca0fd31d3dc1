"""The experiments: every module in a subject's folder that has an ``EXPERIMENT``, found without importing any."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# By the beginning of their modules' names, which is how a chapter's dependences are found without running it.
SUBJECTS = (
    "posym_companion.one_head.",
    "posym_companion.several_hops.",
    "posym_companion.language_models.",
    "posym_companion.solvers.",
    "posym_companion.encodings.",
    "posym_companion.later.",
)


def _experiments() -> Iterator[tuple[str, str, str]]:
    for subject in SUBJECTS:
        for path in Path(__file__).parent.glob(f"{subject.split('.')[1]}/*.py"):
            text = path.read_text(encoding="utf-8")
            if "\nEXPERIMENT = " in text:
                yield path.stem, subject + path.stem, text.partition("\n")[0].strip('"').removesuffix(".")


_FOUND = sorted(_experiments())
MODULES = {name: module for name, module, _ in _FOUND}
"""Modules of the experiments."""
EXPERIMENTS = {name: said for name, _, said in _FOUND}
"""Subjects of the experiments: the first lines of their modules."""


def require_experiment(name: str) -> None:
    """Raise ValueError if no experiment has this name."""
    if name not in MODULES:
        raise ValueError(f"experiment must be one of {', '.join(map(repr, EXPERIMENTS))}; got {name!r}")


def experiment_module(name: str) -> Any:
    """Return the module of an experiment; raises as :func:`require_experiment`."""
    require_experiment(name)
    return importlib.import_module(MODULES[name])

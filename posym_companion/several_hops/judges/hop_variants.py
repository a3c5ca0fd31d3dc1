"""Judge of U26-9: are positional and symbolic heads necessary? From small models trained with planes that forbid them.

The rule was written before any of these models was trained.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from posym_companion.finding import Measured, Number
from posym_companion.results import Result, load_result
from posym_companion.several_hops.hop_variants import HopVariant
from posym_companion.several_hops.judges.multihop import write_kinds
from posym_core.metrics import classify_purity, mean_interval

SHOWN_IN = "book/several_hops/length.ipynb"
SOLVED = 0.9
# What is trained, by task and change, and what it cannot have: planes that do not turn hold no position, planes that
# all turn by half a radian or more a step hold no content over 17 tokens.
CASES = {
    ("number", "plain"): "Number with all planes",
    ("letter", "plain"): "Letter with all planes",
    ("number", "nope"): "Number without rotation",
    ("number", "slow"): "Number with slow planes only",
    ("number", "rotated6"): "Number with the fastest sixteenth of planes only",
    ("letter", "nope"): "Letter without rotation",
    ("letter", "fast"): "Letter with fast planes only",
}


def reaches(result: Result) -> list[int]:
    """Longest length tested up to which accuracy, mean over hops, stays at :data:`SOLVED`, by seed; 0 for none."""
    solved = (result["length_accuracy"].mean(2) >= SOLVED).cumprod(1).astype(bool)
    return [int(result["lengths"][row].max(initial=0)) for row in solved]


def mean_kinds(result: Result) -> np.ndarray:
    """1 for pure positional heads, -1 for pure symbolic ones, else 0, by scores averaged over stations and hops.

    Returns:
        ``[seed, layer, head]``.
    """
    positional, symbolic = (torch.from_numpy(np.nanmean(result[name], (1, 2))) for name in ("positional", "symbolic"))
    return classify_purity(positional, symbolic).numpy()


def necessity(folder: Path | None) -> Measured:
    """U26-9: accuracy, mean over hops, of models that cannot have one kind of head."""
    results = {
        name: load_result(HopVariant(task=task, change=change).name, folder=folder)
        for (task, change), name in CASES.items()
    }
    ours: dict[str, Number] = {name: mean_interval(result["test_accuracy"].mean(1)) for name, result in results.items()}
    for name, result in results.items():
        ours[f"{name}: longest sequence still solved, by seed"] = ", ".join(map(str, reaches(result)))
        ours[f"{name}: heads by layer, by seed"] = "; ".join(write_kinds(kind) for kind in mean_kinds(result))
    steps = HopVariant(task="number", change="plain").settings(seed=0).steps
    seeds = sorted({len(result["test_accuracy"]) for result in results.values()})
    return Measured(
        ours=ours,
        model="GPT-J of 4 layers with one head each, paths of one and two hops",
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        note=f"Small models, trained for {steps:,} steps; intervals over {' to '.join(map(str, seeds))} seeds. A task "
        "that is not solved in so many steps may be in more. Heads: P positional, S symbolic, a dot for neither.",
    )

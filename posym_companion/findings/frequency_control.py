"""Judges of the claims about toys that own chosen angles, from the stored experiment on frequency control."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from posym_companion.experiments.frequency_control import NAME
from posym_companion.findings.finding import Finding
from posym_core.metrics.stats import Estimate, mean_interval
from posym_core.runs.results import Result, load_result

MODEL = "one-layer attention-only toys, one or two angles a head"
SHOWN_IN = "book/one_head/success_by_frequency.ipynb"
LENGTH = 32
# A task counts as solved above this accuracy, and as failed below the other.
SOLVED, FAILED = 0.9, 0.5


def accuracy(result: Result, cell: str) -> np.ndarray:
    """Right answers over inputs, ``[seed, angle, position]``; NaN where a position was never asked for."""
    hits, asked = result[f"{cell}/hits"].astype(float), result[f"{cell}/asked"].astype(float)[:, None]
    return np.where(asked > 0, hits / np.maximum(asked, 1), np.nan)


def by_angle(result: Result, cell: str) -> np.ndarray:
    """Accuracy over all inputs, ``[seed, angle]``."""
    return result[f"{cell}/hits"].sum(-1) / result[f"{cell}/asked"].sum(-1)[:, None]


def u_index(result: Result, cell: str) -> np.ndarray:
    """Accuracy in the outer quarter of positions minus that in the middle quarter, ``[seed, angle]``.

    Above 0 is a U ("lost in the middle"), below 0 an inverse U.
    """
    by_position = accuracy(result, cell)
    positions = by_position.shape[-1]
    edge, middle = positions // 8, slice(positions // 2 - positions // 8, positions // 2 + positions // 8)
    ends = np.concatenate([by_position[..., :edge], by_position[..., -edge:]], axis=-1)
    return np.nanmean(ends, axis=-1) - np.nanmean(by_position[..., middle], axis=-1)


def frequency_decides(folder: Path | None) -> Finding:
    """U25-6: which angles solve which task."""
    result = load_result(NAME, folder=folder)
    index, retrieval, single, pair = (
        by_angle(result, f"{cell}_{LENGTH}")
        for cell in ("index_single", "retrieval_single", "induction_single", "induction_pair")
    )
    quarter = index.shape[1] // 4
    fast, slow = slice(None, quarter), slice(-quarter, None)

    def best(accuracies: np.ndarray) -> Estimate:
        """At the angle that is best on average over seeds, so that no seed is picked."""
        return mean_interval(accuracies[:, accuracies.mean(0).argmax()])

    ours = {
        "Index, fastest quarter of angles, best": best(index[:, fast]),
        "Index, slowest quarter, best": best(index[:, slow]),
        "Retrieval, fastest quarter, best": best(retrieval[:, fast]),
        "Retrieval, slowest quarter, best": best(retrieval[:, slow]),
        "Partial induction, any single angle, best": best(single),
        "Partial induction, angles 0 and theta, best": best(pair),
        "Partial induction, angles 0 and the fastest": mean_interval(pair[:, 0]),
        "Partial induction, angles 0 and the slowest": mean_interval(pair[:, -1]),
        "theta of the best pair": float(result["angles"][pair.mean(0).argmax()]),
    }
    solved = ("Index, fastest quarter of angles, best", "Retrieval, slowest quarter, best")
    failed = ("Index, slowest quarter, best", "Retrieval, fastest quarter, best")
    parts = {
        "Index only fast, Retrieval only slow": all(ours[name].low > SOLVED for name in solved)
        and all(ours[name].high < FAILED for name in failed),
        "Partial induction with 0 and a moderate angle only": (
            ours["Partial induction, angles 0 and theta, best"].low > SOLVED
            and ours["Partial induction, any single angle, best"].high < SOLVED
            and ours["Partial induction, angles 0 and the fastest"].high < SOLVED
            and ours["Partial induction, angles 0 and the slowest"].high < SOLVED
        ),
    }
    return Finding(
        ours=ours,
        model=MODEL,
        evidence=[NAME, SHOWN_IN],
        verdict="reproduced in kind" if all(parts.values()) else "not reproduced",
        note="; ".join(f"{part}: {'yes' if held else 'no'}" for part, held in parts.items())
        + f". {LENGTH} positions, {len(index)} seeds; solved is above {SOLVED:.0%}, failed below {FAILED:.0%}; "
        "details of the set-up are ours.",
    )


def accuracy_is_bent(folder: Path | None) -> Finding:
    """U25-7: U and inverse U at the angles that are too slow for Index and not slow enough for Retrieval."""
    result = load_result(NAME, folder=folder)
    angles = result["angles"]
    ours: dict[str, float | int | str | Estimate] = {}
    for length in sorted(result.settings["lengths"]):
        for task, cell in (("Index", f"index_single_{length}"), ("Retrieval", f"retrieval_single_{length}")):
            reached = by_angle(result, cell).mean(0)
            partly = (
                (angles * length <= math.pi) & (reached > reached.min() + 0.05) & (reached < SOLVED * reached.max())
            )
            ours[f"ends minus middle, {task}, {length} positions"] = mean_interval(
                u_index(result, cell)[:, partly].mean(1)
            )
    held = [
        estimate.low > 0 if "Index" in name else estimate.high < 0
        for name, estimate in ours.items()
        if isinstance(estimate, Estimate)
    ]
    return Finding(
        ours=ours,
        model=MODEL,
        evidence=[NAME, SHOWN_IN],
        verdict="reproduced in kind" if all(held) else "not reproduced",
        note=f"The sign is the paper's with an interval off zero in {sum(held)} of {len(held)} cases; mean over the "
        "angles with theta times length up to pi that solve the task in part; intervals over seeds.",
    )

"""Readings of the stored runs in which Gemma is taught to bind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, cases
from posym_companion.language_models.judges.binding_profile import MODEL
from posym_companion.solvers.taught_gemma import FACTS, WORDINGS, TaughtGemma
from posym_core.runs.results import Result, stored_results

SHOWN_IN = "book/language_model/gemma_learns.ipynb"
SEEDS = (0, 1, 2)
# A model solves the task if it answers this share of prompts right.
SOLVED = 0.9
PREDICTORS = ("s_SYM", "s_POS (low)", "symbolic share", "positional share (low)", "entropy (low)", "spread of logits")


def runs(folder: Path | None, kind: str = "none", *, right: bool = True, rule: str = "asked") -> list[Result]:
    """Stored runs of all seeds; of stopped planes those that are there, at least two."""
    names = [TaughtGemma(stopped=kind, right=right, rule=rule, seed=seed).name for seed in SEEDS]  # pyright: ignore
    return stored_results(names, folder, least=len(names) if kind == "none" else 2)


def after(results: list[Result]) -> dict[str, dict[str, np.ndarray]]:
    """What was measured after the last step, by seed and wording as the ledger calls them."""
    names = ("positional", "symbolic", "null_positional", "null_symbolic")
    bands = ("band_positional_share", "band_symbolic_share", "band_energy_share")
    return {
        f"seed {result.settings['seed']}, {wording}": {
            **{name: result[name][-1, place].astype(float) for name in (*names, *bands)},
            "correct": result["correct"][-1, place, FACTS.index(result.settings["facts"])].astype(float),
            "plane_angle": result["angles"],
        }
        for result in results
        for place, wording in enumerate(WORDINGS)
    }


def restored(result: Result, moment: int = -1) -> np.ndarray:
    """Share of the difference between two prompts that each head's output brings back, ``[layer, head]``."""
    other, clean = result["other_whole"][moment], result["clean_whole"][moment]
    return (result["answer_patched"][moment] - other[:, None, None]).sum(0) / (clean - other).sum()


def predictors(result: Result, snapshot: int = -1) -> dict[str, np.ndarray]:
    """What might tell which heads carry the task, ``[layer, head]``, the more the higher."""
    mean = {
        name: result[name][snapshot, 0].astype(float).mean(0)
        for name in ("symbolic", "positional", "symbolic_share", "positional_share", "entropy", "spread")
    }
    signs = (1, -1, 1, -1, -1, 1)
    return {name: sign * x for name, sign, x in zip(PREDICTORS, signs, mean.values(), strict=True)}


def lean(result: Result, snapshot: int) -> np.ndarray:
    """``s_POS - s_SYM`` on the taught wording, ``[layer, head]``."""
    positional, symbolic = (result[name][snapshot, 0].astype(float).mean(0) for name in ("positional", "symbolic"))
    return positional - symbolic


def measured(results: list[Result], ours: dict[str, Number], note: str, fails: list[str] | None = None) -> Measured:
    """Numbers of some runs, those with all planes first, and in how many settings these solve the task."""
    solved = {where: float(np.nanmean(x["correct"])) for where, x in after(results[: len(SEEDS)]).items()}
    numbers = {"settings solved": cases([x > SOLVED for x in solved.values()])}
    names = [result.name for result in results]
    return Measured(
        ours={**numbers, **ours},
        model=f"{MODEL}, taught to bind",
        evidence=[*names, SHOWN_IN],
        fails_in=fails or [],
        note=note,
    )

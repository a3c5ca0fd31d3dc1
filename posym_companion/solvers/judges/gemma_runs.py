"""Readings of the stored runs in which a language model is taught to bind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded
from posym_companion.language_models.judges.binding_profile import MODEL
from posym_companion.results import Result, load_result, load_stored_results
from posym_companion.solvers.prompt_scores import BANDS
from posym_companion.solvers.taught_answers import TaughtAnswers
from posym_companion.solvers.taught_gemma import FACTS, WORDINGS, TaughtGemma
from posym_companion.solvers.taught_profile import list_variant_settings
from posym_companion.verdicts import Remedy

SHOWN_IN = "book/language_model/gemma_learns.ipynb"
SEEDS = (0, 1, 2)
PREDICTORS = ("s_SYM", "s_POS (low)", "symbolic share", "positional share (low)", "entropy (low)", "spread of logits")


def load_runs(
    folder: Path | None, kind: str = "none", *, right: bool = True, rule: str = "asked", model: str = MODEL
) -> list[Result]:
    """Return stored runs of all seeds; of stopped planes those that are there, at least two, and of another model's
    controls those that are there.
    """
    names = [TaughtGemma(model=model, stopped=kind, right=right, rule=rule, seed=seed).name for seed in SEEDS]  # pyright: ignore
    control = not right or rule != "asked"
    return load_stored_results(
        names, folder, least=2 if kind != "none" else 0 if control and model != MODEL else len(names)
    )


def read_last_step(results: list[Result], folder: Path | None) -> dict[str, dict[str, np.ndarray]]:
    """Return what was measured after the last step, by seed and wording as the ledger calls them.

    Answers are those of the run and of :mod:`posym_companion.solvers.taught_answers`, where that was run.
    """
    names = ("positional", "symbolic", "null_positional", "null_symbolic")
    bands = ("band_positional_share", "band_symbolic_share", "band_energy_share")
    settings = {}
    for result in results:
        for place, wording in enumerate(WORDINGS):
            settings[f"seed {result.settings['seed']}, {wording}"] = {
                **{name: result[name][-1, place].astype(float) for name in (*names, *bands)},
                "correct": read_right_answers([result], wording, result.settings["facts"], folder),
                "plane_angle": result["angles"],
                # Single planes are scored on the taught wording.
                **({"plane_gap": plane_gap(result, -1)} if place == 0 else {}),
            }
    return settings


def load_further_answers(result: Result, folder: Path | None) -> list[Result]:
    """Return the further answers of a run's model, if it was asked for them."""
    more = TaughtAnswers(model=result.settings.get("model", MODEL), taught=result.settings["seed"])
    return load_stored_results([more.name], folder)


def read_right_answers(results: list[Result], wording: str, facts: int, folder: Path | None = None) -> np.ndarray:
    """Return which answers of some taught models are right, ``[prompt]``: of the runs, and those asked afterwards."""
    every = [
        x for one in results for x in (one["correct"][-1], *(y["correct"] for y in load_further_answers(one, folder)))
    ]
    asked = np.concatenate([x[WORDINGS.index(wording), FACTS.index(facts)].astype(float) for x in every])
    return asked[np.isfinite(asked)]


def plane_gap(result: Result, moment: int) -> np.ndarray:
    """Return ``s_SYM - s_POS`` of single planes, ``[layer, head, plane]``."""
    return (result["plane_symbolic"][moment] - result["plane_positional"][moment]).astype(float)


def taught_models(
    folder: Path | None, remedy: Remedy = "none", model: str = MODEL
) -> tuple[list[Result], dict[str, dict[str, np.ndarray]]]:
    """Return what the models that were taught to bind were measured with, and on, by seed and wording; see
    :func:`read_last_step`."""
    if remedy == "none":
        results = load_runs(folder, model=model)
        more = [one for result in results for one in load_further_answers(result, folder)]
        return [*results, *more], read_last_step(results, folder)
    settings = list_variant_settings(remedy, model)
    results = [load_result(setting.name, folder=folder) for setting in settings]
    return results, {
        f"seed {setting.taught}, {setting.profile.template}": average_in_bands(result)
        for setting, result in zip(settings, results, strict=True)
    }


def average_in_bands(result: Result) -> dict[str, np.ndarray]:
    """Return a profile on the binding task with its planes in bands, as :func:`read_last_step` has them."""
    names = ("positional", "symbolic", "null_positional", "null_symbolic", "correct")
    planes = {name: result[f"plane_{name}"][0].astype(float) for name in ("positional_share", "symbolic_share")}
    bands = {name: [np.nanmean(x, -1) for x in np.array_split(each, BANDS, -1)] for name, each in planes.items()}
    energy = np.array_split(np.nan_to_num(result["plane_energy_share"][0].astype(float)), BANDS, -1)
    bands["energy_share"] = [x.sum(-1) for x in energy]
    return {
        **{name: result[name].astype(float) for name in names},
        **{f"band_{name}": np.stack(each, -1) for name, each in bands.items()},
        "plane_gap": plane_gap(result, 0),
        "plane_angle": result["plane_angle"],
    }


def restored_share(result: Result, moment: int = -1) -> np.ndarray:
    """Return the share of the difference between two prompts that each head's output brings back, ``[layer, head]``."""
    other, clean = result["other_whole"][moment], result["clean_whole"][moment]
    return (result["answer_patched"][moment] - other[:, None, None]).sum(0) / (clean - other).sum()


def predictors(result: Result, snapshot: int = -1) -> dict[str, np.ndarray]:
    """Return what might tell which heads carry the task, ``[layer, head]``, the more the higher."""
    mean = {
        name: result[name][snapshot, 0].astype(float).mean(0)
        for name in ("symbolic", "positional", "symbolic_share", "positional_share", "entropy", "spread")
    }
    signs = (1, -1, 1, -1, -1, 1)
    return {name: sign * x for name, sign, x in zip(PREDICTORS, signs, mean.values(), strict=True)}


def look_at_taught(look: Look) -> dict[str, dict[str, np.ndarray]]:
    """Return the settings of :func:`taught_models`, with their results as evidence."""
    results, settings = taught_models(look.folder, look.remedy, look.model)
    look.record(*results)
    return settings


def yield_accuracy(settings: dict[str, dict[str, np.ndarray]]) -> Iterator[Yielded]:
    """Yield the share of right answers by seed and wording, by which rules ask whether the task is solved."""
    for where, measured in settings.items():
        yield "share answered right", where, float(np.nanmean(measured["correct"]))

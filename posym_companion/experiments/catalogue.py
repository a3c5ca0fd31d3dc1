"""The experiments by name; a new one needs a line in :data:`EXPERIMENTS` and a module that has an ``EXPERIMENT``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posym_companion.experiments.loop import Experiment, experiment_module
from posym_core.runs.results import Result

EXPERIMENTS = {
    "binding_direction": "the taught Gemma asked for facts whose attribute stands before the name, in words of its own",
    "binding_profile": "scores, exclusion, shares per plane and accuracy of a language model on binding prompts",
    "browser_models": "models trained and asked in a browser, beside the same in PyTorch",
    "encoding_optimisation": "largest stable learning rate and sharpness of the loss by encoding, all else equal",
    "encoding_study": "Distance and Count under every encoding, all else equal and as released, every head removed",
    "encoding_tasks": "one attention layer with every encoding on the canonical tasks, also at greater length",
    "family_solvers": "small language models of three architectures that learn binding and index, profiled",
    "frequency_control": "toy heads that own one angle, two or all, on the three canonical tasks",
    "frequency_surgery": "bands of angles set to 0, removed or moved in a language model",
    "gram_spectra": "eigenvalues of a language model's queries and keys without positions, under a kernel and rotated",
    "head_geometry": "queries and keys of a language model in its rotation planes",
    "head_explorer": "what the head explorer shows: inputs of two models, many temperatures and block lengths",
    "hop_length": "accuracy and attention of the trained multihop models against length",
    "hop_mechanism": "programs, ablations and rotation planes of the trained multihop models",
    "hop_prompts": "Number and Letter with one hop, put to a language model as text, at growing length",
    "hop_variants": "small multihop models with other heads, angles and training lengths",
    "later_claims": "claims of later papers: order, sums, slow planes, influence and binding in a language model",
    "multihop": "GPT-J models trained on the tasks Number and Letter, every head watched",
    "plane_profile": "every head and every plane of a language model at many lengths",
    "random_solvers": "scores of small decoders before any training, three draws at two lengths",
    "random_weights": "scores, frequency use and planes of a language model beside three draws of random weights",
    "score_robustness": "how scores depend on everything that is chosen when they are made",
    "solver_answers": "heads of decoders that solve binding and index, on answers that are right and that are wrong",
    "survey": "one table of plain, taught and untrained models, large and small, as the command survey makes it",
    "task_solvers": "decoders of one to four layers that learn binding and index, by band of angles; what heads do",
    "taught_gemma": "the packaged Gemma taught to bind, every head watched, patched and silenced",
}


def experiment(name: str) -> Experiment:
    """An experiment.

    Raises:
        ValueError: if there is none of this name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(map(repr, EXPERIMENTS))}; got {name!r}")
    return experiment_module(name).EXPERIMENT


def run_experiment(
    name: str, *, model: str | None = None, small: bool = False, folder: Path | str | None = None, **options: Any
) -> Iterator[Result]:
    """Run every setting of an experiment, and yield each result as it is kept.

    Args:
        name: one of :data:`EXPERIMENTS`.
        model: a language model, for experiments that take one; by default the packaged one.
        small: a size that runs in minutes; it needs a ``folder`` of its own, because its results have the same names.
        folder: of results; by default :func:`posym_core.runs.results.results_folder`.
        options: see :meth:`posym_companion.experiments.loop.Experiment.run`.

    Raises:
        ValueError: if the name is unknown, or something cannot be done with it.
    """
    found = experiment(name)
    if model is not None and not found.takes_model:
        raise ValueError(
            f"{name} has models of its own, so --model {model} has no place in it; leave it out. The experiments that "
            f"take a model are {', '.join(each for each in EXPERIMENTS if experiment(each).takes_model)}"
        )
    if small and folder is None:
        raise ValueError("the small size has the full size's names for its results; pass another --results folder")
    settings = list(found.settings() if model is None else found.settings(model))
    if small:
        settings = list({setting.name: setting for setting in map(found.small, settings)}.values())
    yield from found.run(settings, folder=folder, **options)

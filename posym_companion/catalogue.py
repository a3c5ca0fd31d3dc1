"""The experiments by subject; a new one needs a line in :data:`SUBJECTS` and a module that has an ``EXPERIMENT``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

# By the beginning of their modules' names, which is how a chapter's dependences are found without running it.
SUBJECTS: Mapping[str, Mapping[str, str]] = {
    "posym_companion.one_head.": {
        "frequency_control": "toy heads that own one angle, two or all, on the three canonical tasks",
        "head_geometry": "queries and keys of a language model in its rotation planes",
    },
    "posym_companion.several_hops.": {
        "browser_models": "models trained and asked in a browser, beside the same in PyTorch",
        "hop_length": "accuracy and attention of the trained multihop models against length",
        "hop_mechanism": "programs, ablations and rotation planes of the trained multihop models",
        "hop_prompts": "Number and Letter with one hop, put to a language model as text, at growing length",
        "hop_variants": "small multihop models with other heads, angles and training lengths",
        "multihop": "GPT-J models trained on the tasks Number and Letter, every head watched",
    },
    "posym_companion.language_models.": {
        "binding_profile": "scores, exclusion, shares per plane and accuracy of a language model on binding prompts",
        "frequency_surgery": "bands of angles set to 0, removed or moved in a language model",
        "head_explorer": "what the head explorer shows: inputs of two models, many temperatures and block lengths",
        "origin_patching": "symbol or origin of two facts' keys exchanged, in a plain and a taught language model",
        "origins": "symbol, origin and place of what heads follow, on lists of facts and on prose",
        "plane_profile": "every head and every plane of a language model at many lengths",
        "random_weights": "scores, frequency use and planes of a language model beside three draws of random weights",
        "score_robustness": "how scores depend on everything that is chosen when they are made",
    },
    "posym_companion.solvers.": {
        "binding_direction": "the taught Gemma asked for facts whose attribute comes before the name, in its own words",
        "family_solvers": "small language models of three architectures that learn binding and index, profiled",
        "origin_solvers": "symbol, origin and place in small decoders that answer binding and index",
        "random_solvers": "scores of small decoders before any training, three draws at two lengths",
        "solver_answers": "heads of decoders that solve binding and index, on right and on wrong answers",
        "survey": "one table of plain, taught and untrained models, large and small, as the command survey makes it",
        "task_solvers": "decoders of one to four layers that learn binding and index, by band of angles; what heads do",
        "taught_gemma": "the packaged Gemma taught to bind, every head watched, patched and silenced",
        "taught_profile": "the taught Gemma on binding prompts behind facts of the same frame, and with frames varied",
    },
    "posym_companion.encodings.": {
        "encoding_optimisation": "largest stable learning rate and sharpness of the loss by encoding, all else equal",
        "encoding_study": "Distance and Count under every encoding, all else equal and as released, every head removed",
        "encoding_tasks": "one attention layer with every encoding on the canonical tasks, also at greater length",
        "gram_spectra": "eigenvalues of a language model's queries and keys: no positions, under a kernel, rotated",
    },
    "posym_companion.later.": {
        "later_claims": "claims of later papers: order, sums, slow planes, influence and binding in a language model",
    },
}
# What each experiment measures, by its name.
EXPERIMENTS = dict(sorted((name, said) for each in SUBJECTS.values() for name, said in each.items()))


def experiment_module(name: str) -> Any:
    """The module of an experiment.

    Raises:
        ValueError: if there is none of this name.
    """
    for folder, names in SUBJECTS.items():
        if name in names:
            return importlib.import_module(folder + name)
    raise ValueError(f"experiment must be one of {', '.join(map(repr, EXPERIMENTS))}; got {name!r}")

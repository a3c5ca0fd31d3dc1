"""Which kinds of heads a solved task needs: all pure positional layers of a model removed together, or all symbolic.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), abstract: Number requires both positional and
symbolic heads, Letter symbolic ones alone; and sections 3.4 and 3.6: pure heads are critical. A single head that is
removed says little where others do its work, so whole kinds are removed together. Models have one head a layer, and its
kind is that of its scores at the end of training, as U26-2 has it. A removed head says its mean over the test sequences
in place of its output, or nothing.

The rule, fixed before these runs, after a look at greedy removals from all models and at joint ones from Number's
seed 0 and Letter's seeds 0 and 1 (accuracy of Number without positional layers .35 and without symbolic ones 1.00, of
Letter without symbolic ones .02). A model *needs* a kind if without all layers of it the accuracy, averaged over one
to four hops, is below .9 with its 95% interval over sequences, by means and by nothing alike; it *does not need* it
if the accuracy is above .9 in both ways. A model that has no layer of a kind does not need it. The claim has four
parts: Number needs positional heads, Number needs symbolic heads, Letter needs symbolic heads, Letter does not need
positional heads. A part holds if all five seeds agree with it, is refuted if all five say the opposite, and depends
on the model otherwise; while a seed has not been run it is undecided. Two controls, by means: without the kind
accuracy is lower than without as many layers drawn at random (mean over draws), and no higher than without the second
worst run of as many neighbouring layers; where the latter fails, depth may be the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posym_companion.experiments import Experiment
from posym_companion.results import Result, load_result, work_folder
from posym_companion.several_hops import multihop
from posym_companion.several_hops.gptj import average_outputs, run_with_edits
from posym_companion.several_hops.multihop import TEST, MultihopSettings, load_weights, train_model
from posym_core.metrics import classify_purity

DIMS = {
    "kind": "layer",
    "removed": "set layer",
    "right": "way set sequence",
    "hops": "sequence",
}
SETS = ("none", "positional", "symbolic", "mixed", "all but positional", "all but symbolic")
GAMMA = 0.1
SCORES = ("positional", "symbolic")


@dataclass(frozen=True, kw_only=True)
class HopKinds:
    """One trained model.

    Attributes:
        model: name of its result.
        sequences: of the test, in equal parts of every number of hops.
        draws: random sets of as many layers, for each of the two pure kinds.
    """

    model: str
    sequences: int = 1200
    draws: int = 24

    @property
    def name(self) -> str:
        return self.model.replace("multihop", "hop_kinds", 1)


def full_size() -> list[HopKinds]:
    """Return one setting for each model of the paper's size; there is no ``model`` to choose."""
    return [HopKinds(model=setting.name) for setting in multihop.paper_size()]


def find_model(name: str, *, device: str = "auto", folder: Path | str | None = None) -> tuple[Any, Result]:
    """Return a model and its result: loaded where its weights are kept, else trained again.

    Raises:
        ValueError: if the model that was trained again is not the stored one, by its accuracy on the test sequences.
    """
    stored = load_result(name, folder=folder)
    settings = MultihopSettings.stored(stored.settings)
    if settings.files_kept:
        return load_weights(name, folder=folder, device=device)[0], stored
    # What is watched while a model learns changes nothing in it.
    watched_less = replace(settings, look_every=settings.steps, checkpoint_every=settings.steps, monitored=1)
    work = work_folder(HopKinds(model=name).name, folder=folder)
    trained = train_model(watched_less, device=device, checkpoint=work / "training.safetensors")
    if not np.allclose(trained.arrays["test_accuracy"], stored["test_accuracy"], atol=0.02):
        now, then = (x.round(3) for x in (trained.arrays["test_accuracy"], stored["test_accuracy"]))
        raise ValueError(f"{name}, trained again, has a test accuracy of {now} in place of {then}: another model")
    return trained.model, stored


def list_sets(kinds: np.ndarray, draws: int) -> np.ndarray:
    """Return which layers are removed together ``[set, layer]``: :data:`SETS`, each layer alone, and as controls for
    each pure kind ``draws`` random sets of as many layers, and all sets of as many neighbouring ones.
    """
    layers, pure = len(kinds), (kinds == 1, kinds == -1)
    sets = [np.zeros(layers, bool), *pure, kinds == 0, ~pure[0], ~pure[1], *np.eye(layers, dtype=bool)]
    generator = np.random.default_rng(0)
    for kind in pure:
        first = np.arange(layers) < kind.sum()
        sets += [generator.permutation(first) for _ in range(draws)]
        sets += [np.roll(first, shift) for shift in range(layers - kind.sum() + 1)]
    return np.stack(sets)


def measure(model: Any, run: Result, setting: HopKinds, *, progress: bool = False) -> dict[str, np.ndarray]:
    """Return which sequences are answered rightly ``right [way, set, sequence]`` without each set of layers, by means
    and by nothing, with ``removed [set, layer]``, the ``kind`` of each layer and the ``hops`` of each sequence.
    """
    from tqdm import tqdm

    positional, symbolic = (torch.from_numpy(np.nanmean(run[name][-1], axis=(0, 1))) for name in SCORES)
    kinds = classify_purity(positional, symbolic, GAMMA).numpy()[:, 0]
    batch = MultihopSettings.stored(run.settings).sample(setting.sequences, TEST)
    tokens = batch.tokens.to(model.device)
    means, sets = average_outputs(model, tokens), list_sets(kinds, setting.draws)

    def mark(removed: np.ndarray, share: float) -> np.ndarray:
        output = {(layer, 0): share * means[layer, 0] for layer in np.flatnonzero(removed).tolist()}
        return (run_with_edits(model, tokens, output=output).argmax(-1).cpu() == batch.answer).numpy()

    bar = tqdm(sets, desc=setting.name, disable=not progress, leave=False)
    right = np.stack([[mark(removed, share) for share in (1.0, 0.0)] for removed in bar], axis=1)
    return {"kind": kinds, "removed": sets, "right": right, "hops": batch.hops.numpy()}


EXPERIMENT = Experiment(
    settings=full_size,
    small={"model": multihop.small_model, "sequences": 120, "draws": 4},
    measure=measure,
    dims=DIMS,
    load=find_model,
)

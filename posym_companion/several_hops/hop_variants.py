"""Beside the paper: do heads become pure with several heads a layer, and which change lets Number reach further?

Small models of the paper's kind, trained alike but for one thing at a time: heads a layer, base, share of rotating
planes (p-RoPE), scale of all angles (position interpolation), or letters in front of the window while training. One
result for every change, with all its seeds, one after another; what was killed resumes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posym_companion.experiments import Experiment
from posym_companion.several_hops import hop_length
from posym_companion.several_hops.hop_scores import capture_layers
from posym_companion.several_hops.multihop import TEST, MultihopSettings, train_model
from posym_companion.several_hops.programs import agreement

# Every change, by the task and the name of its result.
VARIANTS: dict[tuple[str, str], dict[str, Any]] = {
    ("number", "plain"): {},
    ("number", "extra47"): {"extra": 47},
    ("number", "scale4"): {"scale": 1 / 4},
    ("number", "base100"): {"base": 100.0},
    ("number", "rotated6"): {"rotated": 0.0625},
    ("number", "4heads"): {"heads": 4},
    ("number", "nope"): {"rotated": 0.0},
    ("number", "slow"): {"scale": 0.01},
    ("letter", "plain"): {},
    ("letter", "4heads"): {"heads": 4},
    ("letter", "nope"): {"rotated": 0.0},
    ("letter", "fast"): {"base": 2.0},
}
LENGTHS = (17, 24, 28, 32, 36, 40, 44, 48, 56, 64, 96, 128, 256, 850)
SEEDS = (0, 1)
# Where it is asked whether a task is solved at all, by task and change: three seeds.
NECESSITY = {
    *(("number", change) for change in ("plain", "nope", "slow", "rotated6")),
    *(("letter", change) for change in ("plain", "nope", "fast")),
}
DIMS = {
    "lengths": "length",
    "learned": "seed",
    "test_accuracy": "seed hop",
    "positional symbolic": "seed hop station layer head",
    "hits": "seed layer head candidate",
    "length_accuracy": "seed length hop",
    "foretold": "seed length layer head",
}


@dataclass(frozen=True, kw_only=True)
class HopVariant:
    """One change, trained with every seed.

    Attributes:
        task: ``"number"`` or ``"letter"``.
        change: key of :data:`VARIANTS`.
        seeds: of the models.
        train: sequences of the training.
        lengths: tokens of the sequences of the test at length.
        sequences: at each length.
    """

    task: str
    change: str
    seeds: tuple[int, ...] = SEEDS
    train: int = 64 * 1500
    lengths: tuple[int, ...] = LENGTHS
    sequences: int = 200

    def __post_init__(self):
        if (self.task, self.change) not in VARIANTS:
            known = ", ".join(f"{task}/{change}" for task, change in VARIANTS)
            raise ValueError(f"variants are {known}; got {self.task}/{self.change}")

    @property
    def name(self) -> str:
        return f"hop_variants/{self.task}_{self.change}"

    def settings(self, seed: int) -> MultihopSettings:
        """Return those of one model."""
        changed = VARIANTS[self.task, self.change]
        return MultihopSettings.small(
            task=self.task,  # pyright: ignore[reportArgumentType]
            seed=seed,
            variant=self.change,
            train=self.train,
            **changed,
        )


def full_size() -> list[HopVariant]:
    """Return all changes; there is no ``model`` to choose."""
    return [
        HopVariant(task=task, change=change, seeds=(0, 1, 2) if (task, change) in NECESSITY else SEEDS)
        for task, change in VARIANTS
    ]


def measure(
    setting: HopVariant, *, device: str = "auto", work: Path | None = None, progress: bool = False
) -> dict[str, np.ndarray]:
    """Train the models of one change, and look at them.

    Returns:
        With a leading ``seed`` each: ``test_accuracy [hop]``; ``learned``, the first step at which the accuracy of
        every number of hops is above 0.95, NaN if none; at the last checkpoint ``positional`` and ``symbolic``
        ``[hop, station, layer, head]``; ``hits [layer, head, candidate]`` of
        :func:`posym_companion.several_hops.programs.agreement`; ``length_accuracy [length, hop]`` and ``foretold
        [length, layer, head]`` of :func:`posym_companion.several_hops.hop_length.measure`. And ``lengths``.
    """
    runs: list[dict[str, np.ndarray]] = []
    for seed in setting.seeds:
        settings, checkpoint = setting.settings(seed), work / f"{seed}.safetensors" if work is not None else None
        trained = train_model(settings, device=device, checkpoint=checkpoint, progress=progress)
        arrays = trained.arrays
        solved = (arrays["look_accuracy"] > 0.95).all(1)
        batch = settings.sample(400, TEST)
        attention = capture_layers(trained.model, batch.tokens).attention().cpu()
        asked = hop_length.HopLength(model=settings.name, lengths=setting.lengths, sequences=setting.sequences)
        reach = hop_length.measure(trained.model, settings, asked)
        runs.append(
            {
                "test_accuracy": arrays["test_accuracy"],
                "learned": np.array(float(arrays["look_step"][solved.argmax()]) if solved.any() else np.nan),
                **{name: arrays[name][-1] for name in ("positional", "symbolic")},
                "hits": agreement(attention, batch.tokens, settings.make_task(), hops=settings.hops).hits.numpy(),
                "length_accuracy": reach["accuracy"],
                "foretold": reach["foretold"],
            }
        )
    return {"lengths": np.array(setting.lengths), **{name: np.stack([x[name] for x in runs]) for name in runs[0]}}


EXPERIMENT = Experiment(
    settings=full_size, small={"seeds": (0,), "train": 64 * 100, "lengths": (17, 32)}, measure=measure, dims=DIMS
)

"""Distance and Count under every encoding: all else equal, and as released with what else differs there.

After Gu et al., *Deconstructing Positional Information* (2026). In their released models more differs than the
encoding: attention and pooling include padding, the rotary model also adds sinusoids to the embeddings, and the model
with latent attention has a learned absolute embedding, another activation and another schedule besides, and leaves out
padding. Every such difference is a set-up of its own here, so that its effect can be read off.

Further set-ups are ours: heads that look back only (PaTH knows no others, so its peers are these), models in which a
single head of each layer rotates, and longer training where the usual one is short.

The reduced size, for a CPU, has half the paper's lengths, two layers of eight heads and fresh sentences at every
step; ``"deep"`` is the same with the paper's six layers of sixteen heads; ``"long"`` has two layers of eight heads, the
paper's lengths and dropout, and ten times the steps, and ``"undropped"`` is that without dropout; ``"paper"`` is theirs
throughout, but for fresh sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from posym_companion.encodings.pointers import head_pointers
from posym_companion.experiments import Experiment
from posym_core.encodings import ENCODINGS
from posym_core.models import (
    ClassLoss,
    CosineSettings,
    EncodingModel,
    History,
    ModelSettings,
    Observer,
    TrainingSettings,
    ablate_each_head,
    place_in_first_head,
    predict_classes,
    train,
)
from posym_core.store import choose_device
from posym_core.tasks import CountTask, DistanceTask, SentenceBatch

StudyTask = Literal["distance", "count"]
Size = Literal["reduced", "deep", "long", "undropped", "paper"]
SIZES: Mapping[Size, Mapping[str, Any]] = {
    "reduced": {"layers": 2, "width": 64, "heads": 8, "hidden": 128, "rank": 16, "dropout": 0.0},
    "deep": {"layers": 6, "width": 128, "heads": 16, "hidden": 256, "rank": 32, "dropout": 0.0},
    "long": {"layers": 2, "width": 64, "heads": 8, "hidden": 128, "rank": 16, "dropout": 0.1},
    "undropped": {"layers": 2, "width": 64, "heads": 8, "hidden": 128, "rank": 16, "dropout": 0.0},
    "paper": {"layers": 6, "width": 256, "heads": 16, "hidden": 512, "rank": 64, "dropout": 0.1},
}
TASKS: tuple[StudyTask, ...] = get_args(StudyTask)
TESTING = 1_000_003  # offset of the seeds of test sentences

# What a set-up changes of the model; "length" and "batch" are factors on the schedule.
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "path": {"encoding": "path", "causal": True},
    "rope-one-head": {"encoding": "one rope"},
    "nope-released": {"encoding": "nope", "mask_padding": False},
    "sinusoidal-released": {"encoding": "sinusoidal", "mask_padding": False},
    "alibi-released": {"encoding": "alibi", "mask_padding": False},
    "rope-released": {"encoding": "rope", "mask_padding": False, "added": "sinusoidal"},
    "rope-added": {"encoding": "rope", "added": "sinusoidal"},
    "rope-unmasked": {"encoding": "rope", "mask_padding": False},
    "mla-released": {"encoding": "mla", "added": "learned", "activation": "relu", "length": 2, "batch": 0.5},
    "mla-added": {"encoding": "mla", "added": "learned"},
    "mla-longer": {"encoding": "mla", "length": 2, "batch": 0.5},
    "rope-causal": {"encoding": "rope", "causal": True},
    "nope-causal": {"encoding": "nope", "causal": True},
    "rope-one-head-longer": {"encoding": "one rope", "length": 3},
    "learned-longer": {"encoding": "learned", "length": 3},
    "t5-longer": {"encoding": "t5", "length": 3},
}
RELEASED: Mapping[str, str] = {
    "nope": "nope-released",
    "sinusoidal": "sinusoidal-released",
    "alibi": "alibi-released",
    "rope": "rope-released",
    "mla": "mla-released",
}
"""Encodings of the paper and their set-ups as released."""
DEEP = ("rope",)
"""Set-ups whose heads are removed in deeper models too, on Distance."""
LONG: Sequence[tuple[StudyTask, str]] = (
    ("distance", "rope"),
    ("distance", "mla"),
    ("distance", "rope-one-head"),
    ("distance", "nope"),
    ("count", "rope"),
)
"""Tasks and set-ups whose heads are removed once more after a training to the end, at the paper's lengths."""
SLOW = ("rope-one-head-longer", "learned-longer", "t5-longer")
"""Set-ups trained three times as long, on Distance: does more training help where the usual number of steps is few?"""
MORE_SEEDS = {("distance", "rope"), ("distance", "rope-released")}
"""Where single heads are ranked, which needs more models."""
DIMS = {
    "accuracy error whole": "seed",
    "losses": "seed record",
    "ablated averaged between positional symbolic *_share deviation mean_frequency": "seed layer head",
}


def list_setups() -> Mapping[str, Mapping[str, Any]]:
    """Return every set-up: each encoding with nothing else changed (``"path"`` looks back only), then changes."""
    return {**{name: {"encoding": name} for name in ENCODINGS}, **CHANGES}


@dataclass(frozen=True, kw_only=True)
class EncodingStudy:
    """One set-up on one task, with every seed.

    Attributes:
        task: ``"distance"`` or ``"count"``.
        setup: one of :func:`list_setups`.
        seeds: of weights and sentences.
        size: ``"reduced"``, ``"deep"``, ``"long"``, ``"undropped"`` or ``"paper"``.
        steps: of the training; the paper's 100 epochs of 100,000 sentences are 19,532 steps with a batch of 512.
        batch: sentences a step.
        test: fresh sentences that the accuracy is measured on.
        ablated: sentences that ablations are measured on.
        pointed: sentences that heads are looked at on.
    """

    task: StudyTask
    setup: str
    seeds: tuple[int, ...] = (0, 1, 2)
    size: Size = "reduced"
    steps: int = 600
    batch: int = 32
    test: int = 2000
    ablated: int = 500
    pointed: int = 20

    def __post_init__(self):
        if self.task not in TASKS or self.size not in get_args(Size):
            raise ValueError(
                f"task must be one of {TASKS} and size one of {get_args(Size)}; got {self.task!r} and {self.size!r}"
            )
        if self.setup not in list_setups():
            raise ValueError(f"setup must be one of {', '.join(map(repr, list_setups()))}; got {self.setup!r}")
        if has_no_meaning(self.task, self.setup):
            raise ValueError(
                f"Count has no padding, so {self.setup!r} is {same_without_padding(self.setup)!r} once more; pass that"
            )

    @property
    def name(self) -> str:
        return f"encoding_study/{self.task}_{self.setup}" + ("" if self.size == "reduced" else f"_{self.size}")

    def make_task(self) -> DistanceTask | CountTask:
        """Return the task, at the paper's size or at half its lengths."""
        if self.size in ("long", "undropped", "paper"):
            return DistanceTask() if self.task == "distance" else CountTask()
        if self.task == "distance":
            return DistanceTask(distances=35, side=12, longest=60, vocabulary=256)
        return CountTask(most=50, longest=60, shortest=60, vocabulary=256)

    def model_settings(self) -> ModelSettings:
        """Return the model."""
        changes = {name: value for name, value in list_setups()[self.setup].items() if name not in ("length", "batch")}
        sizes, task = SIZES[self.size], self.make_task()
        if changes["encoding"] == "one rope":
            changes["encoding"] = place_in_first_head("rope", sizes["heads"])
        return ModelSettings(vocabulary=task.vocabulary, classes=task.classes, length=task.longest, **sizes, **changes)

    def schedule(self) -> CosineSettings:
        """Return how it is trained."""
        setup = list_setups()[self.setup]
        return CosineSettings(
            steps=int(self.steps * setup.get("length", 1)),
            batch=int(self.batch * setup.get("batch", 1)),
            learning_rate={"deep": 1e-3, "paper": 3e-4}.get(self.size, 3e-3),
            warmup=self.steps // (20 if self.size == "paper" else 6),
            betas=(0.9, 0.98),
            record_every=min(25, self.steps),
        )


def has_no_meaning(task: StudyTask, setup: str) -> bool:
    """Return whether a set-up differs from another in the treatment of padding alone, on the task that has none."""
    return task == "count" and same_without_padding(setup) != setup


def same_without_padding(setup: str) -> str:
    """Return the set-up that is the same where no sentence is padded.

    >>> same_without_padding("rope-released"), same_without_padding("alibi-released")
    ('rope-added', 'alibi')
    """
    plain = {name: value for name, value in list_setups()[setup].items() if name != "mask_padding"}
    return next((name for name, other in list_setups().items() if dict(other) == plain), setup)


def full_size() -> list[EncodingStudy]:
    """Return all set-ups on both tasks at the reduced size, some deeper; there is no ``model`` to choose."""
    settings = []
    for setup in list_setups():
        for task in TASKS:
            if has_no_meaning(task, setup) or (task == "count" and setup in SLOW):
                continue
            seeds = tuple(range(8 if (task, setup) in MORE_SEEDS else 3))
            settings.append(EncodingStudy(task=task, setup=setup, seeds=seeds))
    settings += [*(deep_size(setup) for setup in DEEP), *(long_size(task, setup) for task, setup in LONG)]
    return [*settings, long_size("count", "rope", size="undropped")]


def deep_size(setup: str) -> EncodingStudy:
    """Return Distance with the paper's layers and heads; fewer sentences, since six times as many heads are removed."""
    return EncodingStudy(task="distance", setup=setup, size="deep", steps=400, test=1000, ablated=200, pointed=10)


def long_size(task: StudyTask, setup: str, size: Size = "long") -> EncodingStudy:
    """Return the paper's lengths and dropout, or lengths alone, and ten times the steps of the reduced size."""
    return EncodingStudy(task=task, setup=setup, size=size, steps=6000)


def train_model(
    setting: EncodingStudy,
    seed: int,
    *,
    schedule: TrainingSettings | None = None,
    observe: Observer | None = None,
    device: str = "auto",
    checkpoint: Path | None = None,
    progress: bool = False,
) -> tuple[EncodingModel, History]:
    """One model in evaluation mode, and what happened in its training."""
    task = setting.make_task()
    loss = ClassLoss(EncodingModel(setting.model_settings(), seed=seed)).to(choose_device(device))
    place = torch.device(choose_device(device))

    def draw(count: int, generators: Sequence[torch.Generator]) -> tuple[SentenceBatch, int]:
        sentences = task.sample(count, generator=generators[0])
        number = int(torch.randint(2**31, (), generator=generators[0]))
        return SentenceBatch(tokens=sentences.tokens.to(place), answer=sentences.answer.to(place)), number

    with torch.random.fork_rng(devices=[]):
        history = train(
            loss,
            draw,
            generators=[torch.Generator().manual_seed(seed)],
            settings=schedule or setting.schedule(),
            observe=observe,
            checkpoint=checkpoint,
            identity={"name": setting.name, "seed": seed},
            progress=progress,
            label=f"{setting.task} {setting.setup} {seed}",
        )
    return loss.model.eval(), history


def measure(
    setting: EncodingStudy, *, device: str = "auto", work: Path | None = None, progress: bool = False
) -> dict[str, np.ndarray]:
    """Train the models of one set-up, and look at them.

    Returns:
        With a leading ``seed`` each: ``accuracy []``; ``error []``, the mean distance of the answer from the right
        one; ``losses [record]``; on the sentences of the ablations accuracies, ``whole
        []`` and with a head's output replaced by zero, ``ablated [layer, head]``, or by its mean, ``averaged [layer,
        head]``; and for Distance the pointers of
        :func:`posym_companion.encodings.pointers.head_pointers`, ``[layer, head]`` each.
    """
    runs: list[dict[str, np.ndarray]] = []
    for seed in setting.seeds:
        checkpoint = work / f"{seed}.safetensors" if work is not None else None
        model, history = train_model(setting, seed, device=device, checkpoint=checkpoint, progress=progress)
        runs.append({"losses": history.losses.double().numpy(), **measure_model(setting, model, seed)})
    return {name: np.stack([each[name] for each in runs]) for name in runs[0]}


def measure_model(setting: EncodingStudy, model: EncodingModel, seed: int) -> dict[str, np.ndarray]:
    """Return accuracy, ablations and pointers of one trained model."""
    task = setting.make_task()

    def sentences(count: int, offset: int) -> SentenceBatch:
        return task.sample(count, generator=torch.Generator().manual_seed(TESTING * (1 + offset) + seed))

    test = sentences(setting.test, 0)
    answers = predict_classes(model, test)
    right = (answers == test.answer).double()
    removed = sentences(setting.ablated, 1)
    whole, ablated = ablate_each_head(model, removed)
    arrays: dict[str, Any] = {
        "accuracy": right.mean(),
        "error": (answers - test.answer).abs().double().mean(),
        "whole": whole,
        "ablated": ablated,
        "averaged": ablate_each_head(model, removed, by="mean")[1],
    }
    if setting.task == "distance":
        arrays.update(head_pointers(model, sentences(setting.pointed, 2)))
    return {name: np.asarray(value, dtype=np.float64) for name, value in arrays.items()}


EXPERIMENT = Experiment(
    settings=full_size,
    small={"seeds": (0, 1, 2), "steps": 20, "test": 100, "ablated": 50, "pointed": 1},
    measure=measure,
    dims=DIMS,
)

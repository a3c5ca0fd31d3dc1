"""What to train on Number and Letter, how, and what to watch: settings of :mod:`posym_core.experiments.multihop`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.rope import rope_angles
from posym_core.sequence_models import decoder
from posym_core.tasks.multihop import LetterTask, MultihopBatch, NumberTask
from posym_core.tasks.prompts import require_counts
from posym_core.toys import data_generators
from posym_core.training import LinearSettings

TRAINING, NOISE, VALIDATION, TEST, MONITOR = range(5)  # purposes of generators
TASKS = {"number": NumberTask, "letter": LetterTask}


@dataclass(frozen=True, kw_only=True)
class MultihopSettings:
    """One model: what to train it on, how, and what to watch.

    Attributes:
        task: ``"number"`` or ``"letter"``.
        seed: of the weights and, by purpose, of all data.
        hops: longest path.
        window: tokens of the target window.
        steps_back: tokens between that window and the query.
        layers: layers of the model.
        heads: heads a layer.
        width: of the residual stream.
        dropout: everywhere, while training.
        base: RoPE base, which with the width of a head gives its angles.
        rotated: share of the planes that rotate, fastest first; the others get angle 0 (p-RoPE).
        scale: factor of all angles; below 1 every plane turns more slowly (position interpolation).
        extra: most tokens in front of the target window while training; every batch draws its number of them evenly.
            Validation and test sequences have none.
        train: training sequences, each seen once.
        validation: sequences for the accuracy at checkpoints.
        test: sequences for the final accuracy.
        batch: sequences a step.
        learning_rate: of AdamW, reached after ``warmup`` steps and then lowered to 0 along a line.
        warmup: steps of linear rise.
        betas: AdamW's decay rates.
        weight_decay: AdamW's.
        checkpoint_every: steps between regular checkpoints, at which heads are scored.
        look_every: steps between looks at the accuracy.
        look: validation sequences of a look.
        turn: a look that finds any accuracy further than this from the last checkpoint's makes one more.
        monitored: sequences of each number of hops on which heads are scored.
        save_every: steps between saves that a killed run resumes from.
        variant: added to the result's name when anything but task and seed is changed.
    """

    task: Literal["number", "letter"] = "number"
    seed: int = 0
    hops: int = 4
    window: int = 8
    steps_back: int = 8
    layers: int = 12
    heads: int = 1
    width: int = 128
    dropout: float = 0.1
    base: float = 10000.0
    rotated: float = 1.0
    scale: float = 1.0
    extra: int = 0
    train: int = 432_000
    validation: int = 2_400
    test: int = 45_600
    batch: int = 64
    learning_rate: float = 1e-4
    warmup: int = 750
    betas: tuple[float, float] = (0.95, 0.999)
    weight_decay: float = 1e-4
    checkpoint_every: int = 250
    look_every: int = 50
    look: int = 400
    turn: float = 0.1
    monitored: int = 16
    save_every: int = 250
    variant: str = ""

    def __post_init__(self):
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}; got {self.task!r}")
        for name in ("validation", "test", "look", "monitored", "checkpoint_every", "look_every", "save_every"):
            require_counts(**{name: (getattr(self, name), 1)})
        if self.train < self.batch:
            raise ValueError(f"train={self.train} sequences do not fill one batch of {self.batch}; pass more")
        if not 0 <= self.rotated <= 1:
            raise ValueError(f"rotated is a share of the planes, from 0 to 1; got {self.rotated}")
        if not self.scale > 0:
            raise ValueError(f"scale is a factor of the angles and must be above 0; got {self.scale}")
        require_counts(extra=(self.extra, 0))
        if self.checkpoint_every % self.look_every:
            raise ValueError(
                f"checkpoints are looks, but every {self.look_every} steps there is a look and every "
                f"{self.checkpoint_every} a checkpoint; pass a multiple"
            )

    @classmethod
    def full(cls, *, task: Literal["number", "letter"] = "number", seed: int = 0, **options: Any) -> MultihopSettings:
        """The size of the paper."""
        return cls(task=task, seed=seed, **options)

    @classmethod
    def small(cls, *, task: Literal["number", "letter"] = "number", seed: int = 0, **options: Any) -> MultihopSettings:
        """A run for a chapter: four layers, one and two hops; under four minutes on two cores."""
        chosen: dict[str, Any] = {
            "hops": 2,
            "layers": 4,
            "width": 64,
            "dropout": 0.0,
            "train": 64 * 1500,
            "validation": 400,
            "test": 2_000,
            "learning_rate": 1e-3,
            "warmup": 100,
            "checkpoint_every": 250,
            "look_every": 25,
        }
        return cls(task=task, seed=seed, **(chosen | options))

    @classmethod
    def stored(cls, settings: Mapping[str, Any]) -> MultihopSettings:
        """The settings that a result was made with; what it does not say had its default of today.

        Raises:
            ValueError: if the settings are of something else.
        """
        named = {field.name for field in fields(cls)}
        if different := set(settings) - named or {"task", "hops", "layers"} - set(settings):
            raise ValueError(f"these are no settings of a multi-hop model; they differ in {sorted(different)}")
        options: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in settings.items()}
        return cls(**options)

    @property
    def name(self) -> str:
        """What the result is called."""
        return "_".join(["multihop", self.task, str(self.seed), *([self.variant] if self.variant else [])])

    @property
    def steps(self) -> int:
        """Optimiser steps of one pass."""
        return self.train // self.batch

    @property
    def angles(self) -> Float[Tensor, " plane"]:
        """Radians per position of a head's planes."""
        angles = rope_angles(self.width // self.heads, self.base) * self.scale
        angles[round(self.rotated * len(angles)) :] = 0
        return angles

    @property
    def training(self) -> LinearSettings:
        """What :func:`posym_core.training.train` needs to know."""
        return LinearSettings(
            steps=self.steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            betas=self.betas,
            weight_decay=self.weight_decay,
            record_every=self.look_every,
        )

    def make_task(self) -> NumberTask | LetterTask:
        """The task with its generator of sequences."""
        return TASKS[self.task](hops=self.hops, window=self.window, steps=self.steps_back)

    def make_model(self) -> Any:
        """The untrained model, on the CPU, with positions for 1,024 tokens."""
        return decoder(
            vocabulary=self.make_task().vocabulary,
            layers=self.layers,
            heads=self.heads,
            width=self.width,
            dropout=self.dropout,
            angles=self.angles,
            seed=self.seed,
        )

    def generator(self, purpose: int) -> torch.Generator:
        """The source of chance for one purpose, on the CPU, so that every device sees the same data."""
        return data_generators([self.seed], purpose=purpose)[0]

    def sample(self, count: int, purpose: int) -> MultihopBatch:
        """Sequences for one purpose."""
        return self.make_task().sample(count, generator=self.generator(purpose))

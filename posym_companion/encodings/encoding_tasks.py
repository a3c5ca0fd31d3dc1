"""The canonical tasks under every encoding: one attention layer, trained alike, tested at lengths it never saw.

A model is what :class:`posym_core.models.ToyEnsemble` is with several heads and any encoding: embeddings, one
layer of attention without normalisation, residual or network, and a linear map from what the last token reads to the
classes. Weights at the start, inputs and schedule are the same for all encodings (``"mla"`` alone makes queries and
keys in another way). So what differs between two encodings is what they let one layer do, and what it keeps of that
when the context grows.

A longer Index can grow in two directions, and encodings differ in which one they bear. Behind what it was trained on,
places from the start stay as they were and distances to the query grow; in front of it, distances stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from posym_companion.encodings.one_layer import EncodedReader
from posym_companion.experiments import Experiment
from posym_core.encodings import ENCODINGS
from posym_core.models import TrainingSettings, train
from posym_core.store import choose_device
from posym_core.tasks import IndexTask, PartialInductionTask, RetrievalTask, Task, TaskBatch

CanonicalTask = Literal["index", "retrieval", "induction"]
TASKS: tuple[CanonicalTask, ...] = get_args(CanonicalTask)
TESTS = ("index", "index_front", "retrieval", "induction")
"""What is tested; ``index_front`` is Index that grew in front."""
TESTING = 1_000_003  # offset of the seeds of test inputs
DIMS = {"accuracy": "test seed length", "steps loss": "task seed", "chance": "test", "lengths": "length"}


@dataclass(frozen=True, kw_only=True)
class EncodingTasks:
    """One encoding on all tasks with all seeds.

    Attributes:
        encoding: key of ``ENCODINGS``.
        seeds: of weights and training inputs.
        length: context tokens of the training.
        lengths: context tokens of the tests.
        symbols: of Index and Partial induction.
        retrieval_symbols: of Retrieval, where all symbols of an input differ.
        attributes: attributes of Retrieval and values of Partial induction.
        repetition: occurrences of the queried symbol in Partial induction.
        width: of embeddings.
        heads: of the layer.
        rank: numbers in the summary of ``"mla"``.
        training: see :class:`posym_core.models.TrainingSettings`.
        test_inputs: fresh inputs for every length and seed.
    """

    encoding: str
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    length: int = 16
    lengths: tuple[int, ...] = (16, 20, 24, 32, 48, 64, 96, 128)
    symbols: int = 32
    retrieval_symbols: int = 128
    attributes: int = 8
    repetition: int = 4
    width: int = 64
    heads: int = 4
    rank: int = 32
    training: TrainingSettings = field(
        default_factory=lambda: TrainingSettings(steps=1500, batch=64, learning_rate=1e-2, stop_loss=0.01)
    )
    test_inputs: int = 400

    def __post_init__(self):
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(map(repr, ENCODINGS))}; got {self.encoding!r}")
        if min(self.lengths) < self.length:
            raise ValueError(
                f"lengths of tests begin at the training's, {self.length}; got {min(self.lengths)}. Leave it out"
            )
        if max(self.lengths) > self.retrieval_symbols:
            raise ValueError(
                f"Retrieval at {max(self.lengths)} tokens needs as many symbols; got {self.retrieval_symbols}. Pass "
                "more symbols or shorter lengths"
            )

    @property
    def name(self) -> str:
        return f"encoding_tasks/{self.encoding}"

    def task(self, name: CanonicalTask, length: int | None = None) -> Task:
        """A task at a length, by default the training's."""
        length = length or self.length
        shared = {"length": length, "attributes": self.attributes}
        if name == "index":
            return IndexTask(length=length, symbols=self.symbols)
        if name == "retrieval":
            return RetrievalTask(symbols=self.retrieval_symbols, **shared)
        return PartialInductionTask(symbols=self.symbols, repetition=self.repetition, **shared)

    def reader(self, task: Task, *, seed: int) -> EncodedReader:
        """The model to train, with weights at the start."""
        return EncodedReader(
            task,
            encoding=self.encoding,
            length=self.length,
            width=self.width,
            heads=self.heads,
            rank=self.rank,
            seed=seed,
        )

    def sample(self, test: str, length: int, count: int, generator: torch.Generator) -> TaskBatch:
        """Inputs of one of :data:`TESTS`; Index asks for the places that it was trained to find."""
        if not test.startswith("index"):
            return self.task(test, length).sample(count, generator)  # pyright: ignore[reportArgumentType]
        batch = self.task("index").sample(count, generator)
        extra = torch.randint(self.symbols, (count, length - self.length), generator=generator)
        context, query = batch.tokens[:, :-1], batch.tokens[:, -1:]
        if test == "index_front":
            tokens = [extra, context, query]
            return batch._replace(tokens=torch.cat(tokens, 1), position=batch.position + extra.shape[1])
        return batch._replace(tokens=torch.cat([context, extra, query], 1))


def full_size() -> list[EncodingTasks]:
    """All encodings; there is no ``model`` to choose."""
    return [EncodingTasks(encoding=name) for name in ENCODINGS]


def measure(
    setting: EncodingTasks, *, device: str = "auto", work: Path | None = None, progress: bool = False
) -> dict[str, np.ndarray]:
    """Train and test the models of one encoding.

    Returns:
        ``accuracy [test, seed, length]``, NaN beyond an encoding's table; ``steps [task, seed]``, made before the
        loss was low enough or the schedule ended; ``loss [task, seed]``, the last one recorded; ``chance [test]``;
        ``lengths``.
    """
    chosen = choose_device(device)
    accuracy = np.full((len(TESTS), len(setting.seeds), len(setting.lengths)), np.nan)
    steps, loss = np.zeros((2, len(TASKS), len(setting.seeds)))
    for row, name in enumerate(TASKS):
        task = setting.task(name)
        for column, seed in enumerate(setting.seeds):
            model = setting.reader(task, seed=seed).to(chosen)
            history = train(
                model,
                lambda count, generators, task=task: move_batch(chosen, task.sample(count, generators[0])),
                generators=[torch.Generator().manual_seed(seed)],
                settings=setting.training,
                checkpoint=work / f"{name}_{seed}.safetensors" if work is not None else None,
                identity={"encoding": setting.encoding, "task": name, "seed": seed},
                progress=progress,
                label=f"{setting.encoding}, {name}, seed {seed}",
            )
            steps[row, column], loss[row, column] = history.steps, float(history.losses[-1])
            for test in (test for test in TESTS if test.startswith(name)):
                accuracy[TESTS.index(test), column] = accuracies(model, setting, test, seed=seed)
    classes = [setting.task(task_of(test)).classes for test in TESTS]
    return {
        "accuracy": accuracy,
        "steps": steps.astype(np.int64),
        "loss": loss,
        "chance": 1 / np.array(classes),
        "lengths": np.array(setting.lengths),
    }


@torch.no_grad()
def accuracies(model: EncodedReader, setting: EncodingTasks, test: str, *, seed: int) -> list[float]:
    """Part of fresh inputs answered rightly at every length; NaN where the encoding has no more rows."""
    device, rates = model.embedding.weight.device, []
    for length in setting.lengths:
        if model.longest is not None and length + 1 > model.longest:
            rates.append(float("nan"))
            continue
        batch = setting.sample(test, length, setting.test_inputs, torch.Generator().manual_seed(TESTING + seed))
        answers = torch.cat([model(part.to(device)).argmax(-1).cpu() for part in batch.tokens.split(100)])
        rates.append(float((answers == batch.answer).double().mean()))
    return rates


def task_of(test: str) -> CanonicalTask:
    """The task that a test belongs to.

    >>> task_of("index_front")
    'index'
    """
    return TASKS[[test.startswith(name) for name in TASKS].index(True)]


def move_batch(device: torch.device, batch: TaskBatch) -> TaskBatch:
    """The batch on a device."""
    return TaskBatch(*(part.to(device) for part in batch))


EXPERIMENT = Experiment(
    settings=full_size,
    small={"seeds": (0, 1), "lengths": (16, 32), "training": lambda x: replace(x, steps=100), "test_inputs": 100},
    measure=measure,
    dims=DIMS,
)

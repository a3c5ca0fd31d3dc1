"""The canonical tasks under every encoding: one attention layer, trained alike, tested at lengths it never saw.

A model is what :class:`posym_core.toys.ToyEnsemble` is with several heads and any encoding: embeddings, one layer of
attention without normalisation, residual or network, and a linear map from what the last token reads to the classes.
Weights at the start, inputs and schedule are the same for all encodings (``"mla"`` alone makes queries and keys in
another way). So what differs between two encodings is what they let one layer do, and what it keeps of that when
the context grows.

A longer Index can grow in two directions, and encodings differ in which one they bear. Behind what it was trained on,
places from the start stay as they were and distances to the query grow; in front of it, distances stay.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core.devices import choose_device
from posym_core.encoding_models import Attention, ModelSettings
from posym_core.encodings import ENCODINGS, Encoding, LatentProjections, make_encoding
from posym_core.encodings.additive import Absolute
from posym_core.experiments.keeping import keep_trained
from posym_core.results import Result
from posym_core.tasks.canonical import IndexTask, PartialInductionTask, RetrievalTask, Task, TaskBatch
from posym_core.training import TrainingSettings, train

CanonicalTask = Literal["index", "retrieval", "induction"]
TASKS: tuple[CanonicalTask, ...] = get_args(CanonicalTask)
TESTS = ("index", "index_front", "retrieval", "induction")
"""What is tested; ``index_front`` is Index that grew in front."""
TABLES = ("learned", "urpe")
"""Encodings with one trained number or vector per position or distance, which end where their table ends."""
TESTING = 1_000_003  # offset of the seeds of test inputs


@dataclass(frozen=True, kw_only=True)
class EncodingTasks:
    """One encoding on all tasks with all seeds.

    Attributes:
        encoding: key of :data:`posym_core.encodings.ENCODINGS`.
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
        training: see :class:`posym_core.training.TrainingSettings`.
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
        """What the result is called."""
        return f"encoding_tasks_{self.encoding}"

    def task(self, name: CanonicalTask, length: int | None = None) -> Task:
        """A task at a length, by default the training's."""
        length = length or self.length
        shared = {"length": length, "attributes": self.attributes}
        if name == "index":
            return IndexTask(length=length, symbols=self.symbols)
        if name == "retrieval":
            return RetrievalTask(symbols=self.retrieval_symbols, **shared)
        return PartialInductionTask(symbols=self.symbols, repetition=self.repetition, **shared)

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


class EncodedReader(nn.Module):
    """One attention layer with any encoding, read out at the last token.

    Args:
        setting: sizes and encoding.
        task: decides vocabulary and classes.
        seed: of the weights. The caller's random state is left alone.
    """

    def __init__(self, setting: EncodingTasks, task: Task, *, seed: int):
        super().__init__()
        sizes = ModelSettings(
            vocabulary=task.part_vocabulary,
            classes=task.classes,
            encoding=setting.encoding,
            layers=1,
            width=setting.width,
            heads=setting.heads,
            rank=setting.rank,
            length=setting.length + 1,
            dropout=0.0,
            causal=True,
            pooling="last",
        )
        self.longest = setting.length + 1 if setting.encoding in TABLES else None
        self.register_buffer("token_parts", task.parts(torch.arange(task.vocabulary)), persistent=False)
        self.token_parts: Tensor
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(task.part_vocabulary, setting.width)
            own = make_encoding(setting.encoding, sizes.shape())
            self.absolute: Encoding | None = own if isinstance(own, Absolute) else None
            self.attention = Attention(sizes)
            self.read = nn.Linear(setting.width, task.classes, bias=False)
            self._draw(seed)

    def _draw(self, seed: int) -> None:
        """Draw what is not the encoding's, every weight from a stream that its name and the seed decide."""
        own = {id(p) for m in self.modules() if isinstance(m, Encoding | LatentProjections) for p in m.parameters()}
        for name, parameter in self.named_parameters():
            if id(parameter) in own:
                continue
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
            spread = 1.0 if parameter is self.embedding.weight else parameter.shape[-1] ** -0.5
            if "projections" in name:
                spread *= 0.5  # as in the toys: strong random matches at the start trap heads in poor minima
            parameter.data = spread * torch.randn(parameter.shape, generator=generator)

    def forward(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input class"]:
        """Scores of the classes.

        Raises:
            ValueError: if the encoding keeps a table and the input is longer.
        """
        if self.longest is not None and tokens.shape[1] > self.longest:
            raise ValueError(f"the encoding has rows for {self.longest} tokens; got {tokens.shape[1]}")
        inputs = self.embedding(self.token_parts[tokens]).sum(-2)
        if self.absolute is not None:
            inputs = self.absolute.embed(inputs)
        return self.read(self.attention(inputs, None, None)[:, -1])

    def losses(self, batch: TaskBatch) -> Float[Tensor, ""]:
        """Mean cross-entropy of the answers."""
        return nn.functional.cross_entropy(self(batch.tokens), batch.answer)


def full_size(model: str = "") -> list[EncodingTasks]:
    """All encodings; there is no ``model`` to choose."""
    return [EncodingTasks(encoding=name) for name in ENCODINGS]


def small(setting: EncodingTasks) -> EncodingTasks:
    """Two seeds, trained briefly."""
    return replace(
        setting, seeds=(0, 1), lengths=(16, 32), training=replace(setting.training, steps=100), test_inputs=100
    )


def run(
    settings: Iterable[EncodingTasks],
    *,
    device: str = "auto",
    folder: Path | str | None = None,
    force: bool = False,
    progress: bool = True,
) -> Iterator[Result]:
    """Train every encoding on every task with every seed and keep the accuracies, unless they are there."""
    return keep_trained(settings, measure, device=device, folder=folder, force=force, progress=progress)


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
            model = EncodedReader(setting, task, seed=seed).to(chosen)
            history = train(
                model,
                lambda count, generators, task=task: on(chosen, task.sample(count, generators[0])),
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
    device, found = model.embedding.weight.device, []
    for length in setting.lengths:
        if model.longest is not None and length + 1 > model.longest:
            found.append(float("nan"))
            continue
        batch = setting.sample(test, length, setting.test_inputs, torch.Generator().manual_seed(TESTING + seed))
        answers = torch.cat([model(part.to(device)).argmax(-1).cpu() for part in batch.tokens.split(100)])
        found.append(float((answers == batch.answer).double().mean()))
    return found


def task_of(test: str) -> CanonicalTask:
    """The task that a test belongs to.

    >>> task_of("index_front")
    'index'
    """
    return TASKS[[test.startswith(name) for name in TASKS].index(True)]


def threshold(chance: float) -> float:
    """Accuracy from which a task counts as done: midway between chance and all right.

    >>> threshold(0.125)
    0.5625
    """
    return (1 + chance) / 2


def longest_context(accuracy: Float[np.ndarray, "seed length"], lengths: Sequence[int], chance: float) -> int | None:
    """Longest tested length up to which the mean accuracy over seeds is at least :func:`threshold` at every length.

    Args:
        accuracy: NaN where the encoding has no more rows, which ends the count.
        lengths: in rising order, the training's first.
        chance: accuracy of guessing.

    Returns:
        The length, or ``None`` if the task is not done even at the training's.

    >>> longest_context(np.array([[1.0, 0.9, 0.2, 0.9]]), [16, 32, 64, 128], 0.125)
    32
    """
    good = accuracy.mean(0) >= threshold(chance)
    reached = len(good) if good.all() else int(good.argmin())
    return int(lengths[reached - 1]) if reached else None


def on(device: torch.device, batch: TaskBatch) -> TaskBatch:
    """The batch on a device."""
    return TaskBatch(*(part.to(device) for part in batch))

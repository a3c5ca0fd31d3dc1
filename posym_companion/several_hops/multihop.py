"""Train GPT-J models on Number or Letter and watch every head become pure, or not, while they learn.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), sections 2 and 3: 12 layers of one head, one pass
over 432,000 sequences in batches of 64. Batches are drawn fresh, with every number of hops and every place of the
answer equally often in each, so no sequence is kept. Scores are measured at every checkpoint by
:mod:`posym_companion.several_hops.hop_scores`; checkpoints are regular and, where an accuracy turns, dense. One result
a setting, with the final weights beside it in half precision.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.experiments import Experiment, RunOutput
from posym_companion.results import find_attached_file, load_result
from posym_companion.several_hops.gptj import AnswerLoss, average_by_hops, make_gptj, mark_right_answers
from posym_companion.several_hops.hop_scores import capture_layers, station_scores, summary
from posym_core.metrics import rope_angles
from posym_core.models import LinearSettings, make_generators, train
from posym_core.store import choose_device
from posym_core.tasks import LetterTask, MultihopBatch, NumberTask

TRAINING, NOISE, VALIDATION, TEST, MONITOR = range(5)  # purposes of generators
TASKS = {"number": NumberTask, "letter": LetterTask}
DIMS = {
    "checkpoint_step monitor_seconds": "checkpoint",
    "accuracy": "checkpoint hop",
    "attention": "checkpoint example layer head query key",
    "entropy onward positional symbolic": "checkpoint hop station layer head",
    "frequency": "checkpoint layer head",
    "use": "checkpoint layer head plane",
    "look_step training_seconds": "look",
    "look_accuracy": "look hop",
    "loss loss_step": "record",
    "example_tokens": "example token",
    "example_path": "example place",
    "test_accuracy": "hop",
}


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
        if self.checkpoint_every % self.look_every:
            raise ValueError(
                f"checkpoints are looks, but every {self.look_every} steps there is a look and every "
                f"{self.checkpoint_every} a checkpoint; pass a multiple"
            )

    @classmethod
    def small(cls, *, task: Literal["number", "letter"] = "number", seed: int = 0, **options: Any) -> MultihopSettings:
        """Return a run for a chapter: four layers, one and two hops; under four minutes on two cores."""
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
        """Return the settings that a result was made with; what it does not say had its default of today."""
        options: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in settings.items()}
        return cls(**options)

    @property
    def name(self) -> str:
        return "multihop/" + "_".join([self.task, str(self.seed), *([self.variant] if self.variant else [])])

    @property
    def files_kept(self) -> bool:
        """Return whether the result is whole only with its weights; see
        :func:`posym_companion.experiments.stored_result`.
        """
        return self.seed == WEIGHTS_KEPT and not self.extra

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
        """Return what :func:`posym_core.models.train` needs to know."""
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
        """Return the task with its generator of sequences."""
        return TASKS[self.task](hops=self.hops, window=self.window, steps=self.steps_back)

    def make_model(self) -> Any:
        """Return the untrained model, on the CPU, with positions for 1,024 tokens."""
        return make_gptj(
            vocabulary=self.make_task().vocabulary,
            layers=self.layers,
            heads=self.heads,
            width=self.width,
            dropout=self.dropout,
            angles=self.angles,
            seed=self.seed,
        )

    def generator(self, purpose: int) -> torch.Generator:
        """Return the source of chance for one purpose, on the CPU, so that every device sees the same data."""
        return make_generators([self.seed], purpose=purpose)[0]

    def sample(self, count: int, purpose: int) -> MultihopBatch:
        """Sequences for one purpose."""
        return self.make_task().sample(count, generator=self.generator(purpose))


SEEDS = (0, 1, 2, 3, 4)
# The seed whose weights stay beside the results; those of the others are read by hop_length and hop_mechanism and then
# left out, since they weigh 5 MB a model.
WEIGHTS_KEPT = 0
# Beside the paper: what Number learns when sequences of 17 to 64 tokens are trained on.
IN_FRONT = MultihopSettings(variant="extra47", extra=47)


class Watch:
    """Looks at a model while it trains: accuracy by hops often, all heads' scores at checkpoints.

    Called with (steps made, model); what it returns is kept by :func:`posym_core.models.train`. The accuracy
    at the last checkpoint decides about the next, so a resumed run tells it through :meth:`restore`.
    """

    def __init__(self, settings: MultihopSettings, device: torch.device):
        self.settings, self.device = settings, device
        self.validation = settings.sample(settings.validation, VALIDATION)
        self.monitored = settings.sample(settings.monitored * settings.hops, MONITOR)
        self.last: Tensor | None = None
        self.before = time.perf_counter()

    def restore(self, observations: Mapping[str, Sequence[Tensor]]) -> None:
        """Go on where these observations end."""
        at = int(observations["checkpoint_step"][-1])
        looks = [int(step) for step in observations["look_step"]]
        self.last = observations["look_accuracy"][looks.index(at)]
        self.before = time.perf_counter()

    def __call__(self, step: int, trained: AnswerLoss) -> dict[str, Tensor] | None:
        settings = self.settings
        if step % settings.look_every and step != settings.steps:
            return None
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        seconds = time.perf_counter() - self.before
        model = trained.model.eval()
        seen = slice(min(settings.look, settings.validation))
        right = mark_right_answers(model, self.validation.tokens[seen], self.validation.answer[seen])
        accuracy = average_by_hops(right, self.validation.hops[seen], settings.hops)
        arrays = {"look_step": torch.tensor(step), "look_accuracy": accuracy, "training_seconds": torch.tensor(seconds)}
        turned = self.last is None or bool(((accuracy - self.last).abs() > settings.turn).any())
        if turned or step % settings.checkpoint_every == 0 or step == settings.steps:
            self.last = accuracy
            arrays |= {"checkpoint_step": torch.tensor(step), **self.checkpoint(model)}
        trained.model.train()
        self.before = time.perf_counter()
        return arrays

    def checkpoint(self, model: Any) -> dict[str, Tensor]:
        """Accuracy on all validation sequences, and :meth:`scores` with the seconds that they took."""
        right = mark_right_answers(model, self.validation.tokens, self.validation.answer)
        began = time.perf_counter()
        arrays = self.scores(model)
        arrays["monitor_seconds"] = torch.tensor(time.perf_counter() - began)
        arrays["accuracy"] = average_by_hops(right, self.validation.hops, self.settings.hops)
        return arrays

    def scores(self, model: Any) -> dict[str, Tensor]:
        """Return :func:`posym_companion.several_hops.hop_scores.summary` of heads, and the attention on examples."""
        settings, sequences = self.settings, self.monitored
        layers = capture_layers(model, sequences.tokens)
        scores = station_scores(layers, sequences.path, angles=settings.angles)
        arrays = summary(scores, sequences.hops, longest=settings.hops)
        arrays["attention"] = (layers.attention(self.examples) * 255).round().to(torch.uint8).cpu()
        return arrays

    @property
    def examples(self) -> Tensor:
        """One monitored sequence of each number of hops, whose attention is kept."""
        return torch.stack([(self.monitored.hops == 1 + hops).nonzero()[0, 0] for hops in range(self.settings.hops)])


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A model that was trained and what was seen on the way.

    Attributes:
        model: in evaluation mode, its weights rounded to half precision: the very model that is kept and was tested.
        arrays: by checkpoint ``checkpoint_step``, ``accuracy`` ``[checkpoint, hop]``, what
            :func:`posym_companion.several_hops.hop_scores.summary` returns, ``attention``
            ``[checkpoint, example, layer, head, query, key]`` in 1 / 255, ``monitor_seconds``; by look
            ``look_step``, ``look_accuracy`` and ``training_seconds`` since the last; by record ``loss`` and
            ``loss_step``; ``example_tokens``, ``example_path``, and ``test_accuracy`` ``[hop]``.
    """

    model: Any
    arrays: dict[str, np.ndarray]


def train_model(
    settings: MultihopSettings,
    *,
    device: str = "auto",
    checkpoint: Path | str | None = None,
    progress: bool = True,
) -> TrainedModel:
    """Train one model and watch its heads."""
    chosen, task = choose_device(device), settings.make_task()
    watch, loss = Watch(settings, chosen), AnswerLoss(settings.make_model().to(chosen))

    def draw(count: int, generators: Sequence[torch.Generator]) -> tuple[Tensor, Tensor, int]:
        data, noise = generators
        # Without extra tokens nothing is drawn for them, as if there were no such setting.
        extra = settings.extra and int(torch.randint(settings.extra + 1, (), generator=data))
        batch = task.sample(count, generator=data, extra=extra)
        return batch.tokens, batch.answer, int(torch.randint(2**62, (), generator=noise))

    history = train(
        loss,
        draw,
        generators=[settings.generator(purpose) for purpose in (TRAINING, NOISE)],
        settings=settings.training,
        observe=watch,
        checkpoint=checkpoint,
        checkpoint_every=settings.save_every,
        identity=asdict(settings),
        progress=progress,
        label=settings.name,
    )
    return _finished(watch, loss.model, history.observations, history.losses.flatten())


def _finished(watch: Watch, model: Any, observations: Mapping[str, Tensor], losses: Tensor) -> TrainedModel:
    """Return a trained model in half precision, tested, with what was seen of it."""
    settings = watch.settings
    model.half().float().eval()
    test = settings.sample(settings.test, TEST)
    arrays = {name: x.numpy() for name, x in observations.items()}
    arrays["loss"] = losses.numpy()
    arrays["loss_step"] = np.minimum(np.arange(1, 1 + len(losses)) * settings.look_every, settings.steps)
    arrays["example_tokens"] = watch.monitored.tokens[watch.examples].numpy()
    arrays["example_path"] = watch.monitored.path[watch.examples].numpy()
    right = mark_right_answers(model, test.tokens, test.answer)
    arrays["test_accuracy"] = average_by_hops(right, test.hops, settings.hops).numpy()
    return TrainedModel(model=model, arrays=arrays)


def paper_size() -> list[MultihopSettings]:
    """Both tasks as in the paper, with five seeds each."""
    return [MultihopSettings(task=task, seed=seed) for seed in SEEDS for task in ("number", "letter")]


def full_size() -> list[MultihopSettings]:
    """:func:`paper_size`, and Number with tokens in front; there is no ``model`` to choose."""
    return [*paper_size(), IN_FRONT]


def small(setting: MultihopSettings) -> MultihopSettings:
    """Return a size that trains in seconds, of the first seed."""
    return MultihopSettings.small(task=setting.task, train=64 * 150, checkpoint_every=50)


def small_model(name: str) -> str:
    """Return the model that the small size trains in this one's place."""
    return next(small(setting).name for setting in full_size() if setting.name == name)


def measure(
    setting: MultihopSettings, *, device: str = "auto", work: Path | None = None, progress: bool = False
) -> RunOutput:
    """Train a model: the arrays of :class:`TrainedModel`, and its weights in half precision as ``.safetensors``."""
    from safetensors.torch import save

    checkpoint = work / "training.safetensors" if work is not None else None
    trained = train_model(setting, device=device, checkpoint=checkpoint, progress=progress)
    weights = {name: x.detach().half().cpu().contiguous() for name, x in trained.model.named_parameters()}
    return RunOutput(
        arrays=trained.arrays,
        files={".safetensors": save(weights, metadata={"format": "pt"})},
        seconds=float(trained.arrays["training_seconds"].sum() + trained.arrays["monitor_seconds"].sum()),
    )


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS)


def load_weights(name: str, *, folder: Path | str | None = None, device: str = "cpu") -> tuple[Any, MultihopSettings]:
    """Return the trained model of a result, in evaluation mode and float32, by default on the CPU, and its settings.

    Raises:
        ResultError: if result or weights are missing or altered.
    """
    from safetensors.torch import load_file

    result = load_result(name, folder=folder)
    settings = MultihopSettings.stored(result.settings)
    weights = load_file(find_attached_file(result, f"{name.rpartition('/')[2]}.safetensors", folder=folder))
    model = settings.make_model()
    model.load_state_dict({key: x.float() for key, x in weights.items()}, strict=True)
    return model.to(choose_device(device)).eval(), settings

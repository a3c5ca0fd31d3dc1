"""Train GPT-J models on Number or Letter and watch every head become pure, or not, while they learn.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), sections 2 and 3: 12 layers of one head, one pass
over 432,000 sequences in batches of 64. Batches are drawn fresh, with every number of hops and every place of the
answer equally often in each, so no sequence is kept. Scores are measured at every checkpoint by
:mod:`posym_core.monitor`; checkpoints are regular and, where an accuracy turns, dense. One result a setting, with the
final weights beside it in half precision.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_core.devices import choose_device, device_name
from posym_core.experiments.keeping import made_with
from posym_core.experiments.multihop_settings import MONITOR, NOISE, TEST, TRAINING, VALIDATION, MultihopSettings
from posym_core.monitor import capture_layers, station_scores, summary
from posym_core.results import (
    Result,
    ResultError,
    attached_file,
    load_result,
    results_folder,
    save_result,
    write_atomically,
)
from posym_core.sequence_models import AnswerLoss, mean_by_hops, right_answers
from posym_core.training import train

SEEDS = (0, 1, 2)


class Watch:
    """Looks at a model while it trains: accuracy by hops often, all heads' scores at checkpoints.

    Called with (steps made, model); what it returns is kept by :func:`posym_core.training.train`. The accuracy at the
    last checkpoint decides about the next, so a resumed run tells it through :meth:`restore`.
    """

    def __init__(self, settings: MultihopSettings, device: torch.device, report: Callable[[str], None] | None):
        self.settings, self.device, self.report = settings, device, report
        self.validation = settings.sample(settings.validation, VALIDATION)
        self.monitored = settings.sample(settings.monitored * settings.hops, MONITOR)
        self.last: Tensor | None = None
        self.before = time.perf_counter(), 0

    def restore(self, observations: Mapping[str, Sequence[Tensor]]) -> None:
        """Go on where these observations end."""
        at = int(observations["checkpoint_step"][-1])
        looks = [int(step) for step in observations["look_step"]]
        self.last = observations["look_accuracy"][looks.index(at)]
        self.before = time.perf_counter(), looks[-1]

    def __call__(self, step: int, trained: AnswerLoss) -> dict[str, Tensor] | None:
        settings = self.settings
        if step % settings.look_every and step != settings.steps:
            return None
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        began, steps = time.perf_counter() - self.before[0], step - self.before[1]
        model = trained.model.eval()
        seen = slice(min(settings.look, settings.validation))
        right = right_answers(model, self.validation.tokens[seen], self.validation.answer[seen])
        accuracy = mean_by_hops(right, self.validation.hops[seen], settings.hops)
        found = {"look_step": torch.tensor(step), "look_accuracy": accuracy, "training_seconds": torch.tensor(began)}
        turned = self.last is None or bool(((accuracy - self.last).abs() > settings.turn).any())
        if turned or step % settings.checkpoint_every == 0 or step == settings.steps:
            self.last = accuracy
            found |= {"checkpoint_step": torch.tensor(step), **self.checkpoint(model)}
            if self.report is not None:
                shown = " ".join(f"{value:.2f}" for value in found["accuracy"].tolist())
                self.report(f"{settings.name}, step {step}: accuracy by hops {shown}, {steps / began:.1f} steps/s")
        trained.model.train()
        self.before = time.perf_counter(), step
        return found

    def checkpoint(self, model: Any) -> dict[str, Tensor]:
        """Accuracy on all validation sequences, and :meth:`scores` with the seconds that they took."""
        right = right_answers(model, self.validation.tokens, self.validation.answer)
        began = time.perf_counter()
        found = self.scores(model)
        found["monitor_seconds"] = torch.tensor(time.perf_counter() - began)
        found["accuracy"] = mean_by_hops(right, self.validation.hops, self.settings.hops)
        return found

    def scores(self, model: Any) -> dict[str, Tensor]:
        """What :func:`posym_core.monitor.summary` says of the heads, and the attention on examples."""
        settings, sequences = self.settings, self.monitored
        layers = capture_layers(model, sequences.tokens)
        scores = station_scores(layers, sequences.path, angles=settings.angles)
        found = summary(scores, sequences.hops, longest=settings.hops)
        found["attention"] = (layers.attention(self.examples) * 255).round().to(torch.uint8).cpu()
        found["swaps"] = torch.tensor(scores.swaps)
        return found

    @property
    def examples(self) -> Tensor:
        """One monitored sequence of each number of hops, whose attention is kept."""
        return torch.stack([(self.monitored.hops == 1 + hops).nonzero()[0, 0] for hops in range(self.settings.hops)])


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A model that was trained and what was seen on the way.

    Attributes:
        model: in evaluation mode, its weights rounded to half precision: the very model that is kept and was tested.
        arrays: by checkpoint ``checkpoint_step``, ``accuracy`` ``[checkpoint, hop]``, what
            :func:`posym_core.monitor.summary` returns, ``attention`` ``[checkpoint, example, layer, head, query,
            key]`` in 1 / 255, ``monitor_seconds``, ``swaps``; by look ``look_step``, ``look_accuracy`` and
            ``training_seconds`` since the last; by record ``loss`` and ``loss_step``; ``example_tokens``,
            ``example_path``, and ``test_accuracy`` ``[hop]``.
    """

    model: Any
    arrays: dict[str, np.ndarray]


def train_model(
    settings: MultihopSettings,
    *,
    device: str = "auto",
    checkpoint: Path | str | None = None,
    progress: bool = True,
    report: Callable[[str], None] | None = None,
) -> Trained:
    """Train one model and watch its heads.

    Args:
        settings: what to do.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``; data and weights start the same everywhere.
        checkpoint: file that a killed run resumes from: on a CPU to the last bit.
        progress: show a bar.
        report: called with a line at every checkpoint.
    """
    chosen = choose_device(device)
    task, model = settings.make_task(), settings.make_model().to(chosen)
    watch = Watch(settings, chosen, report)

    def draw(count: int, generators: Sequence[torch.Generator]) -> tuple[Tensor, Tensor, int]:
        # Without extra tokens nothing is drawn for them, as if there were no such setting.
        extra = settings.extra and int(torch.randint(settings.extra + 1, (), generator=generators[0]))
        batch = task.sample(count, generator=generators[0], extra=extra)
        noise = int(torch.randint(2**62, (), generator=generators[1]))
        return batch.tokens.to(chosen), batch.answer.to(chosen), noise

    # Dropout takes chance from the global generator; the caller's is left as it was.
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if chosen.type == "cuda" else []):
        history = train(
            AnswerLoss(model),
            draw,
            generators=[settings.generator(TRAINING), settings.generator(NOISE)],
            settings=settings.training,
            observe=watch,
            checkpoint=checkpoint,
            checkpoint_every=settings.save_every,
            identity=asdict(settings),
            progress=progress,
            label=settings.name,
        )
    model.half().float().eval()
    test = settings.sample(settings.test, TEST)
    arrays = {name: x.numpy() for name, x in history.observations.items()}
    arrays["loss"] = history.losses.numpy()
    arrays["loss_step"] = np.minimum(np.arange(1, 1 + len(history.losses)) * settings.look_every, settings.steps)
    arrays["example_tokens"] = watch.monitored.tokens[watch.examples].numpy()
    arrays["example_path"] = watch.monitored.path[watch.examples].numpy()
    right = right_answers(model, test.tokens, test.answer)
    arrays["test_accuracy"] = mean_by_hops(right, test.hops, settings.hops).numpy()
    return Trained(model=model, arrays=arrays)


def full_size(model: str = "") -> list[MultihopSettings]:
    """Both tasks with three seeds each; there is no ``model`` to choose."""
    return [MultihopSettings.full(task=task, seed=seed) for seed in SEEDS for task in ("number", "letter")]


def small(setting: MultihopSettings) -> MultihopSettings:
    """A size that trains in minutes, of the first seed."""
    return MultihopSettings.small(task=setting.task)


def run(
    settings: Iterable[MultihopSettings],
    *,
    device: str = "auto",
    folder: Path | str | None = None,
    force: bool = False,
    progress: bool = True,
) -> Iterator[Result]:
    """Train a model for every setting and keep its result, unless it is there; a killed run goes on where it was.

    Yields:
        The arrays of :class:`Trained`, with the weights in the attached file ``{name}.safetensors``.
    """
    from tqdm import tqdm

    folder = Path(folder) if folder is not None else results_folder()
    for setting in settings:
        stored = None if force else _stored(setting, folder)
        if stored is None:
            work = folder / f".{setting.name}.work"
            if force:
                shutil.rmtree(work, ignore_errors=True)
            trained = train_model(
                setting,
                device=device,
                checkpoint=work / "training.safetensors",
                progress=progress,
                report=tqdm.write if progress else None,
            )
            stored = keep(setting, trained, folder=folder, device=device)
            shutil.rmtree(work, ignore_errors=True)
        yield stored


def keep(setting: MultihopSettings, trained: Trained, *, folder: Path, device: str) -> Result:
    """Save weights and arrays."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: x.detach().half().cpu().contiguous() for name, x in trained.model.named_parameters()}
    file = f"{setting.name}.safetensors"
    payload = save(weights, metadata={"format": "pt"})
    write_atomically(folder / file, lambda opened: opened.write(payload))
    seconds = float(trained.arrays["training_seconds"].sum() + trained.arrays["monitor_seconds"].sum())
    return save_result(
        setting.name,
        trained.arrays,
        settings=asdict(setting),
        device=device_name(choose_device(device)),
        seconds=seconds,
        folder=folder,
        attached=[file],
    )


def load_weights(name: str, *, folder: Path | str | None = None, device: str = "auto") -> tuple[Any, MultihopSettings]:
    """The trained model of a result, in evaluation mode and float32, and its settings.

    Raises:
        ResultError: if result or weights are missing or altered.
        ValueError: if the result is of another experiment.
    """
    from safetensors.torch import load_file

    result = load_result(name, folder=folder)
    settings = MultihopSettings.stored(result.settings)
    weights = load_file(attached_file(result, f"{name}.safetensors", folder=folder))
    model = settings.make_model()
    model.load_state_dict({key: x.float() for key, x in weights.items()}, strict=True)
    return model.to(choose_device(device)).eval(), settings


def _stored(setting: MultihopSettings, folder: Path) -> Result | None:
    try:
        result = load_result(setting.name, folder=folder)
        attached_file(result, f"{setting.name}.safetensors", folder=folder)
    except ResultError:
        return None
    return result if made_with(result, setting) else None

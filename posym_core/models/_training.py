"""The one training loop: ensembles or single models, with early stop, checkpoints and resume.

A model is anything with ``losses(batch)``. If it returns a tensor of shape ``[...]``, every parameter must lead with
these dimensions, one slice per member; their sum is minimised, so no member's gradient sees another. A model whose
``losses`` is a single number is one member. A model may have ``prepare(batch)``, which makes of what is drawn what
``losses`` takes, and is where chance that the data's generators do not hold is started from a number that they drew.

A step leaves the device alone: losses add up there and are read when they are recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posym_core._checks import require_positive
from posym_core.models._checkpoints import History, State, restore, save


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to train.

    Attributes:
        steps: number of optimiser steps.
        batch: inputs a step and stream.
        learning_rate: of Adam, reached after ``warmup`` steps and then lowered to 0 along half a cosine.
        warmup: steps of linear rise.
        betas: Adam's decay rates.
        record_every: steps between two records of the losses (means since the last record).
        stop_loss: a member whose recorded loss falls below this is frozen: its parameters change no more. Data are
            fresh at every step, so the training loss is a test loss. 0 never freezes.
    """

    steps: int = 1500
    batch: int = 128
    learning_rate: float = 1e-2
    warmup: int = 50
    betas: tuple[float, float] = (0.9, 0.99)
    record_every: int = 50
    stop_loss: float = 0.0

    def __post_init__(self):
        for name in ("steps", "batch", "learning_rate", "record_every"):
            require_positive(name, getattr(self, name))
        if self.warmup < 0 or self.stop_loss < 0:
            raise ValueError(f"warmup and stop_loss must not be negative; got {self.warmup} and {self.stop_loss}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must lie in [0, 1); got {self.betas}")

    def rate(self, step: int) -> float:
        """Return the learning rate of step ``0 .. steps - 1``."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return self.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * step / self.steps))

    def optimizer(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        """Return Adam; subclasses may choose another of its kind, with the same state."""
        # One pass over memory per step: the parameters of an ensemble outweigh its activations.
        return torch.optim.Adam(parameters, betas=self.betas, fused=True)


@dataclass(frozen=True, kw_only=True)
class CosineSettings(TrainingSettings):
    """AdamW with a linear rise and then half a cosine down to 0.

    Attributes:
        weight_decay: of all parameters.
    """

    weight_decay: float = 0.01

    def optimizer(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, betas=self.betas, weight_decay=self.weight_decay, fused=True)


@dataclass(frozen=True, kw_only=True)
class LinearSettings(CosineSettings):
    """AdamW with a linear rise and then a linear fall to 0."""

    weight_decay: float = 0.0

    def rate(self, step: int) -> float:
        rise = (step + 1) / self.warmup if self.warmup else 1.0
        fall = (self.steps - step) / max(1, self.steps - self.warmup)
        return self.learning_rate * min(1.0, rise, fall)


Observer = Callable[[int, Any], Mapping[str, Tensor] | None]


def train(
    model: nn.Module,
    draw: Callable[[int, Sequence[torch.Generator]], Any],
    *,
    generators: Sequence[torch.Generator],
    settings: TrainingSettings,
    observe: Observer | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 500,
    identity: Mapping[str, Any] | None = None,
    progress: bool = True,
    label: str = "training",
) -> History:
    """Train ``model`` in place.

    Args:
        model: see the module's docstring; trained where its parameters are.
        draw: ``draw(batch, generators)`` -> what ``model.prepare`` takes, or else ``model.losses``. The tensors of a
            tuple may lie on the CPU whatever the model's device.
        generators: the only source of chance; their state is saved and restored.
        observe: called before the first step and after each with (steps made, model); what it returns is kept. If it
            has ``restore(observations)``, that is told what was kept when a run is resumed.
        checkpoint: file to save to and, if it exists, to resume from. A run that was killed and resumed makes the
            same steps as one that was not: on a CPU to the last bit, on a GPU up to its own rounding.
        checkpoint_every: steps between two saves.
        identity: what this run is; a checkpoint of another identity or other settings is refused.
        progress: show a bar.
        label: the bar's name.

    Returns:
        The :class:`History`.

    Raises:
        ValueError: if the checkpoint is of another run or parameters do not lead with the members' dimensions.
        FloatingPointError: if a loss is not finite; the message names the step and the members.
    """
    from tqdm import tqdm  # tqdm.auto warns in notebooks without ipywidgets

    parameters = dict(model.named_parameters())
    device = next(iter(parameters.values())).device
    optimizer = settings.optimizer(list(parameters.values()))
    prepare = getattr(model, "prepare", lambda batch: batch)
    state = State()
    described = {"settings": asdict(settings), "identity": dict(identity or {}), "generators": len(generators)}
    path = Path(checkpoint) if checkpoint is not None else None
    if path is not None and path.is_file():
        restore(path, described, parameters, optimizer, generators, state)
        if hasattr(observe, "restore"):
            observe.restore(state.observations)
    elif observe is not None:
        state.observe(observe(0, model))
    with tqdm(total=settings.steps, initial=state.step, desc=label, disable=not progress, leave=False) as bar:
        while state.step < settings.steps and not state.finished:
            batch = prepare(_move(draw(settings.batch, generators), device))
            for group in optimizer.param_groups:
                group["lr"] = settings.rate(state.step)
            _step(model, parameters, optimizer, batch, settings, state)
            state.step += 1
            bar.update()
            if state.step % settings.record_every == 0 or state.step == settings.steps:
                recorded = state.record(settings.record_every, settings.stop_loss)
                bar.set_postfix(loss=f"{recorded.mean().item():.3f}", refresh=False)
            if observe is not None:
                state.observe(observe(state.step, model))
            if path is not None and (state.step % checkpoint_every == 0 or state.step == settings.steps):
                save(path, described, parameters, optimizer, generators, state)
    return state.history()


def _step(model, parameters, optimizer, batch, settings: TrainingSettings, state: State) -> None:
    optimizer.zero_grad()
    losses = model.losses(batch)
    if not state.running.numel():
        _check_leading(parameters, losses.shape)
        state.running = torch.zeros_like(losses.detach())
        state.frozen_at = torch.full_like(state.running, settings.steps, dtype=torch.long)
    losses.sum().backward()
    # Adam moves by momentum even where the gradient is 0, so frozen members are put back.
    frozen_rows = {} if state.held is None else {name: x.detach()[state.held] for name, x in parameters.items()}
    optimizer.step()
    with torch.no_grad():
        for name, rows in frozen_rows.items():
            parameters[name][state.held] = rows
        state.running += losses


def _move(batch: Any, device: torch.device) -> Any:
    """Return a tuple with its tensors on a device; anything else stays as it is."""
    if not isinstance(batch, tuple):
        return batch
    moved = [x.to(device) if isinstance(x, Tensor) else x for x in batch]
    return getattr(batch, "_make", tuple)(moved)


def _check_leading(parameters: Mapping[str, Tensor], members: torch.Size) -> None:
    for name, parameter in parameters.items():
        if parameter.shape[: len(members)] != members:
            raise ValueError(
                f"losses have shape {tuple(members)}, one per member, so every parameter must lead with it; "
                f"{name} has shape {tuple(parameter.shape)}"
            )


class SeededLoss(nn.Module):
    """A model's loss with dropout drawn from the batch's own seed: what :func:`train` takes.

    Dropout takes chance from torch's global generator. Seeding that at every step with a number that the data's
    generator draws makes the latter the only source of chance, so a resumed run repeats a broken one. Subclasses give
    ``losses``.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def prepare(self, batch: tuple[Any, int]) -> Any:
        """Plant a batch's seed and return the rest."""
        data, seed = batch
        torch.manual_seed(seed)
        return data

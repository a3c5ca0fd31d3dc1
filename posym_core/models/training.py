"""The one training loop: ensembles or single models, with early stop, checkpoints and resume.

A model is anything with ``losses(batch)``. If it returns a tensor of shape ``[...]``, every parameter must lead with
these dimensions, one slice per member; their sum is minimised, so no member's gradient sees another. A model whose
``losses`` is a single number is one member.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from posym_core.checks import require_positive
from posym_core.runs.files import write_atomically

FORMAT = "1"


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
        """Learning rate of step ``0 .. steps - 1``."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        return self.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * step / self.steps))

    def optimizer(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam; subclasses may choose another of its kind, with the same state."""
        # One pass over memory per step: the parameters of an ensemble outweigh its activations.
        return torch.optim.Adam(parameters, betas=self.betas, fused=True)


@dataclass(frozen=True, kw_only=True)
class LinearSettings(TrainingSettings):
    """AdamW with a linear rise and then a linear fall to 0.

    Attributes:
        weight_decay: of all parameters.
    """

    weight_decay: float = 0.0

    def rate(self, step: int) -> float:
        rise = (step + 1) / self.warmup if self.warmup else 1.0
        fall = (self.steps - step) / max(1, self.steps - self.warmup)
        return self.learning_rate * min(1.0, rise, fall)

    def optimizer(self, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, betas=self.betas, weight_decay=self.weight_decay, fused=True)


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
class History:
    """What happened in training.

    Attributes:
        losses: ``[record, ...]``, every member's mean loss since the last record.
        frozen_at: ``[...]``, the step after which a member was frozen; ``steps`` if never.
        steps: number of steps made; fewer than asked if every member froze.
        observations: name -> ``[observation, ...]``, what ``observe`` returned.
        observed_at: ``[observation]``, number of steps made before each observation.
    """

    losses: Float[Tensor, "record *member"]
    frozen_at: Tensor
    steps: int
    observations: Mapping[str, Tensor]
    observed_at: Tensor


Observer = Callable[[int, Any], Mapping[str, Tensor] | None]


@runtime_checkable
class ResumableObserver(Protocol):
    """An observer whose choices depend on what it saw before."""

    def __call__(self, step: int, model: Any, /) -> Mapping[str, Tensor] | None: ...

    def restore(self, observations: Mapping[str, Sequence[Tensor]]) -> None:
        """Take up where these observations, all that were kept, end."""
        ...


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
        draw: ``draw(batch, generators)`` -> what ``model.losses`` takes.
        generators: the only source of chance; their state is saved and restored.
        observe: called before the first step and after each with (steps made, model); what it returns is kept.
            A :class:`ResumableObserver` is told what was kept when a run is resumed.
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
    optimizer = settings.optimizer(list(parameters.values()))
    state = _State(frozen=None, frozen_at=None)
    described = {"settings": dataclasses.asdict(settings), "identity": dict(identity or {})}
    described = json.loads(json.dumps(described))
    path = Path(checkpoint) if checkpoint is not None else None
    if path is not None and path.is_file():
        _restore(path, described, parameters, optimizer, generators, state)
        if isinstance(observe, ResumableObserver):
            observe.restore(state.observations)
    elif observe is not None:
        state.observe(0, observe(0, model))

    with tqdm(total=settings.steps, initial=state.step, desc=label, disable=not progress, leave=False) as bar:
        while state.step < settings.steps and not state.finished:
            losses = _step(model, parameters, optimizer, draw(settings.batch, generators), settings, state)
            state.step += 1
            bar.update()
            state.running = losses if state.running is None else state.running + losses
            if state.step % settings.record_every == 0 or state.step == settings.steps:
                recorded = state.record(settings)
                bar.set_postfix(loss=f"{recorded.mean().item():.3f}", refresh=False)
            if observe is not None:
                state.observe(state.step, observe(state.step, model))
            if path is not None and (state.step % checkpoint_every == 0 or state.step == settings.steps):
                _save(path, described, parameters, optimizer, generators, state)
    return state.history(settings)


class _State:
    """Everything beside parameters, optimiser and generators that a resumed run needs."""

    def __init__(self, *, frozen: Bool[Tensor, "*member"] | None, frozen_at: Tensor | None):
        self.step = 0
        self.frozen, self.frozen_at = frozen, frozen_at
        self.running: Tensor | None = None
        self.records: list[Tensor] = []
        self.observations: dict[str, list[Tensor]] = {}
        self.observed_at: list[int] = []

    @property
    def finished(self) -> bool:
        return self.frozen is not None and bool(self.frozen.all())

    def start(self, losses: Tensor, settings: TrainingSettings) -> None:
        self.frozen = torch.zeros_like(losses, dtype=torch.bool)
        self.frozen_at = torch.full_like(losses, settings.steps, dtype=torch.long)

    def record(self, settings: TrainingSettings) -> Tensor:
        assert self.running is not None
        assert self.frozen is not None
        assert self.frozen_at is not None
        since = self.step - settings.record_every * ((self.step - 1) // settings.record_every)
        mean = self.running / since
        if not torch.isfinite(mean).all():
            bad = (~torch.isfinite(mean)).nonzero().tolist()
            raise FloatingPointError(
                f"the loss of members {bad} is not finite within {since} steps before step {self.step}; "
                "pass a lower learning_rate"
            )
        self.running = None
        self.records.append(mean)
        newly = (mean < settings.stop_loss) & ~self.frozen
        self.frozen_at[newly] = self.step
        self.frozen |= newly
        return mean

    def observe(self, step: int, observed: Mapping[str, Tensor] | None) -> None:
        if observed is None:
            return
        self.observed_at.append(step)
        for name, value in observed.items():
            self.observations.setdefault(name, []).append(value.detach().cpu().clone())

    def history(self, settings: TrainingSettings) -> History:
        assert self.frozen_at is not None
        return History(
            losses=torch.stack(self.records).cpu() if self.records else self.frozen_at.new_zeros(0).float(),
            frozen_at=self.frozen_at.cpu(),
            steps=self.step,
            observations={name: torch.stack(values) for name, values in self.observations.items()},
            observed_at=torch.tensor(self.observed_at, dtype=torch.long),
        )


def _step(model, parameters, optimizer, batch, settings: TrainingSettings, state: _State) -> Tensor:
    losses = model.losses(batch)
    if state.frozen is None:
        _check_leading(parameters, losses.shape)
        state.start(losses.detach(), settings)
    optimizer.zero_grad(set_to_none=True)
    losses.sum().backward()
    for group in optimizer.param_groups:
        group["lr"] = settings.rate(state.step)
    frozen = state.frozen
    assert frozen is not None
    if frozen.any():
        # Adam moves by momentum even where the gradient is 0, so frozen members are put back.
        kept = {name: parameter.detach()[frozen].clone() for name, parameter in parameters.items()}
        optimizer.step()
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter[frozen] = kept[name]
    else:
        optimizer.step()
    return losses.detach()


def _check_leading(parameters: Mapping[str, Tensor], members: torch.Size) -> None:
    for name, parameter in parameters.items():
        if parameter.shape[: len(members)] != members:
            raise ValueError(
                f"losses have shape {tuple(members)}, one per member, so every parameter must lead with it; "
                f"{name} has shape {tuple(parameter.shape)}"
            )


def _save(path: Path, described: dict, parameters, optimizer, generators, state: _State) -> None:
    """One safetensors file with the description as JSON in its header, so that it is whole or absent."""
    from safetensors.torch import save

    assert state.frozen is not None
    assert state.frozen_at is not None
    tensors = {"frozen": state.frozen, "frozen_at": state.frozen_at}
    for name, parameter in parameters.items():
        moments = optimizer.state[parameter]
        tensors[f"parameter/{name}"] = parameter.detach()
        tensors[f"mean/{name}"], tensors[f"square/{name}"] = moments["exp_avg"], moments["exp_avg_sq"]
    for number, generator in enumerate(generators):
        tensors[f"generator/{number}"] = generator.get_state()
    if state.running is not None:
        tensors["running"] = state.running
    if state.records:
        tensors["records"] = torch.stack(state.records)
    for name, values in state.observations.items():
        tensors[f"observation/{name}"] = torch.stack(values)
    tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    header = {"step": state.step, "observed_at": state.observed_at, "generators": len(generators), **described}
    path.parent.mkdir(parents=True, exist_ok=True)
    payload = save(tensors, metadata={"format": FORMAT, "description": json.dumps(header)})
    write_atomically(path, lambda file: file.write(payload))


def _restore(path: Path, described: dict, parameters, optimizer, generators, state: _State) -> None:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        if metadata.get("format") != FORMAT:
            raise ValueError(f"{path.name} is no checkpoint of format {FORMAT}; remove it to start anew")
        header = json.loads(metadata["description"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    for part in ("settings", "identity"):
        if header[part] != described[part]:
            raise ValueError(
                f"checkpoint {path.name} was made with other {part}, {header[part]}, than {described[part]}; "
                "remove it to start anew, or pass what it was made with"
            )
    if header["generators"] != len(generators):
        raise ValueError(f"checkpoint {path.name} has {header['generators']} generators; got {len(generators)}")
    device = next(iter(parameters.values())).device
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"parameter/{name}"])
            optimizer.state[parameter] = {
                "step": torch.tensor(float(header["step"]), dtype=torch.float32, device=device),
                "exp_avg": tensors[f"mean/{name}"].to(device),
                "exp_avg_sq": tensors[f"square/{name}"].to(device),
            }
    for number, generator in enumerate(generators):
        generator.set_state(tensors[f"generator/{number}"])
    state.step, state.observed_at = header["step"], header["observed_at"]
    state.frozen, state.frozen_at = tensors["frozen"].to(device), tensors["frozen_at"].to(device)
    state.running = tensors["running"].to(device) if "running" in tensors else None
    state.records = [record.to(device) for record in tensors["records"]] if "records" in tensors else []
    for name, stacked in tensors.items():
        if name.startswith("observation/"):
            state.observations[name.removeprefix("observation/")] = list(stacked)

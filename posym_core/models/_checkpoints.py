"""State of a training run, and the file that it is taken up from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.store._resuming import describe_difference, describe_work, read_part, write_part
from posym_core.store._sealing import DamagedError


@dataclass(frozen=True, kw_only=True)
class History:
    """Record of a training.

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


@dataclass
class State:
    """Everything beside parameters, optimiser and generators that a resumed run needs.

    Attributes:
        running: sum of each member's losses since the last record; empty before the first step.
        frozen_at: see :class:`History`.
        held: places of the frozen members, or None.
        finished: whether all are frozen.
    """

    step: int = 0
    running: Tensor = field(default_factory=lambda: torch.zeros(0))
    frozen_at: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    held: tuple[Tensor, ...] | None = None
    finished: bool = False
    records: list[Tensor] = field(default_factory=list)
    observations: dict[str, list[Tensor]] = field(default_factory=dict)
    observed_at: list[int] = field(default_factory=list)

    def record(self, every: int, stop_loss: float) -> Tensor:
        """Keep the mean losses since the last record, and freeze the members whose loss is low."""
        since = self.step - every * ((self.step - 1) // every)
        mean = self.running / since
        if not torch.isfinite(mean).all():
            bad = (~torch.isfinite(mean)).nonzero().tolist()
            raise FloatingPointError(
                f"the loss of members {bad} is not finite within {since} steps before step {self.step}; "
                "pass a lower learning_rate"
            )
        self.running = torch.zeros_like(mean)
        self.records.append(mean)
        newly = (mean < stop_loss) & (self.frozen_at > self.step)
        if newly.any():
            self.frozen_at[newly] = self.step
            self.look_at_frozen()
        return mean

    def look_at_frozen(self) -> None:
        """Note which members are frozen where no step has to ask the device for it."""
        frozen = self.frozen_at <= self.step
        self.finished = bool(frozen.all())
        self.held = frozen.nonzero(as_tuple=True) if frozen.any() else None

    def observe(self, observed: Mapping[str, Tensor] | None) -> None:
        """Keep what was observed."""
        if observed is None:
            return
        self.observed_at.append(self.step)
        for name, value in observed.items():
            self.observations.setdefault(name, []).append(value.detach().cpu().clone())

    def history(self) -> History:
        """Return what is told of the run."""
        return History(
            losses=torch.stack(self.records).cpu(),
            frozen_at=self.frozen_at.cpu(),
            steps=self.step,
            observations={name: torch.stack(values) for name, values in self.observations.items()},
            observed_at=torch.tensor(self.observed_at, dtype=torch.long),
        )


def save(path: Path, described: Mapping, parameters, optimizer, generators, state: State) -> None:
    """Write all that the run goes on from as one file, whole or absent; ``described`` is what was asked for."""
    tensors = {"frozen_at": state.frozen_at, "running": state.running}
    if state.records:
        tensors["records"] = torch.stack(state.records)
    for name, parameter in parameters.items():
        moments = optimizer.state[parameter]
        tensors[f"parameter/{name}"] = parameter
        tensors[f"mean/{name}"], tensors[f"square/{name}"] = moments["exp_avg"], moments["exp_avg_sq"]
    for number, generator in enumerate(generators):
        tensors[f"generator/{number}"] = generator.get_state()
    for name, values in state.observations.items():
        tensors[f"observation/{name}"] = torch.stack(values)
    about = {"step": state.step, "observed_at": state.observed_at, "identity": describe_work(**described)}
    write_part(path, tensors, about)


def restore(path: Path, described: Mapping, parameters, optimizer, generators, state: State) -> None:
    """Take up a run where :func:`save` left it; raise if it is another's."""
    try:
        tensors, about = read_part(path)
    except DamagedError as error:
        raise DamagedError(f"checkpoint {error}; remove it to start again") from error
    if differing := describe_difference(about["identity"], describe_work(**described)):
        raise ValueError(
            f"checkpoint {path.name} was made with other {differing}, and no training run mixes two; remove it to "
            "start again, or go on with what it was made with"
        )
    device = next(iter(parameters.values())).device
    step = torch.tensor(float(about["step"]), device=device)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[f"parameter/{name}"])
            mean, square = (tensors[f"{moment}/{name}"].to(device) for moment in ("mean", "square"))
            optimizer.state[parameter] = {"step": step.clone(), "exp_avg": mean, "exp_avg_sq": square}
    for number, generator in enumerate(generators):
        generator.set_state(tensors[f"generator/{number}"])
    state.step, state.observed_at = about["step"], about["observed_at"]
    state.running, state.frozen_at = tensors["running"].to(device), tensors["frozen_at"].to(device)
    state.records = list(tensors["records"].to(device)) if "records" in tensors else []
    state.look_at_frozen()
    for name, stacked in tensors.items():
        if name.startswith("observation/"):
            state.observations[name.removeprefix("observation/")] = list(stacked)

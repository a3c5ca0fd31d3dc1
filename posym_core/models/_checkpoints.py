"""What a training run has come to, and the file that it is taken up from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from posym_core.store._resuming import describe_difference, describe_work, read_part, write_part
from posym_core.store._sealing import DamagedError


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


@dataclass
class State:
    """Everything beside parameters, optimiser and generators that a resumed run needs.

    Until the first losses tell how many members there are, the tensors are empty.

    Attributes:
        running: sum of each member's losses since the last record.
        frozen: which members are frozen.
        frozen_at: see :class:`History`.
        finished: whether all are frozen, as the host knows it.
        held: the places of the frozen, as the host knows them.
    """

    step: int = 0
    running: Float[Tensor, "*member"] = field(default_factory=lambda: torch.zeros(0))
    frozen: Bool[Tensor, "*member"] = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    frozen_at: Int64[Tensor, "*member"] = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    finished: bool = False
    held: tuple[Tensor, ...] | None = None
    records: list[Tensor] = field(default_factory=list)
    observations: dict[str, list[Tensor]] = field(default_factory=dict)
    observed_at: list[int] = field(default_factory=list)

    @property
    def started(self) -> bool:
        """Whether the members are known."""
        return self.running.numel() > 0

    def start(self, losses: Tensor, steps: int) -> None:
        self.running = torch.zeros_like(losses)
        self.frozen = torch.zeros_like(losses, dtype=torch.bool)
        self.frozen_at = torch.full_like(losses, steps, dtype=torch.long)

    def record(self, every: int, stop_loss: float) -> Tensor:
        since = self.step - every * ((self.step - 1) // every)
        mean = self.running / since
        if not torch.isfinite(mean).all():
            bad = (~torch.isfinite(mean)).nonzero().tolist()
            raise FloatingPointError(
                f"the loss of members {bad} is not finite within {since} steps before step {self.step}; "
                "pass a lower learning_rate"
            )
        self.running.zero_()
        self.records.append(mean)
        newly = (mean < stop_loss) & ~self.frozen
        if newly.any():
            self.frozen_at[newly] = self.step
            self.frozen |= newly
            self.look_at_frozen()
        return mean

    def look_at_frozen(self) -> None:
        self.finished = bool(self.frozen.all())
        self.held = self.frozen.nonzero(as_tuple=True) if self.frozen.any() else None

    def observe(self, step: int, observed: Mapping[str, Tensor] | None) -> None:
        if observed is None:
            return
        self.observed_at.append(step)
        for name, value in observed.items():
            self.observations.setdefault(name, []).append(value.detach().cpu().clone())

    def history(self) -> History:
        return History(
            losses=torch.stack(self.records).cpu() if self.records else self.frozen_at.new_zeros(0).float(),
            frozen_at=self.frozen_at.cpu(),
            steps=self.step,
            observations={name: torch.stack(values) for name, values in self.observations.items()},
            observed_at=torch.tensor(self.observed_at, dtype=torch.long),
        )


def save(path: Path, described: dict, parameters, optimizer, generators, state: State) -> None:
    """Write all that the run goes on from as one file, whole or absent; ``described`` is what was asked for."""
    tensors = {"frozen": state.frozen, "frozen_at": state.frozen_at, "running": state.running}
    for name, parameter in parameters.items():
        moments = optimizer.state[parameter]
        tensors[f"parameter/{name}"] = parameter.detach()
        tensors[f"mean/{name}"], tensors[f"square/{name}"] = moments["exp_avg"], moments["exp_avg_sq"]
    for number, generator in enumerate(generators):
        tensors[f"generator/{number}"] = generator.get_state()
    if state.records:
        tensors["records"] = torch.stack(state.records)
    for name, values in state.observations.items():
        tensors[f"observation/{name}"] = torch.stack(values)
    progress = {"step": state.step, "observed_at": state.observed_at, "generators": len(generators)}
    write_part(path, tensors, {**progress, "identity": describe_work(**described)})


def restore(path: Path, described: dict, parameters, optimizer, generators, state: State) -> None:
    try:
        tensors, header = read_part(path)
    except DamagedError as error:
        raise DamagedError(f"checkpoint {error}; remove it to start anew") from error
    if differing := describe_difference(header["identity"], describe_work(**described)):
        raise ValueError(
            f"checkpoint {path.name} was made with other {differing}, and no training run mixes two; remove it to "
            "start anew, or go on with what it was made with"
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
    state.running = tensors["running"].to(device)
    state.look_at_frozen()
    state.records = [record.to(device) for record in tensors["records"]] if "records" in tensors else []
    for name, stacked in tensors.items():
        if name.startswith("observation/"):
            state.observations[name.removeprefix("observation/")] = list(stacked)

"""Low-rank additions to a model's weights: a model that has learned something, told by how it differs from another.

Every chosen matrix ``W`` becomes ``W + up @ down`` with two thin factors (Hu et al. 2021, *LoRA*), so that what a model
of a gigabyte has learned is a file of less than a megabyte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from posym_core.checks import require_count
from posym_core.runs.store import sha256

Factors = Mapping[str, Tensor]
"""``"<module>.up"`` ``[out, rank]`` and ``"<module>.down"`` ``[rank, in]`` of every changed matrix."""


class LowRank(nn.Module):
    """``W + up @ down``, with ``up`` zero at first, so that nothing changes before something is learned."""

    def __init__(self, weight: Float[Tensor, "out in"], rank: int, generator: torch.Generator) -> None:
        super().__init__()
        rows, columns = weight.shape
        down = torch.randn(rank, columns, generator=generator) / columns**0.5
        self.down = nn.Parameter(down.to(weight))
        self.up = nn.Parameter(torch.zeros(rows, rank).to(weight))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.up @ self.down


@contextlib.contextmanager
def learning(
    model: nn.Module, modules: Iterable[str], *, rank: int, generator: torch.Generator
) -> Iterator[dict[str, nn.Parameter]]:
    """Within the block, ``model`` computes with low-rank additions that can be trained; afterwards it is what it was.

    Args:
        model: any model; its own weights are not trained.
        modules: names of the modules whose ``weight`` is a matrix to add to.
        rank: of every addition.
        generator: of the first ``down``, on the CPU.

    Yields:
        The factors, named as :data:`Factors` says.

    Raises:
        ValueError: if the rank is no positive number, or a module is not there or has no matrix.
    """
    require_count("rank", rank, 1)
    chosen = {name: _matrix_module(model, name) for name in modules}
    factors: dict[str, nn.Parameter] = {}
    with contextlib.ExitStack() as stack:
        for name, module in chosen.items():
            addition = LowRank(module.weight, rank, generator)
            parametrize.register_parametrization(module, "weight", addition)
            stack.callback(parametrize.remove_parametrizations, module, "weight", leave_parametrized=False)
            factors |= {f"{name}.up": addition.up, f"{name}.down": addition.down}
        yield factors


@contextlib.contextmanager
def learning_whole(model: nn.Module, modules: Iterable[str]) -> Iterator[dict[str, Tensor]]:
    """Within the block, the matrices themselves can be trained, and no other weights; afterwards all are as before.

    Yields:
        The matrices as they were before, in memory of their own, by their modules' names.

    Raises:
        ValueError: if a module is not there or has no matrix.
    """
    chosen = {name: _matrix_module(model, name).weight for name in modules}
    asked = {parameter: parameter.requires_grad for parameter in model.parameters()}
    before = {name: weight.detach().clone() for name, weight in chosen.items()}
    model.requires_grad_(False)
    for weight in chosen.values():
        weight.requires_grad_(True)
    try:
        yield before
    finally:
        with torch.no_grad():
            for name, weight in chosen.items():
                weight.copy_(before[name])
        for parameter, wanted in asked.items():
            parameter.requires_grad_(wanted)


def nearest_factors(
    change: Float[Tensor, "out in"], rank: int
) -> tuple[Float[Tensor, "out rank"], Float[Tensor, "rank in"]]:
    """``up`` and ``down`` whose product is the matrix of this rank that is nearest to a change (Eckart and Young 1936).

    Raises:
        ValueError: if the rank is no positive number.
    """
    require_count("rank", rank, 1)
    left, sizes, right = torch.linalg.svd(change.double(), full_matrices=False)
    root = sizes[:rank].sqrt()
    return (left[:, :rank] * root).to(change), (root[:, None] * right[:rank]).to(change)


@contextlib.contextmanager
def added(model: nn.Module, factors: Factors) -> Iterator[None]:
    """Within the block, ``model`` has the additions; afterwards every bit is what it was."""
    before = {name: _matrix_module(model, name).weight.detach().clone() for name in _names(factors)}
    add(model, factors)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, weight in before.items():
                _matrix_module(model, name).weight.copy_(weight)


def add(model: nn.Module, factors: Factors) -> None:
    """Add to a model's weights in place; sums are formed in float32 and rounded to the weights' type once.

    Raises:
        ValueError: if a module is not there, a factor lacks its partner, a shape does not fit, or weights are kept
            out of memory.
    """
    sums = {}
    for name in _names(factors):
        weight = _matrix_module(model, name).weight
        up, down = factors[f"{name}.up"], factors[f"{name}.down"]
        if (up.shape[0], down.shape[1], up.shape[1]) != (*weight.shape, down.shape[0]):
            raise ValueError(
                f"the addition to {name} must be [{weight.shape[0]}, rank] times [rank, {weight.shape[1]}]; got "
                f"{list(up.shape)} times {list(down.shape)}: it was made for another model"
            )
        if weight.is_meta:
            raise ValueError(
                f"the weights of {name} are kept on disk (device_map), where nothing can be added to them; load the "
                "model without device_map, or on a machine that holds it"
            )
        wide = torch.promote_types(weight.dtype, torch.float32)
        sums[name] = weight.to(wide) + up.to(weight.device, wide) @ down.to(weight.device, wide)
    with torch.no_grad():
        for name, total in sums.items():
            _matrix_module(model, name).weight.copy_(total)


def read_factors(path: Path, *, expected: str | None = None) -> dict[str, Tensor]:
    """Factors from a safetensors file.

    Args:
        path: of the file.
        expected: its SHA-256; None for no check.

    Raises:
        FileNotFoundError: if it is not there.
        ValueError: if it is not the expected file.
    """
    from safetensors.torch import load_file

    if not path.is_file():
        raise FileNotFoundError(f"the additions {path.name} are not there; install posym-core anew")
    if expected is not None and (found := sha256(path)) != expected:
        raise ValueError(
            f"the additions {path.name} were altered or are others: their SHA-256 is {found[:12]}..., not "
            f"{expected[:12]}...; install posym-core anew"
        )
    return load_file(path)


def factors_as_bytes(factors: Factors, **notes: str) -> bytes:
    """Factors as the content of a safetensors file, in float16, with ``notes`` in its header."""
    from safetensors.torch import save

    return save({name: x.detach().half().cpu().contiguous() for name, x in factors.items()}, metadata=notes)


def _names(factors: Factors) -> list[str]:
    """The changed modules."""
    names = sorted({name.rpartition(".")[0] for name in factors})
    if set(factors) != {f"{name}.{part}" for name in names for part in ("up", "down")}:
        raise ValueError(f"every addition has an up and a down; got {', '.join(sorted(factors))[:200]}")
    return names


def _matrix_module(model: nn.Module, name: str) -> Any:
    try:
        module = model.get_submodule(name)
    except AttributeError:
        raise ValueError(
            f"{type(model).__name__} has no module {name}, which the additions are for; pass the model that they were "
            "made for"
        ) from None
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        raise ValueError(f"additions are made to matrices, but {name} of {type(model).__name__} has none")
    return module

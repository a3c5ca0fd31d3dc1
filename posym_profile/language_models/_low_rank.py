"""Low-rank additions to a model's weights: a model that has learned something, told by how it differs from another.

Every chosen matrix ``W`` becomes ``W + up @ down`` with two thin factors (Hu et al. 2021, *LoRA*), so that what a model
of a gigabyte has learned is a file of less than a megabyte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posym_core.store import sha256

LoraWeights = Mapping[str, Tensor]
"""``"<module>.up"`` ``[out, rank]`` and ``"<module>.down"`` ``[rank, in]`` of every changed matrix."""


@contextlib.contextmanager
def merge_lora(model: nn.Module, factors: LoraWeights) -> Iterator[None]:
    """Give ``model`` the additions within the block; afterwards every bit is what it was."""
    before = {name: find_matrix(model, name).weight.detach().clone() for name in _names(factors)}
    add_lora(model, factors)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, weight in before.items():
                find_matrix(model, name).weight.copy_(weight)


def add_lora(model: nn.Module, factors: LoraWeights) -> None:
    """Add to a model's weights in place; sums are formed in float32 and rounded to the weights' type once."""
    sums = {}
    for name in _names(factors):
        weight = find_matrix(model, name).weight
        up, down = factors[f"{name}.up"], factors[f"{name}.down"]
        if (up.shape[0], down.shape[1], up.shape[1]) != (*weight.shape, down.shape[0]):
            raise ValueError(
                f"the addition to {name} must be [{weight.shape[0]}, rank] times [rank, {weight.shape[1]}]; got "
                f"{list(up.shape)} times {list(down.shape)}: it was made for another model"
            )
        if weight.is_meta:
            raise ValueError(f"the weights of {name} are kept on disk; load the model without device_map")
        wide = torch.promote_types(weight.dtype, torch.float32)
        sums[name] = weight.to(wide) + up.to(weight.device, wide) @ down.to(weight.device, wide)
    with torch.no_grad():
        for name, total in sums.items():
            find_matrix(model, name).weight.copy_(total)


def read_factors(path: Path, *, expected: str | None = None) -> dict[str, Tensor]:
    """Read factors from a safetensors file; raise if its SHA-256 is another than ``expected``, None for no check."""
    from safetensors.torch import load_file

    if expected is not None and (digest := sha256(path)) != expected:
        raise ValueError(
            f"the additions {path.name} were altered or are others: their SHA-256 is {digest[:12]}..., not "
            f"{expected[:12]}...; install posym-core again"
        )
    return load_file(path)


def _names(factors: LoraWeights) -> list[str]:
    """Return the names of the changed modules."""
    names = sorted({name.rpartition(".")[0] for name in factors})
    if set(factors) != {f"{name}.{part}" for name in names for part in ("up", "down")}:
        raise ValueError(f"every addition has an up and a down; got {', '.join(sorted(factors))[:200]}")
    return names


def find_matrix(model: nn.Module, name: str) -> Any:
    """Return the module of that name; raise if the model has none whose weight is a matrix."""
    module = dict(model.named_modules()).get(name)
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        raise ValueError(f"{type(model).__name__} has no module {name} with a matrix, which the additions are for")
    return module

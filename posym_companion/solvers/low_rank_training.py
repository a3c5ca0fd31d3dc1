"""Low-rank additions that are trained, or made of weights that were: ``low_rank``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from posym_core._checks import require_count
from posym_profile.language_models import LoraWeights, find_matrix


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
def train_lora(
    model: nn.Module, modules: Iterable[str], *, rank: int, generator: torch.Generator
) -> Iterator[dict[str, nn.Parameter]]:
    """Within the block, ``model`` computes with low-rank additions that can be trained; afterwards it is what it was.

    Its own weights are not trained. Yield the factors, named as :data:`LoraWeights` says.
    """
    require_count("rank", rank, 1)
    chosen = {name: find_matrix(model, name) for name in modules}
    factors: dict[str, nn.Parameter] = {}
    with contextlib.ExitStack() as stack:
        for name, module in chosen.items():
            addition = LowRank(module.weight, rank, generator)
            parametrize.register_parametrization(module, "weight", addition)
            stack.callback(parametrize.remove_parametrizations, module, "weight", leave_parametrized=False)
            factors |= {f"{name}.up": addition.up, f"{name}.down": addition.down}
        yield factors


@contextlib.contextmanager
def train_matrices(model: nn.Module, modules: Iterable[str]) -> Iterator[dict[str, Tensor]]:
    """Within the block, the matrices themselves can be trained, and no other weights; afterwards all are as before.

    Yield the matrices as they were before, by their modules' names.
    """
    chosen = {name: find_matrix(model, name).weight for name in modules}
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


def factor_change(
    change: Float[Tensor, "out in"], rank: int
) -> tuple[Float[Tensor, "out rank"], Float[Tensor, "rank in"]]:
    """Return factors whose product is the matrix of this rank that is nearest to a change (Eckart and Young 1936)."""
    require_count("rank", rank, 1)
    left, sizes, right = torch.linalg.svd(change.double(), full_matrices=False)
    root = sizes[:rank].sqrt()
    return (left[:, :rank] * root).to(change), (root[:, None] * right[:rank]).to(change)


def encode_factors(factors: LoraWeights, **notes: str) -> bytes:
    """Return factors as the content of a safetensors file, in float16, with ``notes`` in its header."""
    from safetensors.torch import save

    return save({name: x.detach().half().cpu().contiguous() for name, x in factors.items()}, metadata=notes)

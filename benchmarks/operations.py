"""How many operations swap scores dispatch and how many numbers they read, scored either way; no time is measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from posym_core import rope_angles, swap_scores

# Keys and block length: short and long inputs, few blocks and many.
SIZES = ((258, 4), (1026, 4), (1026, 16), (4098, 62))
READS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default, torch.ops.aten.nonzero.default)


class Operations(TorchDispatchMode):
    """Counts what is dispatched within the block, views included, and which of it waits for a number."""

    def __init__(self) -> None:
        super().__init__()
        self.dispatched = self.reads = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.dispatched += 1
        self.reads += func in READS
        return func(*args, **(kwargs or {}))


@contextmanager
def scoring(way: str) -> Iterator[None]:
    """Score as on a ``"cpu"`` or on another ``"device"`` within the block."""
    before = os.environ.get("POSYM_SCORING")
    os.environ["POSYM_SCORING"] = way
    try:
        yield
    finally:
        del os.environ["POSYM_SCORING"]
        if before is not None:
            os.environ["POSYM_SCORING"] = before


def layer(keys: int, block_length: int) -> Callable[[], object]:
    """To score eight key heads of four queries each, whose dot products spread by 1."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, 8, 4, 64, generator=generator)
    all_keys, angles = torch.randn(1, 8, 1, keys, 64, generator=generator), rope_angles(64)
    return lambda: swap_scores(query, all_keys, angles, start=1, block_length=block_length, scale=64**-0.5)


def counted(run: Callable[[], object], way: str) -> Operations:
    """The operations of a run."""
    with scoring(way), Operations() as seen:
        run()
    return seen


def rows() -> Iterator[str]:
    """Table rows, as they are counted."""
    for keys, block_length in SIZES:
        run = layer(keys, block_length)
        cpu, device = counted(run, "cpu"), counted(run, "device")
        yield (
            f"| swap scores of 32 heads, {keys:,} keys in blocks of {block_length}: as on a CPU, as on a GPU | "
            f"{cpu.dispatched:,} operations and {cpu.reads} reads, {device.dispatched:,} and {device.reads} |"
        )

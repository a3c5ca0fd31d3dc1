"""Where tensors live, a GPU where there is one and the CPU everywhere else; and how many find room there at once."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from posym_core._checks import require_count

Found = TypeVar("Found")

# Tokens of one forward pass: enough to use the machine, few enough for a small one.
TOKENS_A_BATCH = 4096


def choose_device(device: str = "auto") -> torch.device:
    """Return the device: ``"auto"`` is :func:`find_preferred_device`, anything else goes to torch."""
    if device == "auto":
        return find_preferred_device()
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {device!r} cannot be used here ({reason}); pass 'auto' or 'cpu'") from error
    return chosen


def find_preferred_device() -> torch.device:
    """Return what ``"auto"`` is: CUDA where PyTorch has it and a GPU to run on, else the CPU."""
    has_cuda = torch.cuda.is_available() and torch.cuda.device_count() > 0
    return torch.device("cuda" if has_cuda else "cpu")


def describe_device(device: torch.device) -> str:
    """Say what ran it: an accelerator's name, or the processor's kind with the number of threads."""
    if device.type == "cpu":
        number = torch.get_num_threads()
        return f"CPU ({platform.machine()}, {number} thread{'s' * (number != 1)})"
    named = getattr(getattr(torch, device.type, None), "get_device_name", None)
    return f"{device.type} ({platform.machine()})" if named is None else named(device)


def map_batches(measure: Callable[[Tensor], Found], rows: Tensor, size: int | None = None) -> Iterator[Found]:
    """Yield what a function returns of ``size`` rows after the other; by default of about 4,096 tokens.

    Where these are too many for the memory, the rows are halved, but none is left out and none is measured twice. Of
    one row alone, or of a ``size`` that was asked for, the error of torch is raised.
    """
    count = max(1, TOKENS_A_BATCH // rows.shape[1]) if size is None else require_count("batch_size", size, 1)
    while len(rows):
        count = min(count, len(rows))
        try:
            found = measure(rows[:count])
        except torch.OutOfMemoryError as error:
            if size is not None or count == 1:
                error.add_note(f"prompts in one pass: {count}; pass a smaller batch_size, or shorter prompts")
                raise
            count //= 2
            continue
        yield found
        rows = rows[count:]

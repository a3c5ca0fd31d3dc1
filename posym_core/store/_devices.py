"""Where tensors live: a GPU where there is one, the CPU everywhere else."""

from __future__ import annotations

import platform

import torch


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

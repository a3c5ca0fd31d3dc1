"""Timing with warm-up; the best of several runs, because noise only adds."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def best(run: Callable[[], object], *, repeats: int = 5, warm_up: int = 1) -> float:
    """Seconds of the fastest of ``repeats`` runs."""
    for _ in range(warm_up):
        run()
    times = []
    for _ in range(repeats):
        _wait()
        began = time.perf_counter()
        run()
        _wait()
        times.append(time.perf_counter() - began)
    return min(times)


def peak_memory(run: Callable[[], object], device: torch.device) -> int:
    """Bytes by which the memory of the device that ``run`` runs on grows above its start: CUDA's, or the process's."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return torch.cuda.max_memory_allocated(device) - before
    import threading

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    before, largest, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            largest[0] = max(largest[0], resident())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        run()
    finally:
        done.set()
        thread.join()
    return max(0, largest[0] - before)


def _wait() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()

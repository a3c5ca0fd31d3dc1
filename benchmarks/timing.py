"""Cost of a run: time after a warm-up, the best of several because noise only adds; memory; and launches."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def best(run: Callable[[], object], *, repeats: int = 5, warm_up: int = 1) -> float:
    """Seconds of the fastest of ``repeats`` runs."""
    return best_of_each(run, repeats=repeats, warm_up=warm_up)[0]


def best_of_each(*runs: Callable[[], object], repeats: int = 5, warm_up: int = 1) -> list[float]:
    """Seconds of each run's fastest of ``repeats``, taken in turns, so that a slow minute of the machine meets all."""
    for _ in range(warm_up):
        for run in runs:
            run()
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, taken in zip(runs, times, strict=True):
            _wait()
            began = time.perf_counter()
            run()
            _wait()
            taken.append(time.perf_counter() - began)
    return [min(taken) for taken in times]


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
    return max(0, largest[0] - before, resident() - before)


def count_launches(run: Callable[[], object], device: torch.device) -> int:
    """Return how many kernels a run launches on a GPU; on a CPU, operations of PyTorch and of what they consist."""
    on_card = device.type == "cuda"
    watched = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * on_card]
    with profile(activities=watched, acc_events=True) as seen:
        run()
        _wait()
    names = ("cudaLaunchKernel", "cuLaunchKernel") if on_card else ("aten::",)
    return sum(event.count for event in seen.key_averages() if event.key.startswith(names))


def _wait() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()

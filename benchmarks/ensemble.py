"""How much faster a grid of toy models trains as one batched ensemble than one model after another.

Both do the same number of steps of every model on batches of the same size, after a warm-up of each, alternating in
one process. The ratio printed last is (one at a time) / (batched) of the medians.

    python benchmarks/ensemble.py --help
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator

import torch

from posym_core import rope_angles
from posym_core.models import ToyEnsemble, TrainingSettings, make_generators, sample_streams, train
from posym_core.store import choose_device, describe_device
from posym_core.tasks import IndexTask, PartialInductionTask, RetrievalTask, Task

TASKS = {"index": IndexTask, "retrieval": RetrievalTask, "induction": PartialInductionTask}


def seconds(model: ToyEnsemble, steps: int, batch: int) -> float:
    """Wall time of training from a fresh optimiser, the device's queue empty at both ends."""
    device = model.embedding.device

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    wait()
    start = time.perf_counter()
    train(
        model,
        lambda count, generators: sample_streams(model.task, count, generators),
        generators=make_generators(model.seeds, device, purpose=0),
        settings=TrainingSettings(steps=steps, batch=batch),
        progress=False,
    )
    wait()
    return time.perf_counter() - start


def both(
    task: Task, *, angles: int, seeds: int, steps: int, batch: int, rounds: int, device: torch.device
) -> tuple[list[float], list[float], int]:
    """Seconds of every round as one ensemble and one model after another, and how many models there are."""
    chosen = rope_angles(64)[torch.linspace(0, 31, angles).round().long()][:, None]
    grid = ToyEnsemble(task, chosen, seeds=range(seeds)).to(device)
    singles = [grid.member(seed, variant) for seed in range(seeds) for variant in range(angles)]

    seconds(grid, 5, batch)
    for single in singles[:3]:
        seconds(single, 5, batch)
    batched, alone = [], []
    for _ in range(rounds):
        batched.append(seconds(grid, steps, batch))
        alone.append(sum(seconds(single, steps, batch) for single in singles))
    return batched, alone, seeds * angles


def rows() -> Iterator[str]:
    """Table rows, as they are measured: a small grid."""
    device = choose_device()
    for name, make in TASKS.items():
        batched, alone, members = both(make(length=16), angles=8, seeds=3, steps=10, batch=64, rounds=3, device=device)
        ratio = statistics.median(alone) / statistics.median(batched)
        yield f"| {members} toys of {name} as one ensemble against one after another | {ratio:.1f} times faster |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="retrieval")
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--angles", type=int, default=32, help="how many of the 32 angles of dimension 64")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of every model")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (default: torch's choice)")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    device = choose_device(given.device)
    task = TASKS[given.task](length=given.length)
    batched, alone, members = both(
        task,
        angles=given.angles,
        seeds=given.seeds,
        steps=given.steps,
        batch=given.batch,
        rounds=given.rounds,
        device=device,
    )
    per_step = 1e3 / (given.steps * members)
    print(f"{describe_device(device)}; {given.task}, length {given.length}, {members} models, batch {given.batch}")
    for name, times in (("batched", batched), ("one at a time", alone)):
        spread = f"{min(times) * per_step:.3f} to {max(times) * per_step:.3f}"
        print(f"{name:>14}: {statistics.median(times) * per_step:.3f} ms per model and step ({spread})")
    print(f"{'ratio':>14}: {statistics.median(alone) / statistics.median(batched):.1f}")


if __name__ == "__main__":
    main()

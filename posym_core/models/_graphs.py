"""Training steps as CUDA graphs: recorded once for each shape of a batch, then launched as a whole.

A small model's step on a GPU is a thousand small kernels, and launching them one by one takes longer than they do.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

# Steps of a shape that are made one kernel at a time before it is recorded: libraries choose their kernels in them.
WARM_UP = 3

Step = Callable[[tuple[Tensor, ...]], None]


def rebuild_batch(batch: tuple, fields: Iterable[Any]) -> tuple:
    """Return a batch of the same kind, a named tuple or a plain one."""
    make = getattr(batch, "_make", tuple)
    return make(fields)


class Recorder:
    """How CUDA records: on a stream of its own, with one pool of memory for all graphs, which never run at once."""

    def __init__(self, device: torch.device):
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def make(self, run: Callable[[], None]) -> None:
        """Run it as it is, on the stream of the recordings."""
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        with torch.cuda.stream(self.stream), warnings.catch_warnings():
            # The optimizer is made for graphs and says so when it steps outside of one.
            warnings.filterwarnings("ignore", message=".*capturable=True")
            run()
        torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def record(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return what does again all that ``run`` does on the device, on the same memory; nothing is done yet."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            run()
        return graph.replay


class GraphedStep:
    """A step that reads no value and copies nothing from the host, as CUDA graphs.

    Args:
        step: takes a batch of tensors on the device.
        recorder: see :class:`Recorder`.
    """

    def __init__(self, step: Step, recorder: Recorder):
        self.step, self.recorder = step, recorder
        self.met: Counter[tuple] = Counter()
        self.recorded: dict[tuple, tuple[tuple[Tensor, ...], Callable[[], None]]] = {}

    def __call__(self, batch: tuple[Tensor, ...]) -> None:
        shapes = tuple(x.shape for x in batch)
        self.met[shapes] += 1
        if self.met[shapes] <= WARM_UP:
            self.recorder.make(lambda: self.step(batch))
            return
        if shapes not in self.recorded:
            buffers = rebuild_batch(batch, (x.clone() for x in batch))
            self.recorded[shapes] = buffers, self.recorder.record(lambda: self.step(buffers))
        buffers, replay = self.recorded[shapes]
        for buffer, new in zip(buffers, batch, strict=True):
            buffer.copy_(new)
        replay()

    def forget(self) -> None:
        """Record anew: the step is another from now on."""
        self.recorded.clear()

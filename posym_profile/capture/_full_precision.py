"""Compute models in half precision in float32: what a model *is* can be asked without its rounding.

Guards against attention that is no softmax over rotary logits must see differences of 1e-4, and slow planes turn by
less than half precision resolves. A copy of the model in float32 would take twice its memory, and changing its
parameters for a time would disturb other threads. So each operation gets its half-precision operands in float32, one
at a time, in this thread alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

HALF = (torch.bfloat16, torch.float16)
CONVOLUTIONS = (torch.conv1d, torch.conv2d, torch.conv3d)


@contextlib.contextmanager
def compute_in_float32(model: nn.Module) -> Iterator[None]:
    """Let a model that has weights in half precision compute in float32 within the block, in this thread."""
    half = next((parameter.dtype for parameter in model.parameters() if parameter.dtype in HALF), None)
    if half is None:
        yield
        return
    with InFloat32(half), _WideConvolutions():
        yield


class _WideConvolutions(TorchFunctionMode):
    """Widens operands of convolutions, which compare types before :class:`InFloat32` can see them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in CONVOLUTIONS:
            args, kwargs = tree_map(_widened, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))


class InFloat32(TorchDispatchMode):
    """Lets torch compute in float32 within the block wherever it would in bfloat16 or float16.

    Operations that are not torch's own, such as attention kernels for half precision alone, get what they would have
    got, in ``half``.
    """

    def __init__(self, half: torch.dtype) -> None:
        super().__init__()
        self.half = half

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.is_view:
            return func(*args, **kwargs)
        if func.namespace not in ("aten", "prims"):
            args, kwargs = tree_map(self._narrow, (args, kwargs))
            return func(*args, **kwargs)
        if func is torch.ops.aten.embedding.default:
            # The rows instead of the whole table.
            return _widened(func(*args, **kwargs))
        if kwargs.get("dtype") in HALF:
            kwargs = {**kwargs, "dtype": torch.float32}
        if func._schema.is_mutable:
            # What is written to keeps its own type.
            written, rest = args[0], tree_map(_widened, (args[1:], kwargs))
            return func(written, *rest[0], **rest[1])
        args, kwargs = tree_map(_widened, (args, kwargs))
        return func(*args, **kwargs)

    def _narrow(self, x: Any) -> Any:
        return x.to(self.half) if isinstance(x, Tensor) and x.dtype == torch.float32 else x


def _widened(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in HALF else x

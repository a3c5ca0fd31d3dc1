"""A second device on any machine: its tensors lie in main memory, say otherwise, and refuse to meet the CPU's.

What a GPU refuses is refused here: operations on tensors of both devices, NumPy arrays of its tensors, and numbers
drawn for it by a generator of the CPU. What a GPU allows is allowed: single numbers of the CPU in operations that go
entry by entry (but not to be written into), and indices that lie on the CPU.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

# A device type that PyTorch knows and this build has no kernels for; gradients flow back on the CPU's thread.
OTHER = torch.device("lazy", 0)
MOVES = {torch.ops.aten._to_copy, torch.ops.aten.copy_}
INDEXED = {torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_, torch.ops.aten._index_put_impl_}
FILLED = {torch.ops.aten.masked_fill, torch.ops.aten.masked_fill_, torch.ops.aten.fill, torch.ops.aten.fill_}
# Views that wait to be conjugated are known to the dispatcher of the CPU, which is not asked here any more.
AT_ONCE = {torch.ops.aten._conj.default: torch.ops.aten.conj_physical.default,
           torch.ops.aten._neg_view.default: torch.ops.aten.neg.default}  # fmt: skip
CPUGenerator = torch.Generator


class OtherTensor(torch.Tensor):
    """A tensor of the other device around one of the CPU."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> OtherTensor:
        described = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), device=OTHER, **described)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def __repr__(self, **_: Any) -> str:
        return f"OtherTensor({self.inner})"

    def __format__(self, spec: str) -> str:
        return format(self.inner, spec)

    @property
    def data(self) -> torch.Tensor:
        return OtherTensor(self.inner)

    @data.setter
    def data(self, new: OtherTensor) -> None:
        torch.Tensor.data.__set__(self, new)
        self.inner = new.inner

    def tolist(self) -> Any:
        return self.inner.tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError(f"can't convert {OTHER} device type tensor to numpy. Use Tensor.cpu() first")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


class OtherGenerator(CPUGenerator):
    """A generator of the other device, or an ordinary one of the CPU, as is asked for."""

    device = OTHER
    # What travels through an operation is another Python object around the same generator.
    made: ClassVar[dict[int, CPUGenerator]] = {}

    def __new__(cls, device: Any = "cpu") -> CPUGenerator:
        if torch.device(device).type != OTHER.type:
            return CPUGenerator(device)
        generator = CPUGenerator.__new__(cls)
        cls.made[generator._cdata] = generator
        return generator


class _Factories(TorchDispatchMode):
    """Makes what is asked for on the other device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


@contextmanager
def other_device() -> Iterator[torch.device]:
    """The other device, which exists within the block and is what ``"auto"`` chooses there."""
    optimizers = importlib.import_module("torch.optim.optimizer")
    supported = [*optimizers._get_fused_kernels_supported_devices(), OTHER.type]
    with pytest.MonkeyPatch.context() as patch, _Factories():
        patch.setattr(importlib.import_module("posym_core.store._devices"), "find_preferred_device", lambda: OTHER)
        patch.setattr(torch, "Generator", OtherGenerator)
        patch.setattr(optimizers, "_get_fused_kernels_supported_devices", lambda: supported)
        # Else torch.tensor(numbers, device=...) would make its tensor behind the mode's back.
        torch._C._set_only_lift_cpu_tensors(True)
        try:
            yield OTHER
        finally:
            torch._C._set_only_lift_cpu_tensors(False)
    OtherGenerator.made.clear()


def _call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    leaves = tree_leaves((args, kwargs))
    device = kwargs.get("device")
    there = any(isinstance(x, OtherTensor) for x in leaves)
    _require_one_device(func, args, leaves, there)
    result_there = there if device is None else torch.device(device).type == OTHER.type
    if result_there and any(isinstance(x, CPUGenerator) and x._cdata not in OtherGenerator.made for x in leaves):
        raise RuntimeError(f"Expected a '{OTHER}' device type for generator but found 'cpu'")
    plain_args, plain_kwargs = tree_map(lambda x: x.inner if isinstance(x, OtherTensor) else x, (args, kwargs))
    if device is not None and result_there:
        plain_kwargs["device"] = "cpu"
    result = AT_ONCE.get(func, func)(*plain_args, **plain_kwargs)
    if not result_there:
        return result
    wrapped = tree_map(lambda x: OtherTensor(x) if isinstance(x, torch.Tensor) else x, result)
    return return_and_correct_aliasing(func, args, kwargs, wrapped) if there else wrapped


def _require_one_device(func: Any, args: Sequence[Any], leaves: Sequence[Any], there: bool) -> None:
    here = [x for x in leaves if isinstance(x, torch.Tensor) and not isinstance(x, OtherTensor)]
    if not (here and there) or func.overloadpacket in MOVES:
        return
    if torch.Tag.pointwise in func.tags or func.overloadpacket in FILLED:
        written = args[0] if func._schema.is_mutable and func.overloadpacket not in FILLED else None
        here = [x for x in here if x.ndim or x is written]
    if func.overloadpacket in INDEXED and isinstance(args[0], OtherTensor):
        put = tree_leaves(args[2:])
        here = [x for x in here if x.ndim and any(x is one for one in put)]
    if here:
        shapes = [tuple(x.shape) for x in here]
        raise RuntimeError(f"{func}: expected all tensors on one device, found {OTHER}, and cpu with shapes {shapes}")

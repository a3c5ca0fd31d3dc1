"""Tell whether a model is still what it was: its tensors, configuration, hooks and replaced forward functions."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch._C import _len_torch_dispatch_stack, _len_torch_function_stack

from posym_core._checks import is_fake

PLAIN = (bool, int, float, str)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelState:
    """The parts and settings of a model, without keeping any of them alive.

    Attributes:
        parts: tensors and functions that must still be these very ones.
        marks: versions and places of tensors, numbers and settings that must be equal.
    """

    parts: Sequence[weakref.ref[Any]]
    marks: Sequence[Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModelState) or len(self.parts) != len(other.parts) or self.marks != other.marks:
            return False
        return all((part := a()) is not None and part is b() for a, b in zip(self.parts, other.parts, strict=True))


def describe_state(model: nn.Module) -> ModelState | None:
    """Describe a model's state; None where a change could not be seen, as of tensors without versions."""
    modules = [*model.modules()]
    held = [x for module in modules for x in (module._parameters, module._buffers, vars(module))]
    # By class: to ask isinstance takes several times as long, since a tensor's class answers that itself.
    tensors: list[Any] = [x for values in held for x in values.values() if Tensor in type(x).__mro__]
    modes = _len_torch_dispatch_stack() + _len_torch_function_stack()
    if modes or any(x.is_inference() for x in tensors) or any(map(is_fake, {type(x): x for x in tensors}.values())):
        return None
    settings = repr(vars(model.config)) if hasattr(model, "config") else ""
    marks = [(x._version, x.data_ptr(), x.dtype, x.device) for x in tensors]
    forwards = [forward for module in modules if (forward := vars(module).get("forward")) is not None]
    hooks = [(*module._forward_pre_hooks, *module._forward_hooks) for module in modules]
    plain = [{k: x for k, x in vars(m).items() if isinstance(x, PLAIN)} for m in modules if m._buffers]
    parts = [weakref.ref(x) for x in (*tensors, *forwards)]
    return ModelState(parts=parts, marks=[settings, marks, hooks, plain])

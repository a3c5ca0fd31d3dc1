"""Checks of inputs: each failure names the rule, the value and the way out."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# The message of a ValueError, or what makes it or another error of values that are read only then.
Refusal = str | Callable[[], str | Exception]


def require_positive(name: str, value: float) -> None:
    """Raise if a number is not above 0."""
    if not value > 0:
        raise ValueError(f"{name} must be above 0; got {value}")


def require_floor(name: str, value: float) -> None:
    """Raise if a number is not 0 or positive and finite."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be 0 or a positive finite number; got {value}")


def require_count(name: str, value: int, least: int, reason: str = "") -> int:
    """Return ``value``, an integer of Python, NumPy or a tensor, as an int; raise if it is none or below ``least``."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        because = f" ({reason})" if reason else ""
        raise ValueError(f"{name} must be a whole number of at least {least}{because}; got {value!r}")
    return number


def require_counts(**counts: tuple[int, int]) -> None:
    """Raise if one is no such integer: ``require_counts(facts=(facts, 2), count=(count, 1))``."""
    for name, (value, least) in counts.items():
        require_count(name, value, least)


def is_asynchronous(device: torch.device) -> bool:
    """Return whether to spare operations and looks at numbers on a device: all but the CPU wait for each."""
    return device.type != "cpu"


class Checks:
    """Checks of numbers: ``with Checks() as check: check(sound, "rule; value; way out")``.

    Who looks at a number on a GPU waits for all that was queued before. So a check there waits for the end of the
    block, where all are read at once and the first that failed is raised. On a CPU each is raised at once. A block
    within another block of the same thread leaves its checks to the outer one.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Tensor, Refusal]] = []
        self._outer: Any = None

    def __enter__(self) -> Checks:
        outer = _OPEN.get()
        if outer is None:
            self._outer = _OPEN.set(self)
        return outer or self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._outer is not None:
            _OPEN.reset(self._outer)
            if kind is None:
                self._raise_first()

    def __call__(self, sound: Tensor | bool, refusal: Refusal) -> None:
        """Raise ``refusal`` unless ``sound``, a bool or a tensor of one."""
        if isinstance(sound, Tensor) and is_asynchronous(sound.device):
            self._waiting.append((sound, refusal))
        elif not sound:
            self._raise_first()
            raise _make_error(refusal)

    def finite(self, name: str, x: Tensor) -> None:
        """Raise if an entry is NaN or infinite."""
        size, values = x.numel(), x.detach()
        if not size:
            return
        if is_asynchronous(x.device):
            # Counted now: to keep arrays until the end would be to keep all that is ever checked.
            bad = (values * 0).count_nonzero()
            self(bad == 0, lambda: _describe_not_finite(name, bad, size))
            return
        self(are_finite(values), lambda: _describe_not_finite(name, (~torch.isfinite(values)).sum(), size))

    def finite_magnitude(self, name: str, x: Tensor) -> float | Tensor:
        """Return the :func:`measure_magnitude`; raise if an entry is NaN or infinite."""
        largest = measure_magnitude(x)
        # On a CPU the one number tells of all.
        if isinstance(largest, Tensor) or not largest < math.inf:
            self.finite(name, x)
        return largest

    def room(self, what: str, most: float | Tensor, dtype: torch.dtype) -> None:
        """Raise if numbers may grow beyond what a dtype holds: differences of them would be NaN."""
        limit = torch.finfo(dtype).max / 16
        self(
            most <= limit,
            lambda: (
                f"{what} may reach {float(most):.1e}, but {dtype} holds {limit:.1e} with room for sums; pass smaller "
                f"numbers{', or float64' if dtype != torch.float64 else ''}"
            ),
        )

    def _raise_first(self) -> None:
        """Read what waits, once for each device."""
        known = [(sound, refusal) for sound, refusal in self._waiting if not is_fake(sound)]
        for device in dict.fromkeys(sound.device for sound, _ in known):
            on_device = [(sound, refusal) for sound, refusal in known if sound.device == device]
            if not bool(torch.stack([sound for sound, _ in on_device]).all()):
                raise next(_make_error(refusal) for sound, refusal in on_device if not sound)


_OPEN: ContextVar[Checks | None] = ContextVar("the outermost block of this thread", default=None)


def _make_error(refusal: Refusal) -> Exception:
    made = refusal if isinstance(refusal, str) else refusal()
    return ValueError(made) if isinstance(made, str) else made


def _describe_not_finite(name: str, bad: Tensor, size: int) -> str:
    return f"{name} must be finite; {int(bad)} of its {size} entries are NaN or infinite"


def require(sound: Tensor | bool, refusal: Refusal) -> None:
    """Make one check, as :class:`Checks` does."""
    with Checks() as check:
        check(sound, refusal)


def require_finite(name: str, x: Tensor) -> None:
    """Raise if an entry is NaN or infinite."""
    with Checks() as check:
        check.finite(name, x)


def are_finite(x: Tensor) -> Tensor | bool:
    """Return whether no entry is NaN or infinite; on a CPU mostly by a sum, in which neither is lost."""
    return x.isfinite().all() if is_asynchronous(x.device) or not cmath.isfinite(x.detach().sum()) else True


def require_floating(name: str, x: Tensor) -> None:
    """Raise if this is no float32 or float64 tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch tensor; got {type(x).__name__}. Use torch.as_tensor")
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} must be float32 or float64; got {x.dtype}. Convert with {name}.float()")


def require_same_kind(query: Tensor, keys: Tensor) -> None:
    """Raise if queries and keys are not of one floating dtype on one device."""
    require_floating("query", query)
    require_floating("keys", keys)
    if query.dtype != keys.dtype or query.device != keys.device:
        raise ValueError(
            f"query and keys must share dtype and device; got {query.dtype} on {query.device} and "
            f"{keys.dtype} on {keys.device}. Move one with .to(other)"
        )


def is_fake(x: Tensor) -> bool:
    """Return whether a tensor has a shape and no numbers, so that nothing is known of these."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(x, FakeTensor)


def measure_magnitude(x: Tensor) -> float | Tensor:
    """Return the absolute value of the entry that is furthest from 0; 0 where there is none.

    A number on a CPU, and a tensor of one where looks at numbers are spared.
    """
    if not x.numel():
        return 0.0
    largest = x.detach().abs().amax()
    return largest.double() if is_asynchronous(x.device) else float(largest)


def require_evaluation(model: nn.Module) -> None:
    """Raise if some part of a model is in training mode and numbers are dropped or jittered then."""
    training = next((name for name, part in model.named_modules() if part.training), None)
    if training is not None and any(map(_drops_numbers, model.modules())):
        part = f" ({training})" if training else ""
        raise ValueError(
            f"{type(model).__name__}{part} is in training mode, where dropout alters attention and answers; call "
            "model.eval()"
        )


def _drops_numbers(part: nn.Module) -> bool:
    """Return whether a module, or its configuration, has a rate above 0 by which numbers are dropped or jittered."""
    if isinstance(part, nn.modules.dropout._DropoutNd):
        return part.p > 0
    named = {**vars(part), **vars(getattr(part, "config", part))}
    return any(isinstance(x, float) and x > 0 for name, x in named.items() if "drop" in name or "jitter" in name)


def require_known_tokens(name: str, ids: Tensor, embeddings: nn.Module) -> None:
    """Raise if token ids have no row in the embeddings."""
    if not ids.numel():
        return
    known = len(embeddings.weight)  # pyright: ignore[reportArgumentType]
    least, most = torch.aminmax(ids)
    require(
        (least >= 0) & (most < known),
        lambda: (
            f"{name} must be token ids from 0 to {known - 1}, the model's vocabulary; got "
            f"{int(least) if least < 0 else int(most)}. Make them with this model's own tokenizer"
        ),
    )


def convert_array(x: torch.Tensor | np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """Return a tensor of any device, with or without gradients, as an array."""
    return np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x, dtype=dtype)


def require_no_infinity(name: str, x: np.ndarray) -> None:
    """Raise if an entry is infinite; NaN says that a number is undefined."""
    if np.isinf(x).any():
        raise ValueError(
            f"{name} must be finite, or NaN where undefined; {int(np.isinf(x).sum())} of {x.size} are infinite"
        )


def require_scores(name: str, x: torch.Tensor | np.ndarray) -> np.ndarray:
    """Return scores of heads as an array, if they are ``[prompt, layer, head]`` with one of each and none infinite."""
    x = convert_array(x)
    if x.ndim != 3 or 0 in x.shape:
        raise ValueError(f"{name} must have shape [prompt, layer, head] with at least one of each; got {x.shape}")
    require_no_infinity(name, x)
    return x

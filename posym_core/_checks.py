"""Checks of inputs: each failure names the rule, the value and the way out.

Who looks at a number on a GPU waits for all that was asked of it before. So there, within :func:`defer_checks`,
checks of numbers yield flags, which are looked at once, at the end.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from posym_core._arguments import require_count as require_count
from posym_core._arguments import require_counts as require_counts
from posym_core._arguments import require_floor as require_floor
from posym_core._arguments import require_positive as require_positive

P = ParamSpec("P")
T = TypeVar("T")
# What is gathered in this thread: whether all is well, and what to raise if not.
Flag = tuple[Tensor, Callable[[], Exception]]
_GATHERED: ContextVar[list[Flag] | None] = ContextVar("gathered flags", default=None)


def is_asynchronous(device: torch.device) -> bool:
    """Whether to spare operations and looks at numbers on a device: all but the CPU wait for each.

    The environment variable ``POSYM_SCORING`` may say so for all, ``device``, or for none, ``cpu``.
    """
    chosen = os.environ.get("POSYM_SCORING", "")
    if chosen not in ("", "cpu", "device"):
        raise ValueError(f"POSYM_SCORING must be 'cpu' or 'device', or not be set; got {chosen!r}")
    return chosen == "device" if chosen else device.type != "cpu"


@contextlib.contextmanager
def defer_checks(device: torch.device) -> Iterator[None]:
    """Within the block, checks of numbers on a device that :func:`is_asynchronous` are gathered and looked at once, at
    its end.

    A block within another leaves its flags to that one.
    """
    if _GATHERED.get() is not None or not is_asynchronous(device):
        yield
        return
    flags: list[Flag] = []
    outside = _GATHERED.set(flags)
    try:
        yield
    finally:
        _GATHERED.reset(outside)
    _raise_first(flags)


def deferring_checks(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose checks of numbers are :func:`defer_checks`, by the device of its first tensor."""

    @functools.wraps(function)
    def whole(*args: P.args, **options: P.kwargs) -> T:
        device = next((x.device for x in (*args, *options.values()) if isinstance(x, Tensor)), torch.device("cpu"))
        with defer_checks(device):
            return function(*args, **options)

    return whole


def require(sound: Tensor | bool, refusal: Callable[[], Exception]) -> None:
    """Raise what ``refusal()`` is unless ``sound``, a bool or a tensor of one: at once or :func:`defer_checks`."""
    flags = _GATHERED.get()
    if flags is None:
        if not sound:
            raise refusal()
    elif isinstance(sound, Tensor) and is_asynchronous(sound.device):
        flags.append((sound, refusal))
    elif not sound:
        _raise_first(flags)
        raise refusal()


def is_fake(x: Tensor) -> bool:
    """Whether a tensor has a shape and no numbers, so that nothing is known of these and nothing is to be said."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(x, FakeTensor)


def _raise_first(flags: list[Flag]) -> None:
    """One look at the flags of a device."""
    known = [(sound, refusal) for sound, refusal in flags if not is_fake(sound)]
    for device in dict.fromkeys(sound.device for sound, _ in known):
        here = [(sound, refusal) for sound, refusal in known if sound.device == device]
        if not bool(torch.stack([sound for sound, _ in here]).all()):
            raise next(refusal() for sound, refusal in here if not sound)


def _gathering(device: torch.device) -> bool:
    return _GATHERED.get() is not None and is_asynchronous(device)


def require_floating(name: str, x: Tensor) -> None:
    """Refuse what is not a float32 or float64 tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch tensor; got {type(x).__name__}. Use torch.as_tensor")
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} must be float32 or float64; got {x.dtype}. Convert with {name}.float()")


def require_finite(name: str, x: Tensor) -> None:
    """Refuse NaN and infinity."""
    size, values = x.numel(), x.detach()
    if not size:
        return
    if _gathering(x.device):
        # Counted at once: to keep arrays until flags are looked at would be to keep all that is ever checked.
        bad = (values * 0).count_nonzero()
        require(bad == 0, functools.partial(_not_finite, name, bad, size))
        return
    # The extremes are found in one pass, and NaN is one of them. Of complex numbers the parts have extremes.
    parts = torch.view_as_real(values.resolve_conj()) if x.is_complex() else values
    sound = torch.isfinite(torch.stack(torch.aminmax(parts))).all()
    require(sound, lambda: _not_finite(name, (~torch.isfinite(values)).sum(), size))


def _not_finite(name: str, bad: Tensor, size: int) -> ValueError:
    return ValueError(f"{name} must be finite; {int(bad)} of its {size} entries are NaN or infinite")


def magnitude(x: Tensor) -> float | Tensor:
    """Absolute value of the entry that is furthest from 0; 0 where there is none. A number, or a tensor of one where
    checks are :func:`defer_checks`.
    """
    if not x.numel():
        return 0.0
    largest = x.detach().abs().amax()
    return largest.double() if _gathering(x.device) else float(largest)


def require_finite_magnitude(name: str, x: Tensor) -> float | Tensor:
    """The :func:`magnitude` of what is finite; refuses NaN and infinity."""
    largest = magnitude(x)
    # On a CPU the one number tells of all.
    if isinstance(largest, Tensor) or not largest < math.inf:
        require_finite(name, x)
    return largest


def require_phases(furthest: float | Tensor, fastest: float | Tensor) -> None:
    """Refuse the largest positions and angles whose product has no sine."""
    require(
        furthest * fastest < math.inf,
        lambda: ValueError(
            f"positions times angles must be finite; {float(furthest):.1e} times {float(fastest):.1e} is not. Pass "
            "smaller ones"
        ),
    )


def require_room(what: str, most: float | Tensor, dtype: torch.dtype) -> None:
    """Refuse numbers that may grow beyond what a type of number holds: differences of them would be NaN."""
    limit = torch.finfo(dtype).max / 16
    require(
        most <= limit,
        lambda: ValueError(
            f"{what} may reach {float(most):.1e}, but {dtype} holds {limit:.1e} with room for sums; pass smaller "
            f"numbers{', or float64' if dtype != torch.float64 else ''}"
        ),
    )


def require_evaluation(model: nn.Module) -> None:
    """Refuse a model of which some part is in training mode."""
    training = next((name for name, part in model.named_modules() if part.training), None)
    if training is not None:
        part = f" ({training})" if training else ""
        raise ValueError(
            f"{type(model).__name__}{part} is in training mode, where dropout alters attention and answers; call "
            "model.eval()"
        )


def require_known_tokens(name: str, ids: Tensor, embeddings: nn.Module) -> None:
    """Refuse token ids that have no row in the embeddings."""
    if not ids.numel():
        return
    known = len(embeddings.weight)  # pyright: ignore[reportArgumentType]
    least, most = torch.aminmax(ids)

    def refusal() -> ValueError:
        return ValueError(
            f"{name} must be token ids from 0 to {known - 1}, the model's vocabulary; got "
            f"{int(least) if least < 0 else int(most)}. Make them with this model's own tokenizer"
        )

    require((least >= 0) & (most < known), refusal)


def convert_array(x: torch.Tensor | np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """Return what is on any device, with or without gradients, as an array."""
    return np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x, dtype=dtype)


def convert_membership(name: str, x: torch.Tensor | np.ndarray) -> np.ndarray:
    """Return what is true or false as booleans; NaN is neither."""
    x = convert_array(x, None)
    wrong = (x != 0) & (x != 1)
    if wrong.any():
        raise ValueError(f"{name} must be booleans, or 0 and 1; {int(wrong.sum())} of {x.size} entries are neither")
    return x.astype(bool)


def require_no_infinity(name: str, x: np.ndarray) -> None:
    """Refuse infinity, but not NaN, which says that a number is undefined."""
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

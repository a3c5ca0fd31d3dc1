"""Checks of inputs: each failure names the rule, the value and the way out."""

from __future__ import annotations

import operator

import torch
from torch import Tensor, nn


def require_floating(name: str, x: Tensor) -> None:
    """Refuse what is not a float32 or float64 tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch tensor; got {type(x).__name__}. Use torch.as_tensor")
    if x.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} must be float32 or float64; got {x.dtype}. Convert with {name}.float()")


def require_finite(name: str, x: Tensor) -> None:
    """Refuse NaN and infinity."""
    # The extremes are found in one pass, and NaN is one of them. Of complex numbers the parts have extremes.
    values = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
    if x.numel() and not torch.isfinite(torch.stack(torch.aminmax(values))).all():
        bad = int((~torch.isfinite(x)).sum())
        raise ValueError(f"{name} must be finite; {bad} of its {x.numel()} entries are NaN or infinite")


def require_positive(name: str, value: float) -> None:
    """Refuse what is not a number above 0."""
    if not value > 0:
        raise ValueError(f"{name} must be above 0; got {value}")


def require_floor(name: str, value: float) -> None:
    """Refuse what is not 0 or a positive finite number."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name} must be 0 or a positive finite number; got {value}")


def magnitude(x: Tensor) -> float:
    """Absolute value of the entry that is furthest from 0; 0 where there is none."""
    return float(x.detach().abs().amax()) if x.numel() else 0.0


def require_phases(furthest: float, angles: Tensor) -> None:
    """Refuse positions and angles whose product has no sine."""
    fastest = magnitude(angles)
    if not furthest * fastest < float("inf"):
        raise ValueError(
            f"positions times angles must be finite; {furthest:.1e} times {fastest:.1e} is not. Pass smaller ones"
        )


def require_room(what: str, most: float, dtype: torch.dtype) -> None:
    """Refuse numbers that may grow beyond what a type of number holds: differences of them would be NaN."""
    limit = torch.finfo(dtype).max / 16
    if not most <= limit:
        raise ValueError(
            f"{what} may reach {most:.1e}, but {dtype} holds {limit:.1e} with room for sums; pass smaller numbers"
            + (", or float64" if dtype != torch.float64 else "")
        )


def require_count(name: str, value: int, least: int, reason: str = "") -> int:
    """``value`` as an int, if it is an integer (of Python, NumPy or a tensor of one) of at least ``least``."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        because = f" ({reason})" if reason else ""
        raise ValueError(f"{name} must be a whole number of at least {least}{because}; got {value!r}")
    return number


def require_counts(**counts: tuple[int, int]) -> None:
    """Several at once: ``require_counts(facts=(facts, 2), count=(count, 1))``."""
    for name, (value, least) in counts.items():
        require_count(name, value, least)


def require_evaluation(model: nn.Module) -> None:
    """Refuse a model of which some part is in training mode."""
    training = next((name for name, part in model.named_modules() if part.training), None)
    if training is not None:
        part = f" ({training})" if training else ""
        raise ValueError(
            f"{type(model).__name__}{part} is in training mode, where dropout alters attention; call model.eval()"
        )


def require_known_tokens(name: str, ids: Tensor, embeddings: nn.Module) -> None:
    """Refuse token ids that have no row in the embeddings."""
    known = len(embeddings.weight)  # pyright: ignore[reportArgumentType]
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < known:
        wrong = int(ids.min()) if int(ids.min()) < 0 else int(ids.max())
        raise ValueError(
            f"{name} must be token ids from 0 to {known - 1}, the model's vocabulary; got {wrong}. Make them with this "
            "model's own tokenizer"
        )

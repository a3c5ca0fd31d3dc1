"""Encodings by name: a class registers itself, and tables, experiments and the atlas have it.

:func:`register_encoding` does so for a class in a file of this room. Any other class goes by ``module:Class``.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from posym_core._extensions import ExtensionError, Registry, locate
from posym_core.encodings._base import Encoding, LayerShape, UndefinedCrossLogits
from posym_core.encodings._layer import EncodedHeads

Class = TypeVar("Class", bound=type[Encoding])
# What an encoding is tried on when it is first made: sizes that all differ.
TRIAL = LayerShape(heads=2, dim=8, width=6, length=8)
TOKENS = 5


@dataclass(frozen=True, kw_only=True)
class EncodingEntry:
    """One encoding.

    Attributes:
        make: makes it for a layer, with options in place of its defaults.
        label: its name in tables and lists.
        bounded: whether it has one trained number or vector per position or distance, and ends where that table ends.
        place: in tables and lists, smallest first; by default behind ours.
    """

    make: Callable[..., Encoding]
    label: str
    bounded: bool = False
    place: float = math.inf


def register_encoding(
    name: str, label: str, *, place: float = math.inf, bounded: bool = False, **options: Any
) -> Callable[[Class], Class]:
    """Register a class of encodings, whose first argument is a :class:`~posym_core.encodings.LayerShape`.

    Args:
        name: of the encoding, for :func:`make_encoding` and settings.
        label: its name in tables and lists.
        place: there, smallest first; by default behind ours.
        bounded: see :class:`EncodingEntry`.
        options: arguments of the class in place of its defaults.

    Raises:
        ExtensionError: if the name is taken, the class is no encoding or lacks a method, or needs further arguments.
    """

    def register(made: Class) -> Class:
        make = functools.partial(made, **options) if options else made
        ENCODINGS.register(name, EncodingEntry(make=make, label=label, bounded=bounded, place=place))
        return made

    return register


def make_encoding(name: str, shape: LayerShape, **options: Any) -> Encoding:
    """Make the encoding of that name for a layer.

    Trained parameters are drawn from torch's global generator.

    Args:
        name: a key of :data:`ENCODINGS`, or ``module:Class``.
        shape: of the layer.
        options: of the encoding, in place of its defaults.

    >>> make_encoding("rope", LayerShape(heads=2, dim=4)).angles
    tensor([1.0000, 0.0100], dtype=torch.float64)
    """
    entry = ENCODINGS.find(name)
    _try_out(entry)
    return entry.make(shape, **options)


def _check_entry(name: str, given: Any) -> EncodingEntry:
    """Return an entry, or the entry of a class; refuse what is none."""
    entry = given if isinstance(given, EncodingEntry) else EncodingEntry(make=given, label=name)
    made = getattr(entry.make, "func", entry.make)
    if not (isinstance(made, type) and issubclass(made, Encoding)):
        raise ExtensionError(f"encoding {name!r} must be a class of posym_core.encodings.Encoding; got {made!r}")
    missing = {name for name in dir(made) if getattr(getattr(made, name), "__isabstractmethod__", False)}
    if made.path_dependent or made.require_cross_logits is not Encoding.require_cross_logits:
        missing -= {"_cross_logits"}
    if missing:
        raise ExtensionError(
            f"encoding {name!r} must define {' and '.join(sorted(missing))}, which {made.__qualname__} does not"
            + ("; or require_cross_logits, which says why there is no C" if "_cross_logits" in missing else "")
        )
    try:
        inspect.signature(entry.make).bind(TRIAL)
    except TypeError as error:
        raise ExtensionError(
            f"encoding {name!r} is made for a LayerShape alone, but {made.__qualname__} takes "
            f"{inspect.signature(entry.make)}: {error}; give the others defaults"
        ) from None
    return entry


@functools.cache
def _try_out(entry: EncodingEntry) -> None:
    """Refuse an encoding whose logits have another shape than they must, or contradict its ``C``."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), torch.no_grad():
        try:
            made = entry.make(TRIAL).double()
        except ValueError:
            return  # it does not fit so small a layer
        made.redraw()
        generator = torch.Generator().manual_seed(0)
        drawn = functools.partial(torch.randn, generator=generator, dtype=torch.float64)
        maps = drawn(2, TRIAL.heads, TRIAL.width, TRIAL.dim)
        heads, inputs = EncodedHeads(encoding=made, query_map=maps[0], key_map=maps[1]), drawn(TOKENS, TRIAL.width)
        keys = TOKENS - 1
        logits = heads.logits(inputs)
        _require_shape(entry, "logits", logits, (TRIAL.heads, TOKENS, TOKENS))
        _require_shape(entry, "attention", made.attention(logits), (TRIAL.heads, TOKENS, TOKENS))
        try:
            C = heads.cross_logits(inputs)
        except UndefinedCrossLogits:
            return
        _require_shape(entry, "cross_logits", C, (TRIAL.heads, keys, keys))
        orders = torch.stack([torch.arange(keys), torch.arange(keys).flip(0)])
        permuted = heads.permuted_logits(inputs, orders)
        apart = float((permuted - C[:, orders, torch.arange(keys)].movedim(1, 0)).abs().max())
        if not apart <= 1e-6 * float(permuted.abs().max()):
            raise ExtensionError(
                f"C[a, b] of {locate(entry)} must be the logit that content a has at position b, but logits() with "
                f"contents there differs by up to {apart:.1e}; mend its _logits or its _cross_logits"
            )


def _require_shape(entry: EncodingEntry, what: str, x: torch.Tensor, expected: tuple[int, ...]) -> None:
    if tuple(x.shape) != expected or x.dtype != torch.float64:
        raise ExtensionError(
            f"{what} of {locate(entry)} must have shape {list(expected)} and its queries' type of number for "
            f"{TRIAL.heads} heads and {TOKENS} tokens; got {list(x.shape)} of {x.dtype}"
        )


ENCODINGS: Registry[EncodingEntry] = Registry(
    "encoding",
    decorator="@register_encoding(name, label)",
    room="posym_core.encodings.",
    keep=_check_entry,
)
"""Every encoding by name."""


class _Labels(Mapping[str, str]):
    def __getitem__(self, name: str) -> str:
        return ENCODINGS[name].label

    def __iter__(self) -> Iterator[str]:
        return iter(ENCODINGS)

    def __len__(self) -> int:
        return len(ENCODINGS)


LABELS: Mapping[str, str] = _Labels()
"""How encodings are called in tables and lists."""

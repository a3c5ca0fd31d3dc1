"""Interventions: which rotation planes of which heads change, and how.

:func:`posym_profile.interventions.edit_rope` carries them out.

>>> intervention = freeze_rotation(select_slowest(0.5))
>>> angles, kept = intervention.change(torch.tensor([1.0, 0.1, 0.01, 0.001]))
>>> angles
tensor([1.0000, 0.1000, 0.0000, 0.0000])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core.metrics import rope_angles

# From the angles of a layer's planes (fastest first, 0 for unrotated ones), which are meant.
PlaneChoice = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """A change of the planes of some heads; made by :func:`freeze_rotation`, :func:`remove_planes`,
    :func:`change_base`.

    Attributes:
        change: from a layer's angles ``[plane]`` to its new angles and to which planes are kept.
        layers: attention layers to change, from 0; None for all.
        heads: ``(layer, query head)`` to change; None for all heads of ``layers``.
    """

    change: Callable[[Tensor], tuple[Tensor, Tensor]]
    layers: Sequence[int] | None = None
    heads: Sequence[tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        if self.layers is not None and self.heads is not None:
            raise ValueError(
                "an intervention is on whole layers or on single heads; got both. Pass layers= or heads=, or two"
            )


def select_all(angles: Float[Tensor, " plane"]) -> Bool[Tensor, " plane"]:
    """Select all planes, unrotated ones too."""
    return torch.ones_like(angles, dtype=torch.bool)


def select_fastest(share: float) -> PlaneChoice:
    """Select the fastest ``share`` of the planes that rotate, from 0 to 1."""
    return _select_share(share, fastest=True)


def select_slowest(share: float) -> PlaneChoice:
    """Select the slowest ``share`` of the planes that rotate, from 0 to 1: those that p-RoPE stops."""
    return _select_share(share, fastest=False)


def _select_share(share: float, fastest: bool) -> PlaneChoice:
    if not 0 <= share <= 1:
        raise ValueError(f"a share of the planes lies between 0 and 1; got {share}")

    def choose(angles: Tensor) -> Tensor:
        rotating = (angles > 0).nonzero().flatten()
        order = rotating[angles[rotating].argsort(descending=fastest, stable=True)]
        mask = torch.zeros_like(angles, dtype=torch.bool)
        mask[order[: round(share * len(order))]] = True
        return mask

    return choose


def select_by_angle(slow: float, fast: float) -> PlaneChoice:
    """Select planes with ``slow <= angle < fast``, radians per position; ``slow=0`` takes the unrotated ones too."""
    if not 0 <= slow < fast:
        raise ValueError(f"angles go from slow to fast, 0 <= slow < fast; got slow={slow}, fast={fast}")
    return lambda angles: (angles >= slow) & (angles < fast)


def select_by_id(frequencies: Sequence[int]) -> PlaneChoice:
    """Select planes by frequency ID, 1 for the fastest."""
    chosen = torch.as_tensor([int(frequency) for frequency in frequencies], dtype=torch.long)

    def choose(angles: Tensor) -> Tensor:
        rotating = int(((angles > 0) * torch.arange(1, 1 + len(angles), device=angles.device)).max())
        if len(chosen) and not 1 <= int(chosen.min()) <= int(chosen.max()) <= rotating:
            raise ValueError(
                f"frequency IDs run from 1 to {rotating} in this layer; got {int(chosen.min())} to {int(chosen.max())}"
            )
        mask = torch.zeros_like(angles, dtype=torch.bool)
        mask[chosen - 1] = True
        return mask

    return choose


def freeze_rotation(choice: PlaneChoice = select_all, **where: Any) -> Intervention:
    """Set the angles of the chosen planes to 0: they go on comparing contents, wherever these stand.

    ``where`` is ``layers`` or ``heads``, as in :class:`Intervention`.
    """
    return Intervention(change=lambda angles: (torch.where(choice(angles), 0, angles), select_all(angles)), **where)


def remove_planes(choice: PlaneChoice = select_all, **where: Any) -> Intervention:
    """Take the chosen planes out of the logits of ``layers`` or ``heads``, as in :class:`Intervention`.

    This is about rotation planes, and no ablation of heads: with all planes of ``heads`` taken out, their logits
    vanish. Such a head attends evenly to all keys that it sees and hands on the mean of their values. What a model
    does without a head is seen by :func:`posym_profile.interventions.ablate_heads`.
    """
    return Intervention(change=lambda angles: (angles, ~choice(angles)), **where)


def change_base(times: float, **where: Any) -> Intervention:
    """Give the planes that still rotate the angles of another base, ``times`` every layer's own: do it before a freeze.

    ``where`` is ``layers`` or ``heads``, as in :class:`Intervention`.
    """
    if not 0 < times < math.inf:
        raise ValueError(f"a factor of a base must be a positive finite number; got {times}")

    def change(angles: Tensor) -> tuple[Tensor, Tensor]:
        rotating = angles > 0
        new = angles.clone()
        if count := int(rotating.sum()):
            new[rotating] *= rope_angles(2 * count, times).to(angles)
        return new, select_all(angles)

    return Intervention(change=change, **where)

"""Heads as every function on them takes them, made once: out of a model by a capture, or of arguments."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core._checks import Checks, require_same_kind
from posym_core.metrics._rope import Pairing, does_broadcast, fit_angles, split_planes

# Asked for the same shapes layer by layer; torch takes as long for it as for several operations.
_broadcast_shapes = functools.lru_cache(torch.broadcast_shapes)


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Queries with the keys that they attend to, and what makes attention of their products.

    Attributes:
        query: of the last token ``[..., dim]``, rotated.
        keys: ``[..., key, dim]``, rotated. Leading dimensions broadcast against the query's; queries that share their
            keys, a group, stand in the last of these, where keys have 1.
        angles: radians per position, of all heads or broadcasting against the leading dimensions before the group;
            float64, on the keys' device.
        scale: what the dot products are multiplied with.
        visible: which keys the query sees; None for all.
        softcap: logits are ``softcap * tanh(logit / softcap)``; None for none.
        sinks: logit of an attention sink per head, or None.
        pairing: which dimensions form a rotation plane.
    """

    query: Float[Tensor, "*#batch dim"]
    keys: Float[Tensor, "*#batch key dim"]
    angles: Float[Tensor, "*#head plane"]
    scale: float = 1.0
    visible: Bool[Tensor, "*#batch key"] | None = None
    softcap: float | None = None
    sinks: Float[Tensor, "*#batch"] | None = None
    pairing: Pairing = "halves"

    def __post_init__(self) -> None:
        """Raise if shapes do not fit together; no number of a tensor is looked at."""
        check_shapes(self.query, self.keys)
        angles = fit_angles(self.angles, self.keys.shape[-1], self.pairing, self.lead)
        object.__setattr__(self, "angles", angles.to(self.keys.device))
        _check_last_token(self.query, self.keys, self.visible)
        _check_visible(self.visible, (*self.batch, self.keys.shape[-2]))
        if self.sinks is not None and not does_broadcast(self.sinks.shape, self.batch):
            raise ValueError(f"sinks must broadcast to {self.batch}, one per head; got {tuple(self.sinks.shape)}")
        if self.softcap is not None and not 0 < self.softcap < math.inf:
            raise ValueError(f"softcap must be a positive finite number, or None for no cap; got {self.softcap}")

    @property
    def batch(self) -> tuple[int, ...]:
        """Return what leading dimensions broadcast to."""
        return tuple(_broadcast_shapes(self.query.shape[:-1], self.keys.shape[:-2]))

    @property
    def grouped(self) -> bool:
        """Return whether the last leading dimension is a group of queries that share their keys."""
        return self.query.ndim > 1 and self.keys.ndim > 2 and self.keys.shape[-3] == 1

    @property
    def lead(self) -> tuple[int, ...]:
        """Leading dimensions without the group."""
        return self.batch[:-1] if self.grouped else self.batch

    def check_values(self, products: torch.dtype) -> None:
        """Raise if a number is NaN or infinite, products may exceed this dtype, or a query sees no key."""
        with Checks() as check:
            check_numbers(self.query, self.keys, self.angles, self.scale, products)
            if self.visible is not None:
                seen = self.visible.any(-1).all()
                check(seen, "visible must leave every query at least one key to see; one sees none")
            if self.sinks is not None:
                check.finite("sinks", self.sinks)

    def group_queries(self, products: torch.dtype, *, per_frequency: bool = False) -> Heads:
        """Return the same heads as ``[head, group]``, queries scaled, in a dtype; :meth:`ungroup` undoes it.

        The keys of a group are turned once for all of its queries. With ``per_frequency`` each rotation plane is a head
        of two dimensions of its own.
        """
        batch, lead, query, keys = self.batch, self.lead, self.query, self.keys
        query = (query if self.grouped else query[..., None, :]).to(products) * self.scale
        keys = (keys if self.grouped else keys[..., None, :, :]).to(products)
        group = query.shape[-2]
        query, keys = query.expand(*lead, *query.shape[-2:]), keys.expand(*lead, *keys.shape[-3:])
        angles, planes = self.angles, ()
        if per_frequency:
            query = _planes_as_heads(query, self.pairing)
            keys = _planes_as_heads(keys.squeeze(-3), self.pairing)[..., None, :, :]
            angles, planes = angles.expand(*lead, angles.shape[-1])[..., None], angles.shape[-1:]
        # What is the same for all heads is turned by the same phases.
        angles = angles[None] if angles.ndim == 1 else angles.expand(*lead, *planes, angles.shape[-1]).flatten(0, -2)

        def by_query(x: Tensor | None, *last: int) -> Tensor | None:
            """Return ``[*batch, *last]`` as ``[head, group, *last]``."""
            if x is None:
                return None
            x = x.broadcast_to((*batch, *last)).reshape(*lead, *(1 for _ in planes), group, *last)
            return x.expand(*lead, *planes, group, *last).reshape(-1, group, *last)

        return Heads(
            query=query.reshape(-1, *query.shape[-2:]),
            keys=keys.reshape(-1, *keys.shape[-3:]),
            angles=angles,
            visible=by_query(self.visible, self.keys.shape[-2]),
            softcap=self.softcap,
            sinks=by_query(None if self.sinks is None else self.sinks.double()),
            pairing="halves" if per_frequency else self.pairing,
        )

    def ungroup(self, x: Tensor, *, per_frequency: bool = False) -> Tensor:
        """Return what was computed of :meth:`group_queries`, ``[head, group, ...]``, as ``[*batch, *plane, ...]``."""
        if not per_frequency:
            return x.reshape((*self.batch, *x.shape[2:]))
        x = x.unflatten(0, (*self.lead, self.angles.shape[-1])).transpose(len(self.lead), len(self.lead) + 1)
        return x.reshape((*self.batch, *x.shape[len(self.lead) + 1 :]))

    def cap(self, logits: Tensor) -> Tensor:
        """Return logits as the softmax gets them."""
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


def check_heads(
    query: Tensor, keys: Tensor, angles: Tensor, scale: float, pairing: str, power: int = 1
) -> Float[Tensor, " plane"]:
    """Return the angles in float64 on the keys' device, or refuse shapes that do not fit and bad numbers."""
    check_shapes(query, keys)
    angles = fit_angles(angles, keys.shape[-1], pairing).to(keys.device)
    check_numbers(query, keys, angles, scale, keys.dtype, power)
    return angles


def check_shapes(query: Tensor, keys: Tensor) -> None:
    """Raise if queries and keys do not fit each other."""
    require_same_kind(query, keys)
    if query.ndim < 1 or keys.ndim < 2:
        raise ValueError(
            f"query must have shape [..., dim] and keys [..., key, dim]; got {tuple(query.shape)} and "
            f"{tuple(keys.shape)}"
        )
    if query.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"query and keys must have the same last dimension; got {query.shape[-1]} and {keys.shape[-1]}"
        )
    if keys.shape[-2] == 0:
        raise ValueError("keys must hold at least one key; got 0")
    try:
        _broadcast_shapes(query.shape[:-1], keys.shape[:-2])
    except RuntimeError:
        raise ValueError(
            f"leading dimensions must broadcast; query has {tuple(query.shape[:-1])}, keys have "
            f"{tuple(keys.shape[:-2])}. Heads that share keys need a dimension for their group: pass "
            "query.unflatten(-2, (key_heads, -1)) and keys.unsqueeze(-3)"
        ) from None


def check_numbers(
    query: Tensor, keys: Tensor, angles: Tensor, scale: float, dtype: torch.dtype, power: int = 1
) -> None:
    """Raise if a number is NaN or infinite, or phases, or logits to a power in ``dtype``, could be."""
    with Checks() as check:
        size, other = check.finite_magnitude("query", query), check.finite_magnitude("keys", keys)
        check(math.isfinite(scale), "scale must be finite; 1 of its 1 entries are NaN or infinite")
        fastest = check.finite_magnitude("angles", angles)
        check.room("positions times angles", keys.shape[-2] * fastest, torch.float64)
        check.room("the scaled query", size * max(1.0, abs(scale)), dtype)
        check.room("scale", abs(scale), dtype)  # 0 times what a dtype takes for infinity is NaN
        check.room("keys", other, dtype)
        logit = size * abs(scale) * other * query.shape[-1]
        # Of float32 numbers even squares of logits fit into a Python float; of others they may be infinite.
        check.room("logits" if power == 1 else "squares of logits", logit if power == 1 else logit * logit, dtype)


def _check_last_token(query: Tensor, keys: Tensor, visible: Tensor | None) -> None:
    """Raise if these are the queries of all tokens, each of which would be given the keys behind it."""
    tokens = keys.shape[-2]
    if visible is None and 1 < query.ndim >= keys.ndim and query.shape[-2] == tokens > 1:
        raise ValueError(
            f"a query is that of the last token, which sees all keys; got query {tuple(query.shape)} and keys "
            f"{tuple(keys.shape)}, {tokens} queries of the same {tokens} keys. Pass one query, query[..., -1, :], or "
            "visible, [..., key], for tokens in between; heads that share their keys have a dimension of 1 in them, "
            "keys[..., None, :, :]"
        )


def _check_visible(visible: Tensor | None, shape: tuple[int, ...]) -> None:
    if visible is None:
        return
    if visible.dtype != torch.bool:
        raise TypeError(f"visible must be a bool tensor; got {visible.dtype}. Compare with > 0")
    if not does_broadcast(visible.shape, shape):
        raise ValueError(f"visible must broadcast to {shape}, one entry per key; got {tuple(visible.shape)}")


def _planes_as_heads(x: Float[Tensor, "*#batch row dim"], pairing: Pairing) -> Float[Tensor, "*#batch plane row 2"]:
    """Return each rotation plane as a head of two dimensions."""
    return torch.stack(split_planes(x, pairing), dim=-1).transpose(-2, -3)

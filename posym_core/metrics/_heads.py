"""Heads as every function on them takes them, made once: out of a model by a capture, or of arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posym_core._checks import require, require_finite, require_positive
from posym_core.metrics._logit_matrix import broadcast_shapes, check_numbers, fit_head
from posym_core.metrics._rope import Pairing, split_planes


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
    scale: float
    visible: Bool[Tensor, "*#batch key"] | None
    softcap: float | None
    sinks: Float[Tensor, "*#batch"] | None
    pairing: Pairing = "halves"

    @classmethod
    def of(
        cls,
        query: Tensor,
        keys: Tensor,
        angles: Tensor,
        *,
        scale: float,
        visible: Tensor | None,
        softcap: float | None,
        sinks: Tensor | None,
        pairing: Pairing,
    ) -> Heads:
        """Heads out of arguments, or an error that says which do not fit; no number of a tensor is looked at."""
        heads = cls(
            query=query,
            keys=keys,
            angles=fit_head(query, keys, angles, pairing),
            scale=scale,
            visible=visible,
            softcap=softcap,
            sinks=sinks,
            pairing=pairing,
        )
        heads.check_softmax()
        return heads

    def check_softmax(self) -> None:
        """Refuse what does not fit queries and keys that fit each other; no number of a tensor is looked at."""
        _check_last_token(self.query, self.keys, self.visible)
        _check_visible(self.visible, self.batch, self.keys.shape[-2])
        _check_sinks(self.sinks, self.batch)
        if self.softcap is not None:
            require_positive("softcap", self.softcap)
            if self.softcap == math.inf:
                raise ValueError("softcap must be finite; got inf. Pass None for no cap")

    @property
    def batch(self) -> tuple[int, ...]:
        """What leading dimensions broadcast to."""
        return broadcast_shapes(self.query.shape[:-1], self.keys.shape[:-2])

    def check_values(self, products: torch.dtype) -> None:
        """Refuse NaN, infinity, numbers whose products could be in this type, and queries that see no key."""
        check_numbers(self.query, self.keys, self.angles, self.scale, products)
        if self.visible is not None:
            require(
                self.visible.any(-1).all(),
                lambda: ValueError("visible must leave every query at least one key to see; one sees none"),
            )
        if self.sinks is not None:
            require_finite("sinks", self.sinks)

    def group_queries(self, products: torch.dtype, *, per_frequency: bool = False) -> tuple[Heads, Callable]:
        """The same as ``[head, group]`` with queries scaled, in a type of numbers; with what undoes it to a result.

        With ``per_frequency`` each rotation plane is a head of two dimensions of its own.
        """
        batch, query, keys = self.batch, self.query, self.keys
        # Queries that share their keys form a group, so that the keys are turned once for all of them.
        shared = query.ndim > 1 and keys.ndim > 2 and keys.shape[-3] == 1
        query = (query if shared else query[..., None, :]).to(products) * self.scale
        keys = (keys if shared else keys[..., None, :, :]).to(products)
        lead, group = (batch[:-1] if shared else batch), query.shape[-2]
        query, keys = query.expand(*lead, *query.shape[-2:]), keys.expand(*lead, *keys.shape[-3:])
        angles = self.angles.to(keys.device, torch.float64)
        if per_frequency:
            query = _planes_as_heads(query, self.pairing)
            keys = _planes_as_heads(keys.squeeze(-3), self.pairing)[..., None, :, :]
            angles, lead = angles.expand(*lead, angles.shape[-1])[..., None], query.shape[:-2]
        # What is the same for all heads is turned by the same phases.
        angles = angles[None] if angles.ndim == 1 else angles.expand(*lead, angles.shape[-1]).flatten(0, -2)

        def by_query(x: Tensor | None, *last: int) -> Tensor | None:
            """``[*batch, *last]`` as ``[head, group, *last]``."""
            if x is None:
                return None
            x = x.broadcast_to((*batch, *last))
            x = x if shared else x.unsqueeze(len(batch))
            if per_frequency:
                x = x.unsqueeze(len(lead) - 1).broadcast_to((*lead, group, *last))
            return x.reshape(-1, group, *last)

        def back(x: Tensor) -> Tensor:
            """``[head, group, ...]`` as ``[*batch, ...]``, planes behind the batch."""
            x = x.unflatten(0, lead) if lead else x.squeeze(0)
            if per_frequency:
                x = x.transpose(len(lead) - 1, len(lead))
            return x if shared else x.squeeze(len(lead) - 1 if per_frequency else len(lead))

        heads = Heads(
            query=query.reshape(-1, *query.shape[-2:]),
            keys=keys.reshape(-1, *keys.shape[-3:]),
            angles=angles,
            scale=1.0,
            visible=by_query(self.visible, self.keys.shape[-2]),
            softcap=self.softcap,
            sinks=by_query(None if self.sinks is None else self.sinks.double()),
            pairing="halves" if per_frequency else self.pairing,
        )
        return heads, back

    def take(self, chosen: slice) -> Heads:
        """Some of the heads that stand in groups; angles that all share stay shared."""
        if len(range(len(self.keys))[chosen]) == len(self.keys):
            return self
        return replace(
            self,
            query=self.query[chosen],
            keys=self.keys[chosen],
            angles=self.angles if len(self.angles) == 1 else self.angles[chosen],
            visible=None if self.visible is None else self.visible[chosen],
            sinks=None if self.sinks is None else self.sinks[chosen],
        )

    def cap(self, logits: Tensor) -> Tensor:
        """Logits as the softmax gets them."""
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)


def _check_last_token(query: Tensor, keys: Tensor, visible: Tensor | None) -> None:
    """Refuse the queries of all tokens, each of which would be given the keys behind it."""
    tokens = keys.shape[-2]
    if visible is None and 1 < query.ndim >= keys.ndim and query.shape[-2] == tokens > 1:
        raise ValueError(
            f"a query is that of the last token, which sees all keys; got query {tuple(query.shape)} and keys "
            f"{tuple(keys.shape)}, {tokens} queries of the same {tokens} keys. Pass one query, query[..., -1, :], or "
            "visible, [..., key], for tokens in between; heads that share their keys have a dimension of 1 in them, "
            "keys[..., None, :, :]"
        )


def _check_visible(visible: Tensor | None, batch: tuple[int, ...], keys: int) -> None:
    if visible is None:
        return
    if visible.dtype != torch.bool:
        raise TypeError(f"visible must be a bool tensor; got {visible.dtype}. Compare with > 0")
    try:
        visible.broadcast_to((*batch, keys))
    except RuntimeError:
        raise ValueError(
            f"visible must broadcast to {(*batch, keys)}, one entry per key; got {tuple(visible.shape)}"
        ) from None


def _check_sinks(sinks: Tensor | None, batch: tuple[int, ...]) -> None:
    if sinks is None:
        return
    try:
        sinks.broadcast_to(batch)
    except RuntimeError:
        raise ValueError(f"sinks must broadcast to {tuple(batch)}, one per head; got {tuple(sinks.shape)}") from None


def _planes_as_heads(x: Float[Tensor, "*#batch row dim"], pairing: Pairing) -> Float[Tensor, "*#batch plane row 2"]:
    """Each rotation plane as a head of two dimensions."""
    return torch.stack(split_planes(x, pairing), dim=-1).transpose(-2, -3)

"""Heads that read a sequence through an encoding: their logits, their ``C``, and what permuting the tokens does.

Permuting the tokens and computing everything again needs no theory and works for every encoding. Where a ``C``
exists, the logit of content ``a`` at position ``b`` is the same in every permutation that puts it there; where none
does, those logits differ from permutation to permutation, and :meth:`EncodedHeads.spread` says by how much.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_core.encodings._base import Encoding


@dataclass(frozen=True, kw_only=True)
class EncodedHeads:
    """The heads of a layer whose last token queries those before it.

    Attributes:
        encoding: of positions.
        query_map: maps inputs to plain queries.
        key_map: maps inputs to plain keys.
    """

    encoding: Encoding
    query_map: Float[Tensor, "head width dim"]
    key_map: Float[Tensor, "head width dim"]

    def logits(self, inputs: Float[Tensor, "*batch token width"]) -> Float[Tensor, "*batch head token token"]:
        """Return the logits of all tokens against all tokens."""
        embedded = self.encoding.embed(inputs)
        query, key = project(embedded, self.query_map), project(embedded, self.key_map)
        return self.encoding.logits(query, key, content=embedded)

    def cross_logits(
        self, inputs: Float[Tensor, "*batch token width"]
    ) -> Float[Tensor, "*batch head content position"]:
        """Return ``C`` of the last token's query over the tokens before it.

        Raises:
            UndefinedCrossLogits: if the encoding has none.
        """
        query = project(self.encoding.embed(inputs), self.query_map)[..., -1, :]
        keys = project(inputs[..., :-1, :], self.key_map)
        return self.encoding.cross_logits(query, keys, content=inputs, key_map=self.key_map)

    def permuted_logits(
        self, inputs: Float[Tensor, "*batch token width"], orders: Int[Tensor, "permutation place"]
    ) -> Float[Tensor, "*batch permutation head place"]:
        """Permute the tokens before the last, compute everything again and return the last token's logits.

        Args:
            inputs: without positions; the last token stays.
            orders: ``orders[p, b]`` is the token that stands at place ``b``.
        """
        places = inputs.shape[-2] - 1
        if orders.ndim != 2 or orders.shape[1] != places:
            raise ValueError(f"orders must have shape [permutation, {places}]; got {tuple(orders.shape)}")
        orders = torch.cat([orders, torch.full_like(orders[:, :1], places)], dim=1)
        return self.logits(inputs[..., orders, :])[..., -1, :-1]

    def spread(
        self, inputs: Float[Tensor, "token width"], orders: Int[Tensor, "permutation place"]
    ) -> Float[Tensor, " head"]:
        """Return how far logits of one content at one position differ between permutations, over the range of all.

        0 (up to rounding) wherever a ``C`` exists. Only contents and positions that meet in several of the
        permutations count.
        """
        logits = self.permuted_logits(inputs, orders)
        return measure_movement(logits, orders).amax((-2, -1)) / (logits.amax((0, 2)) - logits.amin((0, 2)))


def measure_movement(
    logits: Float[Tensor, "permutation head place"], orders: Int[Tensor, "permutation place"]
) -> Float[Tensor, "head content place"]:
    """Return largest minus smallest logit of every content at every place over the orders that put it there; else 0."""
    places, heads = logits.shape[-1], logits.shape[-2]
    met = (orders * places + torch.arange(places, device=orders.device)).flatten().expand(heads, -1)
    values = logits.movedim(-2, 0).reshape(heads, -1)
    empty = values.new_zeros(heads, places**2)
    highest = empty.scatter_reduce(-1, met, values, "amax", include_self=False)
    lowest = empty.scatter_reduce(-1, met, values, "amin", include_self=False)
    return (highest - lowest).unflatten(-1, (places, places))


def project(
    inputs: Float[Tensor, "*batch token width"], to: Float[Tensor, "head width dim"]
) -> Float[Tensor, "*batch head token dim"]:
    """Return queries or keys of every head."""
    return inputs[..., None, :, :] @ to

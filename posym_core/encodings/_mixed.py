"""Heads of one layer with different encodings, for models in which a single head sees positions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core.encodings._base import Encoding, LayerShape


class MixedHeads(Encoding):
    """Consecutive groups of heads, each with an encoding of its own.

    What the parts add to embeddings is not theirs alone, so no part may add anything.

    Args:
        shape: of the whole layer.
        parts: encodings made for the same layer but for ``heads``, which must add up.
    """

    def __init__(self, shape: LayerShape, parts: Sequence[Encoding]):
        super().__init__(shape)
        for part in parts:
            if type(part).embed is not Encoding.embed:
                raise ValueError(f"{type(part).__name__} adds to the embeddings of all heads and cannot be a part")
        self.own = nn.ModuleList(parts)
        self.heads = [part.shape.heads for part in parts]
        self.needs_content = any(part.needs_content for part in parts)
        self.path_dependent = any(part.path_dependent for part in parts)
        self.relative = all(part.relative for part in parts)

    @property
    def parts(self) -> list[Encoding]:
        """Return the groups' encodings."""
        return [part for part in self.own if isinstance(part, Encoding)]

    def attention(self, logits, *, positions=None):
        parts = zip(self.parts, logits.split(self.heads, dim=-3), strict=True)
        return torch.cat([part.attention(some, positions=positions) for part, some in parts], dim=-3)

    def _logits(self, query, key, positions, content):
        queries, keys = query.split(self.heads, dim=-3), self._by_part(key)
        parts = zip(self.parts, queries, keys, strict=True)
        return torch.cat([part._logits(q, k, positions, content) for part, q, k in parts], dim=-3)

    def _cross_logits(self, query, keys, at, places, inputs):
        parts = zip(self.parts, query.split(self.heads, dim=-2), self._by_part(keys), strict=True)
        return torch.cat([part._cross_logits(q, k, at, places, inputs) for part, q, k in parts], dim=-3)

    def _by_part(self, keys: Float[Tensor, "*batch keyhead token dim"]) -> list[Tensor]:
        return [keys] * len(self.heads) if keys.shape[-3] == 1 else list(keys.split(self.heads, dim=-3))

"""Encodings that add a number to every logit: T5's buckets, ALiBi's slopes, and DAPE, which mixes both summands.

A bias depends on the distance between query and key. Heads with one are additive by construction: the content
contributes a row, the position a column, and ``C`` is their sum. DAPE passes the two through a small network, so there
the sum is a starting point and not a law.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core._checks import require_counts
from posym_core.encodings._base import Encoding, LayerShape, require_whole


class Biased(Encoding):
    """Common part of T5's and ALiBi's encodings; subclasses give :meth:`bias`."""

    @abstractmethod
    def bias(self, offset: Float[Tensor, "*pair"]) -> Float[Tensor, "head *pair"]:
        """Return what is added where the key stands ``offset`` positions behind the query (negative: before it)."""
        raise NotImplementedError

    def _logits(self, query, key, positions, content):
        return self.content_logits(query, key) + self.bias(positions - positions[:, None]).to(query.dtype)

    def _cross_logits(self, query, keys, at, places, inputs):
        rows = self.content_row(query, keys)
        return rows[..., :, None] + self.bias(places - at).to(query.dtype)[:, None, :]


class T5Bias(Biased):
    """A trained number per head and bucket of distances; far distances share buckets that grow geometrically.

    T5 itself does not scale its dot products: pass ``LayerShape(scale=1)`` for that.

    Args:
        shape: of the layer. A causal one spends all buckets on keys before the query, another half on each side.
        buckets: number of buckets.
        longest: distance from which on all share the last bucket.
    """

    source = "Raffel et al. (2020), Exploring the Limits of Transfer Learning, section 2.1"

    def __init__(self, shape: LayerShape, *, buckets: int = 32, longest: int = 128):
        super().__init__(shape)
        require_counts(buckets=(buckets, 4), longest=(longest, buckets))
        self.buckets, self.longest = buckets, longest
        self.biases = nn.Parameter(0.02 * torch.randn(buckets, shape.heads))

    def bucket(self, offset: Float[Tensor, "*pair"]) -> Int64[Tensor, "*pair"]:
        """Return the bucket of a distance."""
        require_whole("buckets", offset)
        offset = offset.long()
        side, number = torch.zeros_like(offset), self.buckets
        if self.shape.causal:
            distance = (-offset).clamp(min=0)
        else:
            number //= 2
            side, distance = (offset > 0).long() * number, offset.abs()
        exact = number // 2
        # float32, as in the reference: at a bucket's edge the last bit decides.
        ratio = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.longest / exact)
        far = (exact + (ratio * (number - exact)).long()).clamp(max=number - 1)
        return side + torch.where(distance < exact, distance, far)

    def bias(self, offset):
        return self.biases[self.bucket(offset)].movedim(-1, 0)


class ALiBi(Biased):
    """A straight line: ``-slope * distance``, with slopes that fall geometrically from head to head.

    The slopes are fixed, so no head is exactly symbolic: the bias can be drowned by large logits but not switched off.

    Args:
        shape: of the layer. Without causal masking the distance counts in both directions alike.
        slopes: ``[head]``; by default the paper's.
    """

    source = "Press et al. (2022), Train Short, Test Long, section 3"

    def __init__(self, shape: LayerShape, *, slopes: Float[Tensor, " head"] | None = None):
        super().__init__(shape)
        self.register_buffer("slopes", check_slopes(shape, slopes), persistent=False)
        self.slopes: Tensor

    def bias(self, offset):
        slopes = self.slopes.to(offset)
        return -slopes.reshape(-1, *[1] * offset.ndim) * offset.abs()


class DAPE(Encoding):
    """Logits ``A + B + f(A, B)``: a two-layer network reads all heads' content logits and biases of a pair of tokens.

    ``f`` sees one query and one key at a time, so ``C[a, b] = A[a] + B[b] + f(A[a], B[b])`` is a number of its own;
    rows and columns no longer add.

    Args:
        shape: of the layer; ``B`` is ALiBi's.
        hidden: units of the network.
    """

    source = (
        "Zheng et al. (2024), DAPE: Data-Adaptive Positional Encoding; with both residuals, as in the authors' code"
    )

    def __init__(self, shape: LayerShape, *, hidden: int = 32):
        super().__init__(shape)
        require_counts(hidden=(hidden, 1))
        self.biased = ALiBi(shape)
        self.map = nn.Sequential(nn.Linear(2 * shape.heads, hidden), nn.LeakyReLU(), nn.Linear(hidden, shape.heads))

    def mix(
        self, content: Float[Tensor, "*batch head row column"], bias: Float[Tensor, "head row column"]
    ) -> Float[Tensor, "*batch head row column"]:
        """Return ``A + B + f(A, B)`` of content logits and biases."""
        bias = bias.to(content.dtype).expand_as(content)
        both = torch.cat([content, bias], dim=-3).movedim(-3, -1)
        return content + bias + self.map(both).movedim(-1, -3)

    def _logits(self, query, key, positions, content):
        return self.mix(self.content_logits(query, key), self.biased.bias(positions - positions[:, None]))

    def _cross_logits(self, query, keys, at, places, inputs):
        rows = self.content_row(query, keys)
        columns = self.biased.bias(places - at)
        size = (keys.shape[-2], len(places))
        return self.mix(rows[..., None].expand(*rows.shape, size[1]), columns[:, None, :].expand(-1, *size))


def check_slopes(shape: LayerShape, slopes: Tensor | None) -> Float[Tensor, " head"]:
    """Return slopes in float64, one per head of the layer; by default ALiBi's."""
    slopes = alibi_slopes(shape.heads) if slopes is None else torch.as_tensor(slopes, dtype=torch.float64)
    if tuple(slopes.shape) != (shape.heads,):
        raise ValueError(f"slopes must have shape [{shape.heads}], one per head; got {tuple(slopes.shape)}")
    return slopes


def alibi_slopes(heads: int) -> Float[Tensor, " head"]:
    """Return the paper's slopes ``2^(-8 h / heads)``; between powers of two, the next lower's and then odd ones of the
    next higher's.

    >>> alibi_slopes(4)
    tensor([0.2500, 0.0625, 0.0156, 0.0039], dtype=torch.float64)
    """
    lower = 2 ** math.floor(math.log2(heads))
    slopes = 2.0 ** (-8 * torch.arange(1, lower + 1, dtype=torch.float64) / lower)
    between = 2.0 ** (-8 * torch.arange(1, 2 * lower + 1, 2, dtype=torch.float64) / (2 * lower))
    return torch.cat([slopes, between[: heads - lower]])

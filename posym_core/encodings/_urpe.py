"""URPE: a trained Toeplitz matrix multiplies the attention weights themselves."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core.encodings._base import Encoding, LayerShape, UndefinedCrossLogits, check_positions, require_whole
from posym_core.encodings._bias import T5Bias


class URPE(Encoding):
    """Attention ``softmax(A + B) o T`` with a bias ``B`` in the softmax and a trained Toeplitz ``T`` outside it.

    ``T`` depends on the distance and may have any sign, so weights need not be positive or add up to 1. The logits
    ``A + B`` alone do not describe where a head attends: :meth:`cross_logits` refuses.

    Args:
        shape: of the layer; distances up to ``shape.length - 1`` have a factor of their own. ``B`` is T5's.
    """

    source = "Luo et al. (2022), Your Transformer May Not be as Powerful as You Expect, equation 8"

    def __init__(self, shape: LayerShape):
        super().__init__(shape)
        self.biased = T5Bias(shape)
        self.factors = nn.Parameter(torch.ones(shape.heads, 2 * shape.length - 1))

    def toeplitz(self, offset: Float[Tensor, "*pair"]) -> Float[Tensor, "head *pair"]:
        """Return the factor where the key stands ``offset`` positions behind the query (negative: before it)."""
        require_whole("factors", offset)
        if offset.abs().max() >= self.shape.length:
            raise ValueError(
                f"there are factors for distances up to {self.shape.length - 1}; got {int(offset.abs().max())}. Pass a "
                "shape with a greater length"
            )
        return self.factors[:, offset.long() + self.shape.length - 1]

    def attention(self, logits, *, positions=None):
        positions = check_positions(positions, logits.shape[-1], logits.device)
        return logits.softmax(-1) * self.toeplitz(positions - positions[:, None]).to(logits.dtype)

    def _cross_logits(self, query, keys, at, places, inputs):
        raise UndefinedCrossLogits(
            "URPE multiplies the softmax by a factor of the distance, so no logits describe where a head attends; "
            "look at its attention weights"
        )

    def _logits(self, query, key, positions, content):
        return self.content_logits(query, key) + self.biased.bias(positions - positions[:, None]).to(query.dtype)

"""Selective RoPE: every token says how far the planes turn, and the turns add up along the sequence."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core.encodings._base import LayerShape, order_by_position
from posym_core.encodings._rotary import TokenPhases
from posym_core.metrics._rope import rope_angles

REACH = 4
"""Tokens that the short convolution sees."""


class SelectiveRoPE(TokenPhases):
    """RoPE whose planes turn at every token by their angle times a number that the token sets.

    The numbers of a token ``t`` are ``g_t (z_t + r)``: ``z`` is a causal convolution over :data:`REACH` tokens of a
    linear map of the layer's input at unit length, ``r > 0`` a trained rate of the plane, ``g`` in (0, 1) a gate of the
    head that the input sets. The map's columns have unit length times a trained strength of the head. That is the
    paper's pseudocode with its gate, its bias and its weight normalisation; the order in which they act, the input's
    unit length (here of the whole input, there of every head's part), base and reach are those of the authors' code.
    With strength 0, gates open and rates 1, as at the start, it is RoPE.

    A logit depends on all tokens between key and query, so it is no function of the two with their positions: the
    definition of positional and symbolic heads does not cover it. What remains is the logits of the sequence after
    truly permuting it (:meth:`EncodedHeads.permuted_logits`).

    Args:
        shape: of the layer; ``dim`` must be even.
        base: ratio of the planes' angles.
    """

    source = "Movahedi et al. (2025), Selective Rotary Position Embedding, equation 13, figure 4 and section 4.1"
    path_dependent = True

    def __init__(self, shape: LayerShape, *, base: float = 500_000.0):
        super().__init__(shape)
        self.register_buffer("angles", rope_angles(shape.dim, base), persistent=False)
        self.angles: Tensor
        planes = shape.dim // 2
        self.direction = nn.Parameter(torch.randn(shape.heads, shape.width, planes))
        self.strength = nn.Parameter(torch.ones(shape.heads))
        self.kernel = nn.Parameter(torch.empty(shape.heads, planes, REACH).uniform_(-0.5, 0.5))
        self.rate = nn.Parameter(torch.zeros(shape.heads, planes))
        self.gate = nn.Parameter(torch.zeros(shape.heads, shape.width))
        self.opening = nn.Parameter(torch.zeros(shape.heads))

    def turns(self, content: Float[Tensor, "*batch token width"]) -> Float[Tensor, "*batch head token plane"]:
        """Return what tokens, in the order of their positions, multiply the planes' angles with; float64."""
        unit = nn.functional.normalize(content.double(), dim=-1)
        weight = self.strength[:, None, None] * nn.functional.normalize(self.direction, dim=1)
        mapped = unit[..., None, :, :] @ weight.double()
        seen = nn.functional.pad(mapped, (0, 0, REACH - 1, 0)).unfold(-2, REACH, 1)
        moved = (seen * self.kernel.double()[:, None]).sum(-1)
        gate = (unit @ self.gate.double().T + self.opening.double()).sigmoid().transpose(-1, -2)
        return gate[..., None] * (moved + self.rate.double().exp()[:, None])

    def phases(self, content, positions):
        order = order_by_position(positions, "turns add up")
        return self.angles * self.turns(content[..., order, :]).cumsum(-2)[..., order.argsort(), :]

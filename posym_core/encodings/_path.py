"""PaTH: what a key says to a query has passed through a reflection at every token between them."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core.encodings._base import Encoding, LayerShape, order_by_position


class PaTH(Encoding):
    """Logits ``q_i . H_i H_(i-1) ... H_(j+1) k_j`` with ``H_t = I - beta_t w_t w_t^T`` set by token ``t``.

    ``w_t`` is a unit vector and ``beta_t`` lies in (0, 2), both from the layer's input at ``t``; the maps' order and
    ends are those of the authors' reference code. Their short convolution before ``w`` is left out here, and ``w`` is
    projected in full rank.

    A logit depends on all tokens between key and query, so it is no function of the two with their positions: the
    definition of positional and symbolic heads does not cover it, unless all tokens share one ``w`` and ``beta``. What
    remains is the logits of the sequence after truly permuting it (:meth:`EncodedHeads.permuted_logits`). With
    ``beta = 0`` it is NoPE.

    Args:
        shape: of the layer; it must be causal, as the product runs from the key forwards to the query.
    """

    source = "Yang et al. (2025), PaTH Attention: Position Encoding via Accumulating Householder Transformations"
    needs_content = True
    path_dependent = True

    def __init__(self, shape: LayerShape):
        super().__init__(shape)
        if not shape.causal:
            raise ValueError(
                "PaTH runs from a key forwards to the query, so the layer must be causal; got causal=False"
            )
        self.direction = nn.Parameter(torch.randn(shape.heads, shape.width, shape.dim) / math.sqrt(shape.width))
        self.strength = nn.Parameter(torch.zeros(shape.heads, shape.width))
        self.constant = nn.Parameter(torch.zeros(shape.heads))

    def maps(
        self, content: Float[Tensor, "*batch token width"]
    ) -> tuple[Float[Tensor, "*batch head token dim"], Float[Tensor, "*batch head token"]]:
        """Return directions ``w`` and strengths ``beta`` of all tokens."""
        direction = content[..., None, :, :] @ self.direction
        beta = 2 * (content @ self.strength.T + self.constant).sigmoid()
        return nn.functional.normalize(direction, dim=-1), beta.transpose(-1, -2)

    def _logits(self, query, key, positions, content):
        assert content is not None
        order = order_by_position(positions, "maps act")
        back = order.argsort()
        query, key, content = (x[..., order, :] for x in (query, key, content))
        logits = self.shape.scale * multiply_along_path(query, key, *self.maps(content))
        return logits[..., back, :][..., back]


def multiply_along_path(
    query: Float[Tensor, "*batch head token dim"],
    key: Float[Tensor, "*batch keyhead token dim"],
    direction: Float[Tensor, "*batch head token dim"],
    beta: Float[Tensor, "*batch head token"],
) -> Float[Tensor, "*batch head token token"]:
    """Return ``q_i . H_i ... H_(j+1) k_j`` for ``j <= i``, 0 above the diagonal, by one triangular system a head.

    Carried to ``i``, key ``j`` has lost ``sum_t u_t w_t`` over ``j < t <= i``, with
    ``u_t = beta_t (w_t . k_j - sum_(j < s < t) (w_t . w_s) u_s)``: one triangular matrix for all ``j``.
    """
    overlap = (beta[..., None] * (direction @ direction.transpose(-1, -2))).tril(-1)
    met = (beta[..., None] * (direction @ key.transpose(-1, -2))).tril(-1)
    lost = torch.linalg.solve_triangular(overlap, met, upper=False, unitriangular=True)
    return (query @ key.transpose(-1, -2)).tril() - (query @ direction.transpose(-1, -2)).tril() @ lost

"""Multi-head latent attention's queries and keys: low-rank content, and one rotated key for all heads."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core.encodings._base import LayerShape


class LatentProjections(nn.Module):
    """Plain queries and keys of multi-head latent attention, for ``DecoupledRoPE`` with as many rotated dimensions.

    Keys are made from a summary of ``rank`` numbers per token, normalised to unit root mean square; each head reads
    its still part from the summary, while the turned part comes from the input directly and is the same for all
    heads. Queries are full rank here (as in DeepSeek-V2-Lite). Values are not this module's business.

    Args:
        shape: of the layer.
        rotated: dimensions of a head's turned part.
        rank: numbers in a token's summary.
    """

    source = "DeepSeek-AI (2024), DeepSeek-V2, section 2.1.2, equations 9-10, and 2.1.3, equations 14-17"

    def __init__(self, shape: LayerShape, *, rotated: int, rank: int):
        super().__init__()
        self.shape, self.rotated = shape, rotated
        still = shape.dim - rotated

        def initial(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(rows, columns) / math.sqrt(rows))

        self.query_map = initial(shape.width, shape.heads * shape.dim)
        self.summary_map = initial(shape.width, rank)
        self.summary_gain = nn.Parameter(torch.ones(rank))
        self.still_map = initial(rank, shape.heads * still)
        self.turned_map = initial(shape.width, rotated)

    def forward(
        self, inputs: Float[Tensor, "*batch token width"]
    ) -> tuple[Float[Tensor, "*batch head token dim"], Float[Tensor, "*batch head token dim"]]:
        """Return queries and keys of all heads."""
        heads = self.shape.heads
        query = (inputs @ self.query_map).unflatten(-1, (heads, -1)).transpose(-2, -3)
        plain = inputs @ self.summary_map
        summary = self.summary_gain * plain / (plain.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        still = (summary @ self.still_map).unflatten(-1, (heads, -1)).transpose(-2, -3)
        turned = (inputs @ self.turned_map)[..., None, :, :].expand(*still.shape[:-1], self.rotated)
        return query, torch.cat([still, turned], dim=-1)

"""Absolute encodings: a vector of its own is added to every position's embedding.

With ``x_a + p_b`` in place of the embedding and a linear key map ``K``, the logit of content ``a`` at position ``b``
is ``q . K x_a + q . K p_b``: one number of the content plus one of the position. In the layer that reads such
embeddings directly (no normalisation between) no head has an interaction: the two shares of the variance of ``C`` that
belong to positions and to contents add up to 1.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core._checks import require_floating
from posym_core.encodings._base import Encoding, LayerShape, check_positions, require_whole
from posym_core.metrics._rope import rope_angles


class Absolute(Encoding):
    """Common part of sinusoidal and learned encodings; subclasses give :meth:`table`."""

    relative = False

    @abstractmethod
    def table(self, positions: Float[Tensor, " token"]) -> Float[Tensor, "token width"]:
        """Return what is added to the embeddings at these positions."""
        raise NotImplementedError

    def embed(self, inputs, positions=None):
        require_floating("inputs", inputs)
        if inputs.ndim < 2 or inputs.shape[-1] != self.shape.width:
            raise ValueError(f"inputs must have shape [..., token, {self.shape.width}]; got {tuple(inputs.shape)}")
        positions = check_positions(positions, inputs.shape[-2], inputs.device)
        return inputs + self.table(positions).to(inputs.dtype)

    def _cross_logits(self, query, keys, at, places, inputs):
        if inputs.key_map is None:
            raise ValueError(f"{type(self).__name__} reaches the keys through the layer's key map; pass key_map")
        added = self.table(places).to(query.dtype) @ inputs.key_map.to(query.dtype)  # [head, position, dim]
        by_content = self.content_row(query, keys)
        by_position = self.content_row(query, added)
        return by_content[..., :, None] + by_position[..., None, :]


class Sinusoidal(Absolute):
    """Fixed sines and cosines, neighbours sharing a frequency.

    ``p[2 i] = sin(b / base^(2 i / width))`` and ``p[2 i + 1] = cos(...)``. The dot product of two positions' vectors
    depends on their distance only, but a key map need not keep that.

    Args:
        shape: of the layer; its width must be even.
        base: ratio that sets the slowest frequency.
    """

    source = "Vaswani et al. (2017), Attention Is All You Need, section 3.5"

    def __init__(self, shape: LayerShape, *, base: float = 10000.0):
        super().__init__(shape)
        self.register_buffer("angles", rope_angles(shape.width, base), persistent=False)
        self.angles: Tensor

    def table(self, positions):
        phase = positions[:, None] * self.angles.to(positions)
        return torch.stack([phase.sin(), phase.cos()], dim=-1).flatten(-2)


class LearnedAbsolute(Absolute):
    """One trained vector per position, at first drawn as ``torch.nn.Embedding`` draws them.

    Args:
        shape: of the layer; ``shape.length`` positions are kept.
    """

    source = "Gehring et al. (2017), Convolutional Sequence to Sequence Learning, section 3.1; Devlin et al. (2019)"

    def __init__(self, shape: LayerShape):
        super().__init__(shape)
        self.vectors = nn.Parameter(torch.randn(shape.length, shape.width))

    def table(self, positions):
        require_whole("learned positions", positions)
        if positions.min() < 0 or positions.max() >= self.shape.length:
            raise ValueError(
                f"there are vectors for positions 0 to {self.shape.length - 1}; got {int(positions.min())} to "
                f"{int(positions.max())}. Pass a shape with a greater length"
            )
        return self.vectors[positions.long()]

"""Transformer layers with any encoding in any head, and their weights.

Layers are of the usual kind: normalise, attend, add; normalise, two-layer network, add; one more normalisation at the
end. Queries, keys and values have no bias.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from posym_core._checks import require_counts
from posym_core.encodings import Encoding, LayerShape, NoPE, make_encoding
from posym_core.encodings._additive import Absolute
from posym_core.encodings._latent import LatentProjections
from posym_core.encodings._mixed import MixedHeads
from posym_core.encodings._rotary import DecoupledRoPE

Activation = Literal["gelu", "relu"]
LayerHead = tuple[int, int]
# From a layer's number and what its heads hand on, [..., head, token, dim], to what goes on. Hugging Face decoders take
# none: there the same is done by posym_profile.ablate_heads.
Edit = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Settings of a model. The defaults are the sizes of Gu et al.

    Attributes:
        vocabulary: number of different tokens.
        classes: number of answers.
        encoding: name of every head's encoding, or one name per head, the same in all layers.
        added: name of an absolute encoding that is added to the embeddings as well, or ``None``.
        layers: number of layers.
        width: of the residual stream.
        heads: heads a layer.
        hidden: units of a layer's network.
        rank: numbers in the summary from which ``"mla"`` makes content keys.
        length: longest sentence.
        dropout: of embeddings, attention weights and what layers add.
        causal: whether tokens see only what stands before them.
        mask_padding: whether attention and pooling leave out padding.
        activation: of the networks.
    """

    vocabulary: int
    classes: int
    encoding: str | tuple[str, ...] = "rope"
    added: str | None = None
    layers: int = 6
    width: int = 256
    heads: int = 16
    hidden: int = 512
    rank: int = 64
    length: int = 120
    dropout: float = 0.1
    causal: bool = False
    mask_padding: bool = True
    activation: Activation = "gelu"

    def __post_init__(self):
        counts = ("vocabulary", "classes", "layers", "width", "heads", "hidden", "rank", "length")
        require_counts(**{name: (getattr(self, name), 1) for name in counts})
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads must share width={self.width} equally; pass a multiple")
        if not isinstance(self.encoding, str) and len(self.encoding) != self.heads:
            raise ValueError(f"encoding must be one name or one per head, {self.heads}; got {len(self.encoding)}")

    def shape(self, heads: int | None = None) -> LayerShape:
        """Return the sizes of a layer, or of some of its heads."""
        return LayerShape(
            heads=heads or self.heads,
            dim=self.width // self.heads,
            width=self.width,
            length=self.length,
            causal=self.causal,
        )

    def layer_encoding(self) -> Encoding:
        """Make an encoding for one layer, which leaves out what absolute ones add."""

        def make(name: str, heads: int) -> Encoding:
            encoding = make_encoding(name, self.shape(heads))
            return NoPE(encoding.shape) if isinstance(encoding, Absolute) else encoding

        if isinstance(self.encoding, str):
            return make(self.encoding, self.heads)
        runs = [(name, len(list(run))) for name, run in groupby(self.encoding)]
        return MixedHeads(self.shape(), [make(name, heads) for name, heads in runs])


@dataclass(frozen=True, kw_only=True)
class LayerAttention:
    """Inputs and outputs of a layer's attention.

    Attributes:
        inputs: the layer's normalised inputs.
        query: plain queries.
        key: plain keys.
        logits: ``-inf`` where a token does not look.
    """

    inputs: Float[Tensor, "sentence token width"]
    query: Float[Tensor, "sentence head token dim"]
    key: Float[Tensor, "sentence head token dim"]
    logits: Float[Tensor, "sentence head token token"]


class Attention(nn.Module):
    """Attention of one layer."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.encoding = settings.layer_encoding()
        self.heads = settings.heads
        width = settings.width
        if isinstance(self.encoding, DecoupledRoPE):
            self.projections: nn.Module = LatentProjections(
                settings.shape(), rotated=self.encoding.rotated, rank=settings.rank
            )
        else:
            self.projections = nn.Linear(width, 2 * width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.dropout = nn.Dropout(settings.dropout)

    def call(self, inputs: Tensor, hidden: Bool[Tensor, "sentence token"] | None) -> LayerAttention:
        """Return queries, keys and logits; nobody looks at ``hidden`` tokens."""
        if isinstance(self.projections, LatentProjections):
            query, key = self.projections(inputs)
        else:
            query, key = self.by_head(self.projections(inputs)).chunk(2, dim=-3)
        logits = self.encoding.logits(query, key, content=inputs if self.encoding.needs_content else None)
        if hidden is not None:
            logits = logits.masked_fill(hidden[:, None, None, :], -torch.inf)
        return LayerAttention(inputs=inputs, query=query, key=key, logits=logits)

    def by_head(self, x: Float[Tensor, "sentence token columns"]) -> Float[Tensor, "sentence head token dim"]:
        """Deal columns out to heads."""
        return x.unflatten(-1, (-1, self.value.out_features // self.heads)).transpose(-2, -3)

    def reads(self, inputs: Tensor, hidden: Tensor | None) -> Float[Tensor, "sentence head token dim"]:
        """Return what every head reads: the mean of the values under its attention."""
        weights = self.dropout(self.encoding.attention(self.call(inputs, hidden).logits))
        return weights @ self.by_head(self.value(inputs))

    def forward(
        self, inputs: Tensor, hidden: Tensor | None, edit: Callable[[Tensor], Tensor] | None = None
    ) -> Float[Tensor, "sentence token width"]:
        read = self.reads(inputs, hidden)
        if edit is not None:
            read = edit(read)
        return self.output(read.transpose(-2, -3).flatten(-2))


class Layer(nn.Module):
    """Attention and network, each on normalised inputs and added to what was there."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.attention_norm = nn.LayerNorm(settings.width)
        self.attention = Attention(settings)
        self.network_norm = nn.LayerNorm(settings.width)
        self.network = nn.Sequential(
            nn.Linear(settings.width, settings.hidden),
            {"gelu": nn.GELU, "relu": nn.ReLU}[settings.activation](),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.hidden, settings.width),
        )
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, stream: Tensor, hidden: Tensor | None, edit: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        stream = stream + self.dropout(self.attention(self.attention_norm(stream), hidden, edit))
        return stream + self.dropout(self.network(self.network_norm(stream)))


def draw_weights(model: nn.Module, embedding: Tensor, seed: int) -> None:
    """Draw what is not the encodings' own, every weight from a stream that its name and the seed decide.

    ``embedding`` is drawn with spread 1, maps with one over the root of their inputs; biases are 0, and norms stay.
    """
    of_encodings = {
        id(p) for m in model.modules() if isinstance(m, Encoding | LatentProjections) for p in m.parameters()
    }
    for name, parameter in model.named_parameters():
        if id(parameter) in of_encodings or "norm" in name:
            continue
        # 32 bits: on the CPU torch takes no more of a seed.
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
        spread = 1.0 if parameter is embedding else parameter.shape[-1] ** -0.5
        if parameter.ndim == 1:
            spread = 0.0
        parameter.data = spread * torch.randn(parameter.shape, generator=generator)


def replace_heads(new: Mapping[LayerHead, Float[Tensor, "*rows dim"]]) -> Edit:
    """Return an edit that lets some heads hand on something else.

    Args:
        new: by layer and head, from 0: ``[dim]``, ``[token, dim]``, or with the dimensions before the heads'.
    """

    def edit(layer: int, output: Tensor) -> Tensor:
        output = output.clone()
        for (edited, head), x in new.items():
            if edited == layer:
                output[..., head, :, :] = x.to(output)
        return output

    return edit

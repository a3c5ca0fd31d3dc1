"""Transformers that classify a sentence, with any encoding in any head, all else equal.

Made for the comparison of Gu et al., *Deconstructing Positional Information* (2026). Their released models differ in
more than the encoding; here every such difference is a setting of its own, so that it can be held equal or turned on:
what else is added to the embeddings, whether attention and pooling leave out padding, whether attention looks ahead,
the activation and the pooling.

Layers are of the usual kind: normalise, attend, add; normalise, two-layer network, add; one more normalisation at the
end. Queries, keys and values have no bias.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from posym_core.checks import require_counts
from posym_core.encodings import Encoding, LatentProjections, LayerShape, MixedHeads, NoPE, make_encoding
from posym_core.encodings.additive import Absolute
from posym_core.encodings.rotary import DecoupledRoPE
from posym_core.tasks.sentences import SentenceBatch

Activation = Literal["gelu", "relu"]
Pooling = Literal["mean", "last"]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """What a model is. The defaults are the sizes of Gu et al.

    Attributes:
        vocabulary: number of different tokens.
        classes: number of answers.
        encoding: name of every head's encoding, or one name per head, the same in all layers.
        options: of encodings, by name.
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
        pooling: read the mean over tokens, or the last token.
        activation: of the networks.
    """

    vocabulary: int
    classes: int
    encoding: str | tuple[str, ...] = "rope"
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
    pooling: Pooling = "mean"
    activation: Activation = "gelu"

    def __post_init__(self):
        for name in ("vocabulary", "classes", "layers", "width", "heads", "hidden", "rank", "length"):
            require_counts(**{name: (getattr(self, name), 1)})
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads must share width={self.width} equally; pass a multiple")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1); got {self.dropout}")
        if self.pooling not in get_args(Pooling) or self.activation not in get_args(Activation):
            raise ValueError(
                f"pooling must be one of {get_args(Pooling)} and activation one of {get_args(Activation)}; got "
                f"{self.pooling!r} and {self.activation!r}"
            )
        if not isinstance(self.encoding, str) and len(self.encoding) != self.heads:
            raise ValueError(f"encoding must be one name or one per head, {self.heads}; got {len(self.encoding)}")

    def shape(self, heads: int | None = None) -> LayerShape:
        """Sizes of a layer, or of some of its heads."""
        return LayerShape(
            heads=heads or self.heads,
            dim=self.width // self.heads,
            width=self.width,
            length=self.length,
            causal=self.causal,
        )

    def layer_encoding(self) -> Encoding:
        """A new encoding for one layer; what absolute ones add is no business of the layers'."""

        def make(name: str, heads: int) -> Encoding:
            encoding = make_encoding(name, self.shape(heads), **self.options.get(name, {}))
            return NoPE(encoding.shape) if isinstance(encoding, Absolute) else encoding

        if isinstance(self.encoding, str):
            return make(self.encoding, self.heads)
        runs = [(name, len(list(run))) for name, run in groupby(self.encoding)]
        return MixedHeads(self.shape(), [make(name, heads) for name, heads in runs])


def one_head(name: str, heads: int, rest: str = "nope") -> tuple[str, ...]:
    """Names for a layer whose first head alone has this encoding.

    >>> one_head("rope", 3)
    ('rope', 'nope', 'nope')
    """
    return (name, *[rest] * (heads - 1))


@dataclass(frozen=True, kw_only=True)
class AttentionCall:
    """What a layer's attention was given and made.

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

    def call(self, inputs: Tensor, hidden: Bool[Tensor, "sentence token"] | None) -> AttentionCall:
        """Queries, keys and logits; nobody looks at ``hidden`` tokens."""
        if isinstance(self.projections, LatentProjections):
            query, key = self.projections(inputs)
        else:
            query, key = self.by_head(self.projections(inputs)).chunk(2, dim=-3)
        logits = self.encoding.logits(query, key, content=inputs if self.encoding.needs_content else None)
        if hidden is not None:
            logits = logits.masked_fill(hidden[:, None, None, :], -torch.inf)
        return AttentionCall(inputs=inputs, query=query, key=key, logits=logits)

    def by_head(self, x: Float[Tensor, "sentence token columns"]) -> Float[Tensor, "sentence head token dim"]:
        """Columns dealt out to heads."""
        return x.unflatten(-1, (-1, self.value.out_features // self.heads)).transpose(-2, -3)

    def forward(
        self, inputs: Tensor, hidden: Tensor | None, gates: Float[Tensor, " head"] | None
    ) -> Float[Tensor, "sentence token width"]:
        weights = self.dropout(self.encoding.attention(self.call(inputs, hidden).logits))
        read = weights @ self.by_head(self.value(inputs))
        if gates is not None:
            read = read * gates[:, None, None]
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
            nn.GELU() if settings.activation == "gelu" else nn.ReLU(),
            nn.Dropout(settings.dropout),
            nn.Linear(settings.hidden, settings.width),
        )
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, stream: Tensor, hidden: Tensor | None, gates: Tensor | None) -> Tensor:
        stream = stream + self.dropout(self.attention(self.attention_norm(stream), hidden, gates))
        return stream + self.dropout(self.network(self.network_norm(stream)))


class EncodingModel(nn.Module):
    """A transformer that gives every sentence a class.

    Absolute encodings enter once, at the embeddings; the layers above them have no other. Token 0 is padding.

    Args:
        settings: what it is.
        seed: of the weights. The caller's random state is left alone. Weights of the same name and shape are the same
            under all encodings; ``"mla"`` alone makes queries and keys in another way.
    """

    def __init__(self, settings: ModelSettings, *, seed: int = 0):
        super().__init__()
        self.settings = settings
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(settings.vocabulary, settings.width)
            self.absolute = nn.ModuleList(self._absolute())
            self.layers = nn.ModuleList(Layer(settings) for _ in range(settings.layers))
            self.norm = nn.LayerNorm(settings.width)
            self.read = nn.Linear(settings.width, settings.classes)
            self.dropout = nn.Dropout(settings.dropout)
            self._draw(seed)

    def _absolute(self) -> Sequence[Encoding]:
        names = [self.settings.encoding, self.settings.added]
        made = [
            make_encoding(name, self.settings.shape(), **self.settings.options.get(name, {}))
            for name in names
            if isinstance(name, str)
        ]
        if self.settings.added is not None and not isinstance(made[-1], Absolute):
            raise ValueError(f"only absolute encodings can be added to embeddings; got added={self.settings.added!r}")
        return [encoding for encoding in made if isinstance(encoding, Absolute)]

    def _draw(self, seed: int) -> None:
        """Draw what is not the encoding's, every weight from a stream that its name and the seed decide."""
        own = {id(p) for m in self.modules() if isinstance(m, Encoding | LatentProjections) for p in m.parameters()}
        for name, parameter in self.named_parameters():
            if id(parameter) in own or "norm" in name:
                continue
            # 32 bits: on the CPU torch takes no more of a seed.
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
            spread = 1.0 if parameter is self.embedding.weight else parameter.shape[-1] ** -0.5
            if parameter.ndim == 1:
                spread = 0.0  # the biases of linear maps
            parameter.data = spread * torch.randn(parameter.shape, generator=generator)

    def stream(self, tokens: Int64[Tensor, "sentence token"]) -> Float[Tensor, "sentence token width"]:
        """Embeddings with what absolute encodings add."""
        if tokens.ndim != 2 or tokens.shape[1] > self.settings.length:
            raise ValueError(
                f"tokens must have shape [sentence, token] with at most {self.settings.length} tokens; got "
                f"{tuple(tokens.shape)}"
            )
        stream = self.embedding(tokens)
        for encoding in self.absolute:
            assert isinstance(encoding, Encoding)
            stream = encoding.embed(stream)
        return self.dropout(stream)

    def hidden(self, tokens: Int64[Tensor, "sentence token"]) -> Bool[Tensor, "sentence token"] | None:
        """Padding, where it is left out."""
        return tokens == 0 if self.settings.mask_padding else None

    def forward(
        self, tokens: Int64[Tensor, "sentence token"], gates: Float[Tensor, "layer head"] | None = None
    ) -> Float[Tensor, "sentence class"]:
        """Scores of the classes.

        Args:
            tokens: sentences; padding, token 0, stands behind their ends.
            gates: factor on every head's output; 0 switches a head off.

        Raises:
            ValueError: if a sentence is too long or holds nothing but padding where that is left out.
        """
        stream, hidden = self.stream(tokens), self.hidden(tokens)
        if hidden is not None and hidden.all(1).any():
            raise ValueError("every sentence must hold a token that is not padding; one holds none")
        for number, layer in enumerate(self.layers):
            stream = layer(stream, hidden, None if gates is None else gates[number])
        stream = self.norm(stream)
        weight = torch.ones_like(tokens, dtype=stream.dtype) if hidden is None else (~hidden).to(stream.dtype)
        if self.settings.pooling == "last":
            last = weight.shape[1] - 1 - weight.flip(1).argmax(1)
            return self.read(stream[torch.arange(len(stream), device=stream.device), last])
        return self.read((stream * weight[..., None]).sum(1) / weight.sum(1, keepdim=True))

    @torch.no_grad()
    def calls(self, tokens: Int64[Tensor, "sentence token"]) -> list[AttentionCall]:
        """What every layer's attention is given and makes, first layer first."""
        stream, hidden = self.stream(tokens), self.hidden(tokens)
        found = []
        for layer in self.layers:
            assert isinstance(layer, Layer)
            found.append(layer.attention.call(layer.attention_norm(stream), hidden))
            stream = layer(stream, hidden, None)
        return found


class ClassLoss(nn.Module):
    """Cross-entropy of the answers, with dropout drawn from the batch's own seed: what ``train`` takes.

    Seeding the global generator with a number that the data's generator draws makes the latter the only source of
    chance, so a resumed run repeats a broken one.
    """

    def __init__(self, model: EncodingModel):
        super().__init__()
        self.model = model

    def losses(self, batch: tuple[SentenceBatch, int]) -> Float[Tensor, ""]:
        """Mean over ``(sentences, seed)``."""
        sentences, seed = batch
        torch.manual_seed(seed)
        return nn.functional.cross_entropy(self.model(sentences.tokens), sentences.answer)


@torch.no_grad()
def predicted_classes(
    model: EncodingModel,
    batch: SentenceBatch,
    *,
    gates: Float[Tensor, "layer head"] | None = None,
    batch_size: int = 500,
) -> Int64[Tensor, " sentence"]:
    """The class that a model in evaluation mode gives every sentence, on the CPU."""
    if model.training:
        raise ValueError("the model is in training mode, where dropout alters its answers; call model.eval()")
    device = model.embedding.weight.device
    return torch.cat([model(part.to(device), gates).argmax(-1).cpu() for part in batch.tokens.split(batch_size)])


def right_classes(
    model: EncodingModel,
    batch: SentenceBatch,
    *,
    gates: Float[Tensor, "layer head"] | None = None,
    batch_size: int = 500,
) -> Bool[Tensor, " sentence"]:
    """Which sentences a model in evaluation mode gives the right class, on the CPU."""
    return predicted_classes(model, batch, gates=gates, batch_size=batch_size) == batch.answer.cpu()


@torch.no_grad()
def ablations(
    model: EncodingModel, batch: SentenceBatch, *, batch_size: int = 500
) -> tuple[float, Float[Tensor, "layer head"]]:
    """Accuracy of the whole model, and with every head switched off in turn."""
    settings = model.settings
    device = model.embedding.weight.device
    kept = torch.ones(settings.layers, settings.heads, device=device)
    whole = float(right_classes(model, batch, batch_size=batch_size).double().mean())
    found = torch.zeros(settings.layers, settings.heads, dtype=torch.float64)
    for layer in range(settings.layers):
        for head in range(settings.heads):
            gates = kept.clone()
            gates[layer, head] = 0
            right = right_classes(model, batch, gates=gates, batch_size=batch_size)
            found[layer, head] = right.double().mean()
    return whole, found

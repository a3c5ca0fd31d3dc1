"""Transformers that classify a sentence, with any encoding in any head, all else equal.

Made for the comparison of Gu et al., *Deconstructing Positional Information* (2026). Their released models differ in
more than the encoding; here every such difference is a setting of its own, so that it can be held equal or turned on:
what else is added to the embeddings, whether attention and pooling leave out padding, whether attention looks ahead,
and the activation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from posym_core._checks import require_evaluation
from posym_core.encodings import Encoding, make_encoding
from posym_core.encodings._additive import Absolute
from posym_core.models._layers import Attention, Edit, Layer, LayerAttention, ModelSettings, draw_weights, replace_heads
from posym_core.tasks._sentences import SentenceBatch

Ablation = Literal["zero", "mean"]
"""What takes a head's place."""


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
            draw_weights(self, self.embedding.weight, seed)

    def _absolute(self) -> Sequence[Encoding]:
        names = [self.settings.encoding, self.settings.added]
        made = [make_encoding(name, self.settings.shape()) for name in names if isinstance(name, str)]
        if self.settings.added is not None and not isinstance(made[-1], Absolute):
            raise ValueError(f"only absolute encodings can be added to embeddings; got added={self.settings.added!r}")
        return [encoding for encoding in made if isinstance(encoding, Absolute)]

    def stream(self, tokens: Int64[Tensor, "sentence token"]) -> Float[Tensor, "sentence token width"]:
        """Return the embeddings with what absolute encodings add."""
        self._require_sentences(tokens)
        stream = self.embedding(tokens)
        for encoding in self.absolute:
            assert isinstance(encoding, Encoding)
            stream = encoding.embed(stream)
        return self.dropout(stream)

    def _require_sentences(self, tokens: Tensor) -> None:
        if tokens.ndim != 2 or tokens.shape[1] > self.settings.length:
            raise ValueError(
                f"tokens must have shape [sentence, token] with at most {self.settings.length} tokens; got "
                f"{tuple(tokens.shape)}"
            )

    def hidden(self, tokens: Int64[Tensor, "sentence token"]) -> Bool[Tensor, "sentence token"] | None:
        """Return the padding, where it is left out."""
        return tokens == 0 if self.settings.mask_padding else None

    def forward(
        self, tokens: Int64[Tensor, "sentence token"], edit: Edit | None = None
    ) -> Float[Tensor, "sentence class"]:
        """Scores of the classes.

        Args:
            tokens: sentences; padding, token 0, stands behind their ends.
            edit: called with every layer's number and what its heads read ``[sentence, head, token, dim]``, before the
                output map; what it returns goes on.
        """
        self._require_sentences(tokens)
        hidden = self.hidden(tokens)
        if hidden is not None:
            if hidden.all(1).any():
                raise ValueError("every sentence must hold a token that is not padding; one holds none")
            longest = int((~hidden).any(0).nonzero()[-1]) + 1  # behind it stands nothing that anything looks at
            tokens, hidden = tokens[:, :longest], hidden[:, :longest]
        stream = self.stream(tokens)
        for number, layer in enumerate(self.layers):
            stream = layer(stream, hidden, None if edit is None else functools.partial(edit, number))
        stream = self.norm(stream)
        weight = torch.ones_like(tokens, dtype=stream.dtype) if hidden is None else (~hidden).to(stream.dtype)
        return self.read((stream * weight[..., None]).sum(1) / weight.sum(1, keepdim=True))

    def _layers(self, tokens: Tensor) -> Iterator[tuple[Attention, Tensor, Tensor | None]]:
        """Yield every layer's attention with its inputs and the padding, first layer first."""
        stream, hidden = self.stream(tokens), self.hidden(tokens)
        for layer in self.layers:
            assert isinstance(layer, Layer)
            yield layer.attention, layer.attention_norm(stream), hidden
            stream = layer(stream, hidden)

    @torch.no_grad()
    def calls(self, tokens: Int64[Tensor, "sentence token"]) -> list[LayerAttention]:
        """Return what every layer's attention is given and makes, first layer first."""
        return [attention.call(inputs, hidden) for attention, inputs, hidden in self._layers(tokens)]

    @torch.no_grad()
    def mean_reads(self, tokens: Int64[Tensor, "sentence token"]) -> Float[Tensor, "layer head dim"]:
        """Return what every head reads on average over all tokens that count; padding does not where it is left out."""
        hidden = self.hidden(tokens)
        counts = torch.ones_like(tokens, dtype=torch.bool) if hidden is None else ~hidden
        reads = [attention.reads(inputs, hidden).transpose(1, 2) for attention, inputs, _ in self._layers(tokens)]
        return torch.stack([x[counts].mean(0) for x in reads])


class ClassLoss(nn.Module):
    """Cross-entropy of the answers, for batches ``(sentences, seed)``: what :func:`train` takes.

    Dropout takes chance from torch's global generator. Seeding that at every step with a number that the data's
    generator draws makes the latter the only source of chance, so a resumed run repeats a broken one.
    """

    def __init__(self, model: EncodingModel):
        super().__init__()
        self.model = model

    def prepare(self, batch: tuple[SentenceBatch, int]) -> SentenceBatch:
        """Plant a batch's seed and return the sentences."""
        sentences, seed = batch
        torch.manual_seed(seed)
        return sentences

    def losses(self, sentences: SentenceBatch) -> Float[Tensor, ""]:
        return nn.functional.cross_entropy(self.model(sentences.tokens), sentences.answer)


@torch.no_grad()
def predict_classes(
    model: EncodingModel, batch: SentenceBatch, *, edit: Edit | None = None, batch_size: int = 500
) -> Int64[Tensor, " sentence"]:
    """Predict the class of every sentence with a model in evaluation mode; on the CPU."""
    require_evaluation(model)
    device = model.embedding.weight.device
    return torch.cat([model(part.to(device), edit).argmax(-1).cpu() for part in batch.tokens.split(batch_size)])


def ablate_each_head(
    model: EncodingModel, batch: SentenceBatch, *, by: Ablation = "zero", batch_size: int = 500
) -> tuple[float, Float[Tensor, "layer head"]]:
    """Return the accuracy of the whole model, and with every head ablated in turn.

    Args:
        model: in evaluation mode.
        batch: sentences; also those that means are taken over.
        by: ``"zero"``: the head says nothing; ``"mean"``: on every token it says what it says on average, so that what
            follows keeps the constant part that it was trained with.
        batch_size: sentences of a pass.
    """
    if by not in get_args(Ablation):
        raise ValueError(f"by must be one of {', '.join(map(repr, get_args(Ablation)))}; got {by!r}")
    require_evaluation(model)
    device = model.embedding.weight.device
    layers, heads, width = model.settings.layers, model.settings.heads, model.settings.width
    instead = model.mean_reads(batch.tokens.to(device)) if by == "mean" else torch.zeros(layers, heads, width // heads)

    def accuracy(edit: Edit | None) -> float:
        right = predict_classes(model, batch, edit=edit, batch_size=batch_size) == batch.answer.cpu()
        return float(right.double().mean())

    accuracies = torch.zeros(instead.shape[:2], dtype=torch.float64)
    for place in np.ndindex(*accuracies.shape):
        accuracies[place] = accuracy(replace_heads({place: instead[place]}))
    return accuracy(None), accuracies

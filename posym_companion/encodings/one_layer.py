"""One layer of attention with any encoding, read out at the last token: what an encoding lets a single layer do."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core.encodings import ENCODINGS, Absolute, Encoding, make_encoding
from posym_core.models import Attention, ModelSettings, draw_weights
from posym_core.tasks import Task, TaskBatch


class EncodedReader(nn.Module):
    """One attention layer with any encoding, read out at the last token.

    Args:
        task: decides vocabulary and classes.
        encoding: key of ``ENCODINGS``.
        length: context tokens of the training, which decide how long tables of encodings are.
        width: of embeddings.
        heads: of the layer.
        rank: numbers in the summary of ``"mla"``.
        seed: of the weights. The caller's random state is left alone.
    """

    def __init__(
        self, task: Task, *, encoding: str, length: int, seed: int, width: int = 64, heads: int = 4, rank: int = 32
    ):
        super().__init__()
        sizes = ModelSettings(
            vocabulary=task.part_vocabulary,
            classes=task.classes,
            encoding=encoding,
            layers=1,
            width=width,
            heads=heads,
            rank=rank,
            length=length + 1,
            dropout=0.0,
            causal=True,
            pooling="last",
        )
        self.longest = length + 1 if ENCODINGS[encoding].bounded else None
        self.register_buffer("token_parts", task.parts(torch.arange(task.vocabulary)), persistent=False)
        self.token_parts: Tensor
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(task.part_vocabulary, width)
            method = make_encoding(encoding, sizes.shape())
            self.absolute: Encoding | None = method if isinstance(method, Absolute) else None
            self.attention = Attention(sizes)
            self.read = nn.Linear(width, task.classes, bias=False)
            # As in the toys: strong random matches at the start trap heads in poor minima.
            draw_weights(self, self.embedding.weight, seed, projections=0.5)

    def forward(self, tokens: Int64[Tensor, "input token"]) -> Float[Tensor, "input class"]:
        """Scores of the classes.

        Raises:
            ValueError: if the encoding keeps a table and the input is longer.
        """
        if self.longest is not None and tokens.shape[1] > self.longest:
            raise ValueError(f"the encoding has rows for {self.longest} tokens; got {tokens.shape[1]}")
        inputs = self.embedding(self.token_parts[tokens]).sum(-2)
        if self.absolute is not None:
            inputs = self.absolute.embed(inputs)
        return self.read(self.attention(inputs, None)[:, -1])

    def losses(self, batch: TaskBatch) -> Float[Tensor, ""]:
        """Mean cross-entropy of the answers."""
        return nn.functional.cross_entropy(self(batch.tokens), batch.answer)

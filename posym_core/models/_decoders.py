"""Decoders of a few layers and heads that answer questions about facts, trained as one batched ensemble.

Layers are of the usual kind: normalise (root mean square), attend to what came before, add; normalise, a GELU network
of twice the width, add; one more normalisation before the read-out, which is not tied to the embedding. No biases, no
dropout. The angles of every layer's planes are the experimenter's choice; all heads of a layer share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from posym_core._checks import require_counts
from posym_core.metrics._rope import join_planes, split_planes
from posym_core.models._ensembles import Ensemble
from posym_core.models._layers import Edit
from posym_core.tasks._facts import FactsTask


class DecoderEnsemble(Ensemble):
    """Independent decoders, one for each seed and each variant of the angles.

    Args:
        task: decides vocabulary and answers.
        angles: ``[variant, layer, plane]``, radians per position; 0 for a plane without rotation. Heads have two
            dimensions a plane.
        seeds: one per group of members; decides initial weights.
        heads: heads a layer; ``heads * 2 * planes`` is the width of the residual stream.
    """

    shape = ("variant", "layer", "plane")

    def __init__(
        self, task: FactsTask, angles: Float[Tensor, "variant layer plane"], *, seeds: Sequence[int], heads: int = 4
    ):
        super().__init__(task, angles, seeds=seeds, heads=heads)
        require_counts(heads=(heads, 1))
        self.heads = heads
        layers, width, initial = self.layers, heads * self.dim, self.initializer()
        narrow, wide = (3 * width) ** -0.5, (6 * width) ** -0.5
        self.embedding = initial(task.vocabulary, width, spread=0.5)
        # Columns: queries, keys and values, each of all heads.
        self.project = initial(layers, width, 3 * width, spread=narrow)
        self.output = initial(layers, width, width, spread=narrow)
        self.widen = initial(layers, width, 2 * width, spread=narrow)
        self.narrow = initial(layers, 2 * width, width, spread=wide)
        self.read = initial(width, task.attributes, spread=narrow)
        self.norms = nn.Parameter(torch.ones(*self.ensemble, 2 * layers + 1, width))

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self.angles.shape[1]

    def forward(
        self, tokens: Int64[Tensor, "seed prompt token"], *, edit: Edit | None = None
    ) -> Float[Tensor, "seed variant prompt question attribute"]:
        """Scores of the attributes at every question of prompts with ``context`` tokens before the first.

        Args:
            tokens: the seeds' prompts.
            edit: called with every layer's number and what its heads read ``[seed, variant, prompt, head, token,
                dim]``, before the output map; what it returns goes on.
        """
        *_, (stream, _, _) = self._run(tokens, edit)
        at_questions = self._normed(stream[:, :, :, self.task.context :: 2], -1)
        return at_questions @ self.read[:, :, None]

    def queries_and_keys(self, tokens: Int64[Tensor, "seed prompt token"]) -> list[tuple[Tensor, Tensor]]:
        """Return every layer's last queries ``[seed, variant, prompt, head, dim]`` and all keys, rotated.

        Pass ``scale=self.scale`` and ``angles=self.angles[variant, layer]`` along; the pairing is ``"halves"``.
        """
        halves = [
            join_planes(*split_planes(x, "neighbours"), "halves") for _, *both in self._run(tokens, None) for x in both
        ]
        return [(query[..., -1, :], keys) for query, keys in zip(halves[2::2], halves[3::2], strict=True)]

    def attention(
        self, tokens: Int64[Tensor, "seed prompt token"]
    ) -> list[Float[Tensor, "seed variant prompt head query key"]]:
        """Return every layer's attention of every token to those before it and to itself."""
        future = torch.ones(2 * tokens.shape[-1:], dtype=torch.bool, device=tokens.device).triu(1)
        _, *layers = self._run(tokens, None)
        return [(query @ keys.mT * self.scale).masked_fill(future, -torch.inf).softmax(-1) for _, query, keys in layers]

    def _run(self, tokens: Tensor, edit: Edit | None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield the stream after the embedding and after every layer, with that layer's queries and keys."""
        seeds, variants = self.ensemble
        self.require_tokens(tokens, more_than=self.task.context)
        rows = self.task.vocabulary * torch.arange(seeds * variants, device=tokens.device).view(seeds, variants, 1, 1)
        flat = self.embedding.reshape(-1, self.embedding.shape[-1])
        stream = functional.embedding(tokens[:, None] + rows, flat)  # [seed, variant, prompt, token, width]
        positions = torch.arange(tokens.shape[2], dtype=torch.float64, device=tokens.device)
        phase = (positions[:, None] * self.angles[:, :, None])[:, None, None]  # [variant, 1, 1, layer, token, plane]
        turns = torch.complex(phase.cos().to(stream), phase.sin().to(stream))
        nothing = stream.new_zeros(0)
        yield stream, nothing, nothing
        for layer in range(self.layers):
            projected = self._map(self._normed(stream, 2 * layer), self.project, layer)
            query, keys, values = (
                part.unflatten(-1, (self.heads, self.dim)).transpose(-2, -3) for part in projected.chunk(3, dim=-1)
            )
            query, keys = (rotate_neighbours(x, turns[..., layer, :, :]) for x in (query, keys))
            read = functional.scaled_dot_product_attention(
                query.flatten(0, 2), keys.flatten(0, 2), values.flatten(0, 2), is_causal=True
            ).view_as(query)
            if edit is not None:
                read = edit(layer, read)
            stream = stream + self._map(read.transpose(-2, -3).flatten(-2), self.output, layer)
            widened = functional.gelu(self._map(self._normed(stream, 2 * layer + 1), self.widen, layer))
            stream = stream + self._map(widened, self.narrow, layer)
            yield stream, query, keys

    def _map(self, x: Tensor, weights: Tensor, layer: int) -> Tensor:
        """Send ``x[seed, variant, prompt, token, ...]`` through every member's own map, as one product of matrices."""
        maps = weights[:, :, layer].flatten(0, 1)
        return torch.bmm(x.flatten(0, 1).flatten(1, 2), maps).view(*x.shape[:-1], maps.shape[-1])

    def _normed(self, x: Tensor, place: int) -> Tensor:
        return functional.rms_norm(x, x.shape[-1:], eps=1e-6) * self.norms[:, :, place, None, None]


def rotate_neighbours(x: Float[Tensor, "*rows dim"], turns: Tensor) -> Float[Tensor, "*rows dim"]:
    """Turn every plane, two neighbouring dimensions, by its complex number in ``turns``: one pass over memory."""
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(-2)

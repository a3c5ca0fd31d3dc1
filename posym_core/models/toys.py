"""Attention-only models with one layer and one head, trained as one batched ensemble.

The set-up follows Urrutia et al., *Decoupling Positional and Symbolic Attention in Transformers*: one layer, one
head, rotary angles chosen by the experimenter, nothing but attention between embedding and read-out. The paper's
appendix with the exact training set-up is not public to us, so these details are ours:

* A head with ``F`` angles has exactly ``F`` rotation planes: one angle means queries and keys in one plane. Every
  other property of the model is the same for all angles, so the angle is the only cause that varies.
* A (symbol, attribute) token is embedded as the sum of a symbol's and an attribute's embedding: a linear map of the
  two one-hot vectors side by side, from which a linear query, key or value map can read either. Query tokens (index
  or symbol) have embeddings of their own.
* The last token queries all tokens up to and including itself; its output is the attention-weighted sum of linear
  read-outs, without residual connection, normalisation or bias.
* Logits are scaled by one over the square root of the head's dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core.checks import require_finite
from posym_core.metrics.rope import rotate, split_planes
from posym_core.tasks.canonical import Task, TaskBatch


class ToyEnsemble(nn.Module):
    """Independent toy models, one for each seed and each variant of the angles, in one set of tensors.

    All variants of a seed start from the same weights and see the same inputs: a data stream belongs to a seed and is
    shared by its variants, so variants differ by their angles alone and seeds by everything that chance decides. With
    one variant every member has a stream of its own.

    Speed: with one layer a token is seen only through its embedding, so the *table* of embeddings is projected once a
    step, queries and keys are looked up in it, and attention is collected onto token parts before the read-out. The
    variant is the last dimension of all large tensors: look-ups and sums then run over contiguous rows.

    Args:
        task: decides vocabulary, length and classes.
        angles: ``[variant, plane]``, radians per position; 0 is a plane without rotation.
        seeds: one per group of members; decides initial weights.
        width: dimension of token embeddings.

    Parameters have shape ``[seed, variant, ...]``.

    Raises:
        ValueError: if angles are not ``[variant, plane]`` and finite, or there is no seed.
    """

    def __init__(self, task: Task, angles: Float[Tensor, "variant plane"], *, seeds: Sequence[int], width: int = 64):
        super().__init__()
        angles = torch.as_tensor(angles).to(torch.float64)
        if angles.ndim != 2 or not angles.numel():
            raise ValueError(
                f"angles must have shape [variant, plane]; got {tuple(angles.shape)}. One model with one angle is "
                "torch.tensor([[angle]])"
            )
        require_finite("angles", angles)
        if not len(seeds):
            raise ValueError("at least one seed is needed; got none. Pass seeds=(0,)")
        self.task, self.seeds, self.width = task, tuple(seeds), width
        self.dim = 2 * angles.shape[1]
        self.scale = 1 / math.sqrt(self.dim)
        self.register_buffer("angles", angles, persistent=False)
        self.angles: Tensor
        parts = task.parts(torch.arange(task.vocabulary))
        self.register_buffer("token_parts", parts, persistent=False)
        self.token_parts: Tensor

        def initial(rows: int, columns: int, spread: float) -> nn.Parameter:
            drawn = torch.stack([torch.randn(rows, columns, generator=generator) for generator in generators])
            return nn.Parameter(spread * drawn[:, None].repeat(1, len(angles), 1, 1))

        generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        self.embedding = initial(task.part_vocabulary, width, 1.0)
        # Half the usual spread: strong random matches at the start trap fast heads in poor minima.
        self.query_map = initial(width, self.dim, 0.5 * width**-0.5)
        self.key_map = initial(width, self.dim, 0.5 * width**-0.5)
        self.read_map = initial(width, task.classes, width**-0.5)

    @property
    def ensemble(self) -> tuple[int, int]:
        """Number of seeds and of variants: the leading dimensions of every parameter."""
        return self.embedding.shape[0], self.embedding.shape[1]

    def query_table(self) -> Float[Tensor, "seed variant query dim"]:
        """Unrotated query of every query token."""
        parts = self.embedding @ self.query_map
        return parts[:, :, self.token_parts[self.task.context_vocabulary :]].sum(3)

    def key_table(self) -> Float[Tensor, "seed variant token dim"]:
        """Unrotated key of every token of the vocabulary."""
        return (self.embedding @ self.key_map)[:, :, self.token_parts].sum(3)

    def logits(
        self, tokens: Int64[Tensor, "seed input token"], gates: Float[Tensor, " plane"] | None = None
    ) -> Float[Tensor, "seed input token variant"]:
        """Logits of the last token's query against all tokens."""
        self._check_tokens(tokens)
        seeds, inputs, slots = tokens.shape
        variants = self.ensemble[1]
        keys = self.key_table().permute(0, 2, 3, 1)  # [seed, token, dim, variant]
        query = self.query_table()  # [seed, variant, query, dim]
        if gates is not None:
            query = query * torch.cat([gates, gates]).to(query)
        # A query rotated by its distance to a position meets the unrotated key that stands there.
        distance = slots - 1 - torch.arange(slots, dtype=torch.float64, device=tokens.device)
        phase = distance[:, None, None] * self.angles.T  # [token, plane, variant]
        cos, sin = phase.cos().to(query.dtype), phase.sin().to(query.dtype)
        first, second = (part.permute(0, 2, 3, 1)[:, :, None] for part in split_planes(query, "halves"))
        turned = torch.cat([first * cos - second * sin, first * sin + second * cos], dim=3)
        #        [seed, query, token, dim, variant]
        seed = torch.arange(seeds, device=tokens.device)
        key_row = tokens + self.task.vocabulary * seed[:, None, None]
        query_row = tokens[:, :, -1] - self.task.context_vocabulary + self.task.queries * seed[:, None]
        looked_up = keys.reshape(seeds * self.task.vocabulary, -1).index_select(0, key_row.flatten())
        asked = turned.reshape(seeds * self.task.queries, -1).index_select(0, query_row.flatten())
        shape = (seeds, inputs, slots, self.dim, variants)
        return (asked.view(shape) * looked_up.view(shape)).sum(3) * self.scale

    def forward(
        self, tokens: Int64[Tensor, "seed input token"], gates: Float[Tensor, " plane"] | None = None
    ) -> Float[Tensor, "seed variant input class"]:
        """Scores of the classes.

        Args:
            tokens: the seeds' inputs, the query last.
            gates: factor on every plane's logits; 0 switches a plane off.
        """
        attention = self.logits(tokens, gates).softmax(2)  # [seed, input, token, variant]
        seeds, inputs, _, variants = attention.shape
        parts = self.task.part_vocabulary
        rows = parts * torch.arange(seeds * inputs, device=tokens.device).view(seeds, inputs, 1)
        mass = attention.new_zeros(seeds * inputs * parts, variants)
        for part in self.token_parts[tokens].unbind(-1):
            mass = mass.index_add(0, (rows + part).flatten(), attention.reshape(-1, variants))
        mass = mass.view(seeds, inputs, parts, variants).permute(0, 3, 1, 2)  # [seed, variant, input, part]
        return mass @ (self.embedding @ self.read_map)

    def losses(self, batch: TaskBatch) -> Float[Tensor, "seed variant"]:
        """Mean cross-entropy of every member on its seed's inputs (each field of ``batch`` leads with the seed)."""
        scores = self(batch.tokens)
        answer = batch.answer[:, None, :, None].expand(*scores.shape[:-1], 1)
        return (scores.logsumexp(-1) - scores.gather(-1, answer)[..., 0]).mean(-1)

    def query_and_keys(
        self, tokens: Int64[Tensor, "seed input token"], variant: int
    ) -> tuple[Float[Tensor, "seed input dim"], Float[Tensor, "seed input token dim"]]:
        """Query of the last token and keys of all tokens, rotated to their positions, for the core's functions.

        Pass ``scale=self.scale`` and ``angles=self.angles[variant]`` along with them; the pairing is ``"halves"``.
        """
        self._check_tokens(tokens)
        last = tokens.shape[-1] - 1
        seed = torch.arange(tokens.shape[0], device=tokens.device)
        query = self.query_table()[seed[:, None], variant, tokens[:, :, -1] - self.task.context_vocabulary]
        keys = self.key_table()[seed[:, None, None], variant, tokens]
        positions = torch.arange(last + 1, device=tokens.device)
        angles = self.angles[variant]
        return rotate(query, last, angles), rotate(keys, positions, angles)

    def member(self, seed: int, variant: int) -> ToyEnsemble:
        """A copy of one member as an ensemble of one; ``seed`` counts the seeds given, from 0."""
        alone = ToyEnsemble(
            self.task, self.angles[variant : variant + 1].cpu(), seeds=self.seeds[seed : seed + 1], width=self.width
        ).to(self.embedding.device)
        with torch.no_grad():
            for mine, its in zip(self.parameters(), alone.parameters(), strict=True):
                its.copy_(mine[seed : seed + 1, variant : variant + 1])
        return alone

    def _check_tokens(self, tokens: Tensor) -> None:
        seeds = self.ensemble[0]
        if tokens.ndim != 3 or tokens.shape[0] != seeds or tokens.shape[2] < 2:
            raise ValueError(
                f"tokens must have shape [seed, input, token] with {seeds} seeds; got {tuple(tokens.shape)}. "
                "Draw them with sample_streams"
            )


def data_generators(seeds: Sequence[int], device: torch.device | str = "cpu", *, purpose: int) -> list[torch.Generator]:
    """A generator per seed for data; ``purpose`` (0 for training, 1 for tests, ...) keeps their streams apart."""
    spread = 1_000_003  # a prime far above any number of purposes, so that no two pairs share a stream
    return [torch.Generator(device).manual_seed(spread * (purpose + 1) + seed) for seed in seeds]


def sample_streams(task: Task, count: int, generators: Sequence[torch.Generator]) -> TaskBatch:
    """``count`` inputs from every generator; each field leads with the stream ``[seed, ...]``."""
    drawn = [task.sample(count, generator) for generator in generators]
    return TaskBatch(*(torch.stack(field) for field in zip(*drawn, strict=True)))

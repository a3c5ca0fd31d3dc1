"""Attention-only models with one layer and one head, trained as one batched ensemble.

The set-up follows Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*: one layer,
one head, rotary angles chosen by the experimenter, nothing but attention between embedding and read-out. The paper's
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

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_core.metrics._rope import rotate, split_planes
from posym_core.models._ensembles import Ensemble
from posym_core.tasks._index_retrieval import Task


class ToyEnsemble(Ensemble):
    """Independent toy models, one for each seed and each variant of the angles.

    Speed: with one layer a token is seen only through its embedding, so the *table* of embeddings is projected once a
    step, queries and keys are looked up in it, and attention is collected onto token parts before the read-out. The
    variant is the last dimension of all large tensors: look-ups and sums then run over contiguous rows.

    Args:
        task: decides vocabulary, length and classes.
        angles: ``[variant, plane]``, radians per position; 0 is a plane without rotation.
        seeds: one per group of members; decides initial weights.
        width: dimension of token embeddings.
    """

    shape = ("variant", "plane")
    token_parts: Tensor

    def __init__(self, task: Task, angles: Float[Tensor, "variant plane"], *, seeds: Sequence[int], width: int = 64):
        super().__init__(task, angles, seeds=seeds, width=width)
        self.register_buffer("token_parts", task.parts(torch.arange(task.vocabulary)), persistent=False)
        initial = self.initializer()
        self.embedding = initial(task.part_vocabulary, width, spread=1.0)
        # Half the usual spread: strong random matches at the start trap fast heads in poor minima.
        self.query_map = initial(width, self.dim, spread=0.5 * width**-0.5)
        self.key_map = initial(width, self.dim, spread=0.5 * width**-0.5)
        self.read_map = initial(width, task.classes, spread=width**-0.5)

    def query_table(self) -> Float[Tensor, "seed variant query dim"]:
        """Return the unrotated query of every query token."""
        parts = self.embedding @ self.query_map
        return parts[:, :, self.token_parts[self.task.context_vocabulary :]].sum(3)

    def key_table(self) -> Float[Tensor, "seed variant token dim"]:
        """Return the unrotated key of every token of the vocabulary."""
        return (self.embedding @ self.key_map)[:, :, self.token_parts].sum(3)

    def logits(
        self, tokens: Int64[Tensor, "seed input token"], gates: Float[Tensor, " plane"] | None = None
    ) -> Float[Tensor, "seed input token variant"]:
        """Return the logits of the last token's query against all tokens."""
        self.require_tokens(tokens, more_than=1)
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
        queries = turned.reshape(seeds * self.task.queries, -1).index_select(0, query_row.flatten())
        shape = (seeds, inputs, slots, self.dim, variants)
        return (queries.view(shape) * looked_up.view(shape)).sum(3) * self.scale

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

    def query_and_keys(
        self, tokens: Int64[Tensor, "seed input token"], variant: int
    ) -> tuple[Float[Tensor, "seed input dim"], Float[Tensor, "seed input token dim"]]:
        """Return the last token's query and all tokens' keys, rotated to their positions.

        Pass ``scale=self.scale`` and ``angles=self.angles[variant]`` along with them; the pairing is ``"halves"``.
        """
        self.require_tokens(tokens, more_than=1)
        last = tokens.shape[-1] - 1
        seed = torch.arange(tokens.shape[0], device=tokens.device)
        query = self.query_table()[seed[:, None], variant, tokens[:, :, -1] - self.task.context_vocabulary]
        keys = self.key_table()[seed[:, None, None], variant, tokens]
        positions = torch.arange(last + 1, device=tokens.device)
        angles = self.angles[variant]
        return rotate(query, last, angles), rotate(keys, positions, angles)

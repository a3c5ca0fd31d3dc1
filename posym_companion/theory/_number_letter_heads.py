"""One hop by hand: Index, Retrieval and Reflexive as programs, and as heads with a single rotation plane.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 4: with ``layers`` layers a path of
``hops`` hops is walked by ``hops`` times Index (Number) or Retrieval (Letter) and Reflexive ever after. Theorem 3.1
builds a head of one plane for each; limits of where these work are in ``_number_letter_limits``.

A program maps whole sequences to whole sequences: every token asks those at and before its own position, and becomes
the token that it found. Positions count from 0. A token that points nowhere stays what it is in a program; what a
head makes of it is not defined.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from posym_companion.theory._index_retrieval_heads import MOST_INPUTS, one_hot
from posym_core.metrics._rope import rotate
from posym_core.tasks._number_letter import LetterTask, NumberTask
from posym_core.tasks._number_letter_programs import _check_tokens, split_letters

# Heads


class HopHead(nn.Module):
    """A causal head with one rotation plane; subclasses say as angles where queries and keys point before rotation.

    The logit of key ``j`` for query ``n`` is ``beta cos(n angle + query phase - j angle - key phase)``.
    """

    def __init__(self, task: NumberTask | LetterTask, *, angle: float, beta: float):
        super().__init__()
        self.task, self.angle, self.beta = task, angle, beta

    def query_phase(self, tokens: Tensor) -> Float[Tensor, "sequence token"]:
        """Return the direction of unrotated queries, radians."""
        return torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)

    def key_phase(self, tokens: Tensor) -> Float[Tensor, "sequence token"]:
        """Return the direction of unrotated keys, radians."""
        return torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)

    def queries(self, tokens: Int64[Tensor, "sequence token"]) -> Float[Tensor, "sequence token 2"]:
        """Return all tokens' queries, of length ``beta``, rotated to their positions."""
        return self.beta * self._rotated(self.query_phase(tokens))

    def keys(self, tokens: Int64[Tensor, "sequence token"]) -> Float[Tensor, "sequence token 2"]:
        """Return unit keys of all tokens, rotated to their positions."""
        return self._rotated(self.key_phase(tokens))

    def _rotated(self, phase: Tensor) -> Tensor:
        unit = torch.stack([phase.cos(), phase.sin()], dim=-1)
        positions = torch.arange(phase.shape[1], device=phase.device)
        return rotate(unit, positions, torch.tensor([self.angle], dtype=torch.float64))

    def attention(self, tokens: Int64[Tensor, "sequence token"]) -> Float[Tensor, "sequence query key"]:
        """Return the causal attention of every token to those at and before its own position."""
        _check_tokens(tokens, self.task)
        logits = self.queries(tokens) @ self.keys(tokens).transpose(-1, -2)
        future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=tokens.device).triu(1)
        return logits.masked_fill(future, -math.inf).softmax(-1)

    def forward(self, tokens: Int64[Tensor, "sequence token"]) -> Float[Tensor, "sequence token vocabulary"]:
        """Return the layer's output for every token, read as scores of one-hot tokens."""
        return self.attention(tokens) @ one_hot(tokens, self.task.vocabulary)

    def step(self, tokens: Int64[Tensor, "sequence token"]) -> Int64[Tensor, "sequence token"]:
        """Replace every token by that of its highest score: the layer as a map from sequences to sequences."""
        return self(tokens).argmax(-1)


class IndexHead(HopHead):
    """Selective Index, Theorem 3.1: all keys are one vector; integer ``s`` turns its query back by ``s`` positions.

    Values are twice the one-hot token for letters and 0 for integers, and the layer keeps what came in. So an integer
    gives way only where more than half of its attention goes to one letter.

    Works exactly for ``beta`` above :func:`find_index_beta`.
    """

    task: NumberTask

    def query_phase(self, tokens: Tensor) -> Tensor:
        return -(tokens - self.task.letters + 1).clamp_min(0).double() * self.angle

    def forward(self, tokens: Int64[Tensor, "sequence token"]) -> Float[Tensor, "sequence token vocabulary"]:
        plain = one_hot(tokens, self.task.vocabulary)
        values = 2 * plain
        values[..., self.task.letters :] = 0
        return plain + self.attention(tokens) @ values


class RetrievalHead(HopHead):
    """Retrieval, Theorem 3.1: letters are directions ``2 pi / alphabet`` apart on one circle.

    A key points where its left letter says, the query of a pair of letters where its right letter says and that of a
    pair with an integer where its left letter says, so that the latter finds itself. Values are one-hot tokens, and
    nothing else enters the output.

    Works exactly for ``beta`` above :func:`find_retrieval_beta` for pairs of letters, and above
    :func:`find_reflexive_beta` for pairs with an integer.
    """

    task: LetterTask

    def query_phase(self, tokens: Tensor) -> Tensor:
        left, right = split_letters(tokens, self.task)
        return -torch.where(right < 0, left, right).double() * (2 * math.pi / self.task.alphabet)

    def key_phase(self, tokens: Tensor) -> Tensor:
        return -split_letters(tokens, self.task)[0].double() * (2 * math.pi / self.task.alphabet)


class ReflexiveHead(HopHead):
    """Reflexive: queries and keys are one vector, so that every token attends to itself most. Values are one-hot.

    Works exactly for ``beta`` above :func:`find_reflexive_beta`.
    """


def is_hop_right(
    head: HopHead, tokens: Int64[Tensor, "sequence token"], expected: Int64[Tensor, "sequence token"]
) -> Bool[Tensor, "sequence token"]:
    """Return where the expected token's score is strictly the highest; a tie is wrong."""
    scores = head(tokens)
    best = scores.gather(-1, expected[..., None])
    return (best > scores.scatter(-1, expected[..., None], -math.inf).amax(-1, keepdim=True))[..., 0]


def list_sequences(task: NumberTask | LetterTask, length: int) -> Int64[Tensor, "sequence token"]:
    """List all sequences of ``length`` tokens of a task's vocabulary, whether :func:`is_valid` or not."""
    if task.vocabulary**length > MOST_INPUTS:
        raise ValueError(
            f"{length} tokens out of {task.vocabulary} make {task.vocabulary**length} sequences but at most "
            f"{MOST_INPUTS} are listed; pass a smaller task or length, or draw sequences"
        )
    return torch.cartesian_prod(*[torch.arange(task.vocabulary)] * length).reshape(-1, length)

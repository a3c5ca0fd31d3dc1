"""Base of all positional encodings of one attention layer.

An encoding says how the position of a token enters attention. It may add something to the embeddings, change queries
and keys, add to logits, or act on the attention weights. Each one here is a module for one layer that turns *plain*
queries and keys (projections of the layer's inputs, nothing turned or added) into logits, and that gives the
cross-logit matrix ``C[a, b]``, the logit of content ``a`` placed at position ``b``, wherever there is such a thing: if
a logit depends on the query with its position, the key's content and the key's position, and on nothing else.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core._checks import Checks, require_counts, require_finite, require_floating, require_same_kind


class UndefinedCrossLogits(ValueError):
    """The logit of a content at a position is not a number of its own under this encoding; the message says why."""


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """Sizes of the attention layer that an encoding serves.

    Attributes:
        heads: number of heads.
        dim: dimensions of a head's queries and keys.
        width: of the layer's inputs; by default ``heads * dim``.
        length: longest sequence, for encodings that keep a table of positions or distances.
        causal: whether a token sees only itself and what stands before it.
        scale: factor of the dot products of queries and keys; by default ``dim ** -0.5``.
    """

    heads: int
    dim: int
    width: int = 0
    length: int = 512
    causal: bool = True
    scale: float = 0.0

    def __post_init__(self):
        require_counts(heads=(self.heads, 1), dim=(self.dim, 1), width=(self.width, 0), length=(self.length, 1))
        if not 0 <= self.scale < math.inf:
            raise ValueError(f"scale must be a positive finite number, or 0 for dim ** -0.5; got {self.scale}")
        if not self.width:
            object.__setattr__(self, "width", self.heads * self.dim)
        if not self.scale:
            object.__setattr__(self, "scale", self.dim**-0.5)


@dataclass(frozen=True)
class LayerInputs:
    """Inputs of some encodings beside queries and keys; see :meth:`Encoding.cross_logits`."""

    content: Float[Tensor, "*#batch token width"] | None
    key_map: Float[Tensor, "head width dim"] | None


class Encoding(nn.Module):
    """One layer's positional encoding; the base class itself encodes nothing.

    Attributes:
        shape: sizes of the layer.
        source: paper and equation.
        relative: whether logits depend on positions only through their differences.
        needs_content: whether logits need the layer's inputs beside queries and keys.
        path_dependent: whether a logit depends on the tokens between the two that it joins.
    """

    source: str = ""
    relative: bool = True
    needs_content: bool = False
    path_dependent: bool = False

    def __init__(self, shape: LayerShape):
        super().__init__()
        self.shape = shape

    def redraw(self) -> None:
        """Draw all parameters again, normal and in float64, so that each of them counts."""
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, dtype=torch.float64).to(parameter.device)

    def embed(
        self, inputs: Float[Tensor, "*batch token width"], positions: Tensor | None = None
    ) -> Float[Tensor, "*batch token width"]:
        """Return the layer's inputs with what the encoding adds to them; most add nothing.

        Args:
            inputs: embeddings without positions.
            positions: ``[token]``; by default 0, 1, 2 and so on.
        """
        return inputs

    def logits(
        self,
        query: Float[Tensor, "*#batch head token dim"],
        key: Float[Tensor, "*#batch keyhead token dim"],
        *,
        positions: Tensor | None = None,
        content: Float[Tensor, "*#batch token width"] | None = None,
    ) -> Float[Tensor, "*#batch head token key"]:
        """Return the logits of all tokens' queries against all tokens' keys.

        Args:
            query: plain queries.
            key: plain keys; one head, or as many as there are queries' heads.
            positions: ``[token]``, of the tokens, in any order; by default 0, 1, 2 and so on.
            content: the layer's inputs, for encodings with ``needs_content``.

        Returns:
            Logits of ``query``'s dtype; ``-inf`` where a causal layer does not look.
        """
        tokens = query.shape[-2] if query.ndim > 1 else 0
        positions = self._check(query, key, positions, tokens)
        if self.needs_content:
            self._check_content(content, tokens)
        logits = self._logits(query, key, positions, content)
        if not self.shape.causal:
            return logits
        return logits.masked_fill(positions > positions[:, None], -math.inf)

    def attention(
        self, logits: Float[Tensor, "*batch head token key"], *, positions: Tensor | None = None
    ) -> Float[Tensor, "*#batch head token key"]:
        """Return the attention weights of logits: their softmax, unless an encoding acts on the weights."""
        return logits.softmax(-1)

    def cross_logits(
        self,
        query: Float[Tensor, "*#batch head dim"],
        keys: Float[Tensor, "*#batch keyhead content dim"],
        *,
        position: float | None = None,
        positions: Tensor | None = None,
        content: Float[Tensor, "*#batch token width"] | None = None,
        key_map: Float[Tensor, "head width dim"] | None = None,
    ) -> Float[Tensor, "*#batch head content position"]:
        """Return the logit of every content at every position, ``C[a, b]``, for one query per head.

        Args:
            query: plain query; where an encoding adds to embeddings, the query of the input with that addition.
            keys: plain keys of the contents; where an encoding adds to embeddings, of the inputs *without* it.
            position: of the query; by default one behind the last of ``positions``.
            positions: ``[position]``, where contents may stand; by default 0, 1, 2 and so on, as many as contents.
            content: layer's inputs of the contents and, last, of the query, for encodings with ``needs_content``.
            key_map: of the layer, for encodings that add to embeddings: what they add reaches keys through it.

        Returns:
            ``C`` of ``query``'s dtype.

        Raises:
            UndefinedCrossLogits: if no such matrix describes the encoding.
            ValueError: if shapes do not fit, something needed is missing, or an input is NaN or infinite.
        """
        if self.path_dependent:
            raise UndefinedCrossLogits(
                f"under {type(self).__name__} a logit depends on all tokens between key and query, so there is no "
                "logit of a content at a position; look at EncodedHeads.permuted_logits"
            )
        if query.ndim < 2:
            raise ValueError(f"query must have shape [..., head, dim]; got {tuple(query.shape)}")
        number = keys.shape[-2] if keys.ndim > 1 else 0
        positions = self._check(query[..., None, :], keys, positions, number)
        if self.needs_content:
            self._check_content(content, number + 1)
        at = torch.as_tensor(float(positions[-1]) + 1 if position is None else position, dtype=torch.float64)
        require_exact("position", at)
        return self._cross_logits(query, keys, at.to(keys.device), positions, LayerInputs(content, key_map))

    def _logits(self, query: Tensor, key: Tensor, positions: Tensor, content: Tensor | None) -> Tensor:
        return self.content_logits(query, key)

    @abstractmethod
    def _cross_logits(self, query: Tensor, keys: Tensor, at: Tensor, places: Tensor, inputs: LayerInputs) -> Tensor:
        """Return ``C`` of a query that stands ``at`` a position and of keys at ``places``."""
        raise NotImplementedError

    def content_logits(
        self, query: Float[Tensor, "*#batch head token dim"], key: Float[Tensor, "*#batch keyhead key dim"]
    ) -> Float[Tensor, "*#batch head token key"]:
        """Return the scaled dot products, before any position."""
        return self.shape.scale * query @ key.transpose(-1, -2)

    def content_row(
        self, query: Float[Tensor, "*#batch head dim"], keys: Float[Tensor, "*#batch keyhead key dim"]
    ) -> Float[Tensor, "*#batch head key"]:
        """Return the same for one query per head."""
        return self.content_logits(query[..., None, :], keys)[..., 0, :]

    def _check(self, query: Tensor, key: Tensor, positions: Tensor | None, tokens: int) -> Float[Tensor, " token"]:
        """Return positions in float64; refuse what does not fit."""
        shape = self.shape
        require_same_kind(query, key)
        keys = ((1, tokens, shape.dim), (shape.heads, tokens, shape.dim))
        if query.shape[-3::2] != (shape.heads, shape.dim) or key.shape[-3:] not in keys or tokens < 1:
            raise ValueError(
                f"queries and keys must have shape [..., {shape.heads} heads, token, {shape.dim}], with one key per "
                f"token and at least one; got {tuple(query.shape)} and {tuple(key.shape)}"
            )
        with Checks() as check:
            size, other = check.finite_magnitude("query", query), check.finite_magnitude("key", key)
            check.room("queries", size, query.dtype)
            check.room("keys", other, query.dtype)
            # Some encodings lengthen vectors: magnitudes of PoPE are softplus(x) <= |x| + 1, each in two dimensions.
            check.room("logits", 2 * shape.dim * shape.scale * (size + 1) * (other + 1), query.dtype)
        return check_positions(positions, tokens, query.device)

    def _check_content(self, content: Tensor | None, tokens: int) -> None:
        if content is None or tuple(content.shape[-2:]) != (tokens, self.shape.width):
            given = "none" if content is None else f"{tuple(content.shape)}"
            raise ValueError(
                f"{type(self).__name__} draws on the layer's inputs; pass content of shape [..., {tokens}, "
                f"{self.shape.width}], got {given}"
            )
        require_floating("content", content)
        require_finite("content", content)


def check_positions(positions: Tensor | None, tokens: int, device: torch.device) -> Float[Tensor, " token"]:
    """Return positions in float64, by default 0 to ``tokens - 1``; refuse what does not fit."""
    if positions is None:
        return torch.arange(tokens, dtype=torch.float64, device=device)
    positions = torch.as_tensor(positions, dtype=torch.float64, device=device)
    if tuple(positions.shape) != (tokens,):
        raise ValueError(f"positions must have shape [{tokens}], one per token; got {tuple(positions.shape)}")
    require_exact("positions", positions)
    return positions


def require_exact(name: str, positions: Tensor) -> None:
    """Raise if a position is NaN or infinite, or float64 cannot tell it from its neighbours."""
    with Checks() as check:
        most = check.finite_magnitude(name, positions)
        check(most <= 2**53, lambda: f"{name} must lie within 2**53, where float64 counts exactly; got {most:.1e}")


def require_whole(name: str, positions: Tensor) -> None:
    """Raise if a position lies between the whole numbers."""
    if not torch.equal(positions, positions.round()):
        raise ValueError(f"{name} are defined at whole positions only; got {positions.tolist()}")


def order_by_position(positions: Float[Tensor, " token"], what: str) -> Int64[Tensor, " token"]:
    """Return the order of tokens by position; refuse gaps, over which nothing builds up token by token."""
    order = positions.argsort()
    if not torch.equal(positions[order].diff(), torch.ones_like(positions[1:])):
        raise ValueError(f"{what} token by token, so positions must be consecutive; got {positions.tolist()}")
    return order

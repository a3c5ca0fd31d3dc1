"""Encodings that move queries and keys by their position and let only the difference count.

``placed(x, position)`` is the query or key as it stands at a position. For RoPE it is turned plane by plane, for RollPE
its entries are shifted, for PoPE a magnitude gets a phase. In each case moving both by the same amount changes no
logit, so a key at ``b`` met by a query at ``i`` is a key at 0 met by a query at ``i - b``, and all of ``C`` is one
matrix product.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core._checks import require_finite
from posym_core.encodings._base import Encoding, LayerShape, require_whole
from posym_core.metrics._rope import Pairing, fit_angles, join_planes, rope_angles, rotate_unchecked, split_planes


class Placed(Encoding):
    """Common part of rotary encodings; subclasses give :meth:`placed`."""

    @abstractmethod
    def placed(
        self, x: Float[Tensor, "*batch token dim"], positions: Float[Tensor, " token"], *, keys: bool
    ) -> Float[Tensor, "*batch token placed"]:
        """Return queries, or with ``keys`` keys, as they stand at their positions."""
        raise NotImplementedError

    def _logits(self, query, key, positions, content):
        query, key = self.placed(query, positions, keys=False), self.placed(key, positions, keys=True)
        return self.content_logits(query, key)

    def _cross_logits(self, query, keys, at, places, inputs):
        seen = query[..., None, :].expand(*query.shape[:-1], len(places), query.shape[-1])
        seen = self.placed(seen, at - places, keys=False)
        home = self.placed(keys, torch.zeros(keys.shape[-2], dtype=torch.float64, device=keys.device), keys=True)
        return self.content_logits(home, seen)


class TokenPhases(Encoding):
    """Common part of encodings whose planes turn by phases that the tokens set; subclasses give :meth:`phases`."""

    needs_content = True

    @abstractmethod
    def phases(
        self, content: Float[Tensor, "*batch token width"], positions: Float[Tensor, " token"]
    ) -> Float[Tensor, "*batch head token plane"]:
        """Return the phase of every token at its position, float64."""
        raise NotImplementedError

    def _logits(self, query, key, positions, content):
        assert content is not None
        phases = self.phases(content, positions)
        return self.content_logits(rotate_by_phase(query, phases), rotate_by_phase(key, phases))


def rotate_by_phase(
    x: Float[Tensor, "*#batch dim"], phase: Float[Tensor, "*#batch plane"]
) -> Float[Tensor, "*#batch dim"]:
    """Turn every plane of ``x`` by a phase of its own."""
    cos, sin = phase.cos().to(x.dtype), phase.sin().to(x.dtype)
    first, second = split_planes(x, "halves")
    return join_planes(first * cos - second * sin, first * sin + second * cos, "halves")


class RoPE(Placed):
    """Every plane of two dimensions turns by its own angle per position.

    Args:
        shape: of the layer; ``dim`` must be even.
        base: ratio that sets the slowest plane; the longer the context, the larger it is chosen.
        angles: ``[dim / 2]`` in radians per position instead.
        pairing: which dimensions form a plane, see :func:`posym_core.rotate`.
    """

    source = "Su et al. (2021), RoFormer, equations 14-16"

    def __init__(
        self,
        shape: LayerShape,
        *,
        base: float = 10000.0,
        angles: Float[Tensor, " plane"] | None = None,
        pairing: Pairing = "halves",
    ):
        super().__init__(shape)
        angles = fit_angles(rope_angles(shape.dim, base) if angles is None else angles, shape.dim, pairing)
        require_finite("angles", angles)
        self.pairing: Pairing = pairing
        self.register_buffer("angles", angles, persistent=False)
        self.angles: Tensor

    def placed(self, x, positions, *, keys):
        return rotate_unchecked(x, positions, self.angles.to(positions), self.pairing)


class PRoPE(RoPE):
    """RoPE whose slowest planes stand still: with ``share`` 1 it is RoPE, with 0 it is NoPE.

    Args:
        shape: of the layer; ``dim`` must be even.
        share: part of the planes that turn, the fastest ones; rounded down to whole planes.
        base: as for :class:`RoPE`.
    """

    source = "Barbero et al. (2025), Round and Round We Go! What Makes Rotary Positional Encodings Useful?"

    def __init__(self, shape: LayerShape, *, share: float = 0.75, base: float = 10000.0):
        _check_share(share)
        angles = rope_angles(shape.dim, base)
        # 0.7 * 10 is 7.000000000000001 in one order of factors and 6.999999999999999 in the other.
        angles[math.floor(share * len(angles) + 1e-9) :] = 0
        super().__init__(shape, angles=angles)
        self.share = share


class PartialRoPE(Placed):
    """RoPE on the first dimensions of a head only; the angles are those of a head of the rotated part's size.

    Args:
        shape: of the layer.
        share: part of the dimensions that is rotated; rounded down to an even number of at least 2.
        base: as for :class:`RoPE`.
        last: rotate the last dimensions instead of the first.
        pairing: which of the rotated dimensions form a plane.
    """

    source = "Black et al. (2022), GPT-NeoX-20B, section 2.1.1; first in GPT-J"

    def __init__(
        self,
        shape: LayerShape,
        *,
        share: float = 0.25,
        base: float = 10000.0,
        last: bool = False,
        pairing: Pairing = "halves",
    ):
        super().__init__(shape)
        _check_share(share)
        self.rotated = 2 * math.floor(share * shape.dim / 2 + 1e-9)
        if self.rotated < 2:
            raise ValueError(
                f"share={share} of {shape.dim} dimensions leaves no plane to rotate; pass a larger one, or use NoPE"
            )
        self.last = last
        self.pairing: Pairing = pairing
        self.register_buffer("angles", rope_angles(self.rotated, base), persistent=False)
        self.angles: Tensor

    def placed(self, x, positions, *, keys):
        still = self.shape.dim - self.rotated
        first, second = x.split([still, self.rotated] if self.last else [self.rotated, still], dim=-1)
        turned = rotate_unchecked(second if self.last else first, positions, self.angles.to(positions), self.pairing)
        return torch.cat([first, turned] if self.last else [turned, second], dim=-1)


class DecoupledRoPE(PartialRoPE):
    """The positional half of multi-head latent attention: content dimensions that stand still, then rotated ones.

    In DeepSeek's models the rotated part of the key is one for all heads, and content keys come out of a low-rank
    summary, as in the decoders of :mod:`posym_core.models`. Here the two parts of a head's logit add:
    ``q_still . k_still + (R_i q_turned) . (R_j k_turned)``.

    Args:
        shape: of the layer; its default scale is that of the whole head, both parts together, as published.
        share: part of the dimensions that is rotated; one third in DeepSeek-V2 (64 of 192).
        base: as for :class:`RoPE`.
    """

    source = "DeepSeek-AI (2024), DeepSeek-V2, section 2.1.3, equations 14-17"

    def __init__(self, shape: LayerShape, *, share: float = 0.5, base: float = 10000.0):
        super().__init__(shape, share=share, base=base, last=True, pairing="neighbours")


class RollPE(Placed):
    """The entries of queries and keys are shifted in a circle, by one place per position.

    Shifting is turning in the basis of the discrete Fourier transform, by the angles ``2 pi k / dim``. One plane stands
    still (the mean), and positions ``dim`` apart are the same position.
    """

    source = "van de Geijn et al. (2025), Do Traveling Waves Make Good Positional Encodings?, arXiv 2511.11668"

    def placed(self, x, positions, *, keys):
        require_whole("shifts", positions)
        dim = x.shape[-1]
        index = (torch.arange(dim, device=x.device) - positions.long()[:, None]) % dim
        return x.gather(-1, index.expand(x.shape))


class PoPE(Placed):
    """Content sets magnitudes, position sets phases: ``sum_c m(q_c) m(k_c) cos((j - i) theta_c + delta_c)``.

    ``m`` is softplus, so every frequency adds with a positive weight; there are ``dim`` of them,
    ``theta_c = base^(-c / dim)`` for ``c = 0 .. dim - 1``, and the phases ``delta`` are trained.

    Args:
        shape: of the layer.
        base: ratio that sets the slowest frequency.
    """

    source = "Gopalakrishnan et al. (2025), Decoupling the What and Where With Polar Coordinate Positional Embeddings"

    def __init__(self, shape: LayerShape, *, base: float = 10000.0):
        super().__init__(shape)
        self.register_buffer("angles", rope_angles(2 * shape.dim, base), persistent=False)
        self.angles: Tensor
        self.phases = nn.Parameter(torch.zeros(shape.heads, shape.dim))

    @property
    def delta(self) -> Float[Tensor, "head dim"]:
        """Return the phases, held within [-2 pi, 0] as published."""
        return self.phases.clamp(-2 * math.pi, 0)

    def placed(self, x, positions, *, keys):
        phase = positions[:, None] * self.angles.to(positions)
        if keys:
            phase = phase + self.delta.to(phase)[:, None]  # [head, token, dim]
        magnitude = nn.functional.softplus(x)
        return torch.cat([magnitude * phase.cos().to(x.dtype), magnitude * phase.sin().to(x.dtype)], dim=-1)


def _check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie in [0, 1]; got {share}")

"""TAPA: distance bends a wave whose frequency the query and the key set."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from posym_core._checks import Checks, measure_magnitude
from posym_core.encodings._base import Encoding, LayerShape


class TAPA(Encoding):
    """Logits ``q_A . k_A / sqrt(dim_A) cos(2 pi |i - j|^power q_P . k_P / sqrt(dim_P))``, phase by token.

    A head's first dimensions are amplitudes ``A``, the rest phases ``P``. Nothing is trained beyond queries and keys.
    Where ``q_P . k_P = 0`` distance plays no part.

    Args:
        shape: of the layer; its scale is that of a head of ``dim`` amplitudes, which fewer of them divide by the root
            of their part.
        share: part of the dimensions that are amplitudes, rounded down to whole ones; at least one of each kind.
        power: of the distance, above 0.
    """

    source = "Wang et al. (2025), Positional Encoding via Token-Aware Phase Attention, equation 12"

    def __init__(self, shape: LayerShape, *, share: float = 0.5, power: float = 0.1):
        super().__init__(shape)
        self.amplitudes = math.floor(share * shape.dim + 1e-9) if 0 <= share <= 1 else 0
        if not 0 < self.amplitudes < shape.dim:
            raise ValueError(
                f"share must leave amplitudes and phases at least one of {shape.dim} dimensions each; got {share}"
            )
        if not 0 < power < math.inf:
            raise ValueError(f"power must be a positive finite number; got {power}")
        self.power = power

    def waves(
        self, query: Float[Tensor, "*#batch head row dim"], key: Float[Tensor, "*#batch keyhead key dim"]
    ) -> tuple[Float[Tensor, "*#batch head row key"], Float[Tensor, "*#batch head row key"]]:
        """Return the amplitude of every pair, and its radians per distance to the power."""
        sizes = [self.amplitudes, self.shape.dim - self.amplitudes]
        (query_size, query_phase), (key_size, key_phase) = (x.split(sizes, dim=-1) for x in (query, key))
        scale = self.shape.scale * math.sqrt(self.shape.dim / sizes[0])
        turns = query_phase @ key_phase.transpose(-1, -2) / math.sqrt(sizes[1])
        return scale * query_size @ key_size.transpose(-1, -2), 2 * math.pi * turns

    def _logits(self, query, key, positions, content):
        return self._wave(*self.waves(query, key), positions - positions[:, None])

    def _cross_logits(self, query, keys, at, places, inputs):
        amplitude, rate = (x[..., 0, :, None] for x in self.waves(query[..., None, :], keys))
        return self._wave(amplitude, rate, places - at)

    def _wave(self, amplitude: Tensor, rate: Tensor, offset: Tensor) -> Tensor:
        stretched = offset.abs() ** self.power
        with Checks() as check:
            check.room("phases", measure_magnitude(stretched) * measure_magnitude(rate), rate.dtype)
        return amplitude * (stretched.to(rate.dtype) * rate).cos()

"""GRAPE: positions act on queries and keys as a group, by rotations with trained angles or by trained slopes.

``G(n + m) = G(n) G(m)``, so moving a query and a key by the same amount changes no logit. Rotations ``exp(n L)`` with
skew ``L`` have RoPE among them (:class:`MultiplicativeGRAPE`). ``I + n A`` with ``A^2 = 0``, on vectors to which a
constant coordinate was appended, adds a multiple of the distance to logits and has ALiBi among its forms
(:class:`AdditiveGRAPE`). The paper's path integrals, where every token between adds its own share, are left out.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core._checks import Checks, measure_magnitude
from posym_core.encodings._base import Encoding, LayerShape
from posym_core.encodings._bias import check_slopes
from posym_core.encodings._rotary import Placed
from posym_core.metrics._rope import rope_angles, rotate_unchecked


class MultiplicativeGRAPE(Placed):
    """``exp(n L)`` with one commuting generator a plane: RoPE whose angles are trained, and so it starts.

    The paper also trains the planes, as an orthogonal basis. A layer's maps of queries and keys can absorb any such
    basis, so planes here are RoPE's, as in the authors' model of this kind; all heads share the angles, as there.
    Angles stay above 0, but may grow to a whole turn, which stands still at whole positions.

    Args:
        shape: of the layer; ``dim`` must be even.
        base: ratio that sets the slowest plane at the start.
    """

    source = "Zhang et al. (2025), Group Representational Position Encoding, section 3.1"

    def __init__(self, shape: LayerShape, *, base: float = 10000.0):
        super().__init__(shape)
        # Kept apart from the parameter, so that it starts as RoPE in float64.
        self.register_buffer("begin", rope_angles(shape.dim, base).log(), persistent=False)
        self.begin: Tensor
        self.growth = nn.Parameter(torch.zeros(shape.dim // 2))

    @property
    def angles(self) -> Float[Tensor, " plane"]:
        """Radians per position, float64: RoPE's times the exponential of the trained ``growth``."""
        return (self.begin + self.growth).exp()

    def placed(self, x, positions, *, keys):
        return rotate_unchecked(x, positions, self.angles, "halves")


class AdditiveGRAPE(Encoding):
    """A slope that query and key set together: the logit of key ``j`` gets ``(j - i) w (v . q_i - u . k_j)``.

    Trained in every head: ``u`` and ``v``, drawn normal with variance ``1 / dim``, and ``w``, at first ALiBi's slope.
    With ``u = 0`` and one ``v . q`` for all queries it is ALiBi.

    Args:
        shape: of the layer. Without causal masking keys behind the query get the opposite sign.
        slopes: ``[head]``, ``w`` at the start; by default ALiBi's.
    """

    source = "Zhang et al. (2025), Group Representational Position Encoding, section 4.1"

    def __init__(self, shape: LayerShape, *, slopes: Float[Tensor, " head"] | None = None):
        super().__init__(shape)
        self.slopes = nn.Parameter(check_slopes(shape, slopes).to(torch.get_default_dtype()))
        self.query_gate = nn.Parameter(torch.randn(shape.heads, shape.dim) / math.sqrt(shape.dim))
        self.key_gate = nn.Parameter(torch.randn(shape.heads, shape.dim) / math.sqrt(shape.dim))

    def gates(
        self, query: Float[Tensor, "*#batch head token dim"], key: Float[Tensor, "*#batch keyhead key dim"]
    ) -> tuple[Float[Tensor, "*#batch head token"], Float[Tensor, "*#batch head key"]]:
        """Return ``w v . q`` of every query and ``w u . k`` of every key."""
        of_query, of_keys = (
            self.slopes[:, None] * (x * gate[:, None]).sum(-1)
            for x, gate in ((query, self.query_gate), (key, self.key_gate))
        )
        return of_query, of_keys

    def _logits(self, query, key, positions, content):
        of_query, of_keys = self.gates(query, key)
        offset = self._offset(positions - positions[:, None], of_query, of_keys)
        return self.content_logits(query, key) + offset * (of_query[..., None] - of_keys[..., None, :])

    def _cross_logits(self, query, keys, at, places, inputs):
        of_query, of_keys = self.gates(query[..., None, :], keys)
        offset = self._offset(places - at, of_query, of_keys)
        return self.content_row(query, keys)[..., None] + offset * (of_query - of_keys)[..., None]

    def _offset(self, offset: Tensor, of_query: Tensor, of_keys: Tensor) -> Tensor:
        """Return offsets in the gates' dtype; refuse slopes times offsets that it does not hold."""
        distance, gates = measure_magnitude(offset), measure_magnitude(of_query) + measure_magnitude(of_keys)
        with Checks() as check:
            check.room("slopes times distances", distance * gates, of_query.dtype)
        return offset.to(of_query.dtype)

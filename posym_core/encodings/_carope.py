"""CARoPE: every token brings its own frequency, and phases add up along the sequence."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core.encodings._base import LayerShape, order_by_position
from posym_core.encodings._rotary import TokenPhases, rotate_by_phase
from posym_core.metrics._rope import rope_angles


class CARoPE(TokenPhases):
    """RoPE whose fastest angle is replaced by a number that a token's content sets, per head.

    A token ``t`` contributes ``f(x_t)^c`` to the phase of plane ``c = 0 .. dim / 2 - 1``, with
    ``f(x) = 1 / (softplus(x . w_h + b_h) + 1)`` in (0, 1); the phase at position ``m`` is the sum over the tokens up
    to and including ``m``. With ``w = 0`` that is RoPE, and so it starts; the constant ``b_h`` that this takes is ours.

    As published, a logit depends on the frequencies of all tokens between key and query, so it is no function of the
    two with their positions: the definition of positional and symbolic heads does not cover it. What remains is the
    logits of the sequence after truly permuting it (:meth:`EncodedHeads.permuted_logits`). With ``accumulate=False``,
    a variant of ours, the phase is ``m f(x_m)^c``: a token's own frequency times its position. That has a ``C``, but
    depends on absolute positions wherever two tokens differ in frequency.

    Plane 0 turns by one radian per token whatever the content, because ``f^0 = 1``.

    Args:
        shape: of the layer; ``dim`` must be even.
        base: ratio of RoPE's angles at the start.
        accumulate: sum the frequencies of all tokens so far, as published.
    """

    source = "Veisi et al. (2025), Context-aware Rotary Position Embedding, section 2"

    def __init__(self, shape: LayerShape, *, base: float = 10000.0, accumulate: bool = True):
        super().__init__(shape)
        angles = rope_angles(shape.dim, base)
        self.path_dependent = accumulate
        self.relative = accumulate
        start = float(angles[1]) if len(angles) > 1 else base**-0.5
        needed = torch.tensor(1 / start - 1, dtype=torch.float64)
        # softplus(begin) = needed. Kept apart from the parameter, so that it starts as RoPE in float64.
        self.register_buffer("begin", needed + (-(-needed).expm1()).log(), persistent=False)
        self.begin: Tensor
        self.weight = nn.Parameter(torch.zeros(shape.heads, shape.width))
        self.constant = nn.Parameter(torch.zeros(shape.heads))
        self.register_buffer("powers", torch.arange(len(angles), dtype=torch.float64), persistent=False)
        self.powers: Tensor

    def frequencies(self, content: Float[Tensor, "*batch token width"]) -> Float[Tensor, "*batch head token plane"]:
        """Return the radians that every token adds to the phase of every plane; float64."""
        drive = content.double() @ self.weight.double().T + self.constant.double() + self.begin
        return (1 / (nn.functional.softplus(drive) + 1)).transpose(-1, -2)[..., None] ** self.powers.to(content.device)

    def phases(self, content, positions):
        steps = self.frequencies(content)
        if not self.path_dependent:
            return steps * positions[:, None]
        order = order_by_position(positions, "phases add up")
        return steps[..., order, :].cumsum(-2)[..., order.argsort(), :]

    def redraw(self) -> None:
        super().redraw()
        self.constant.data -= self.begin  # frequencies about the middle of (0, 1), where contents matter

    def _cross_logits(self, query, keys, at, places, inputs):
        assert inputs.content is not None
        steps = self.frequencies(inputs.content)
        phase = steps[..., :-1, None, :] * places[:, None]  # [..., head, content, position, plane]
        moved = rotate_by_phase(keys[..., None, :], phase)
        turned = rotate_by_phase(query, steps[..., -1, :] * at)
        return self.shape.scale * (moved @ turned[..., None, :, None])[..., 0]

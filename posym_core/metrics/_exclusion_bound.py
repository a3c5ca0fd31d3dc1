"""The positional-symbolic exclusion principle: how far a head is from either, and why it cannot be both.

Urrutia et al. (2026a), Theorem 1, for all ``m!`` permutations at once. What the paper bounds by a sum over
permutations is a sum over pairs of slots, because the permutations that send slot ``j`` to slot ``b`` number
``(m - 1)!`` whatever ``j`` and ``b`` are. The identity for the slack and the variance shares are this project's own
and are proved in the chapter on exclusion.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core._checks import Checks, require_floating


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """Positional and symbolic parts of a cross-logit matrix; every field has the batch's shape.

    Attributes:
        variance: variance of the logits ``C[j, j]`` over the ``m`` slots (divided by ``m``).
        bound: ``(|delta_pos|^2 + |delta_sym|^2) / (m! m)`` over all ``m!`` permutations; never below ``variance``.
        slack: ``bound - variance``, computed as the mean over all ``(a, b)`` of
            ``(2 C[a, b] - C[a, a] - C[b, b])^2 / 2`` and so free of cancellation; 0 exactly for additive heads.
        positional_share: part of the variance of ``C`` that depends on the position alone; 1 for positional heads.
        symbolic_share: part that depends on the content alone; 1 for symbolic heads.
        interaction_share: the rest. The three add up to 1; all are NaN where ``C`` is constant.
    """

    variance: Tensor
    bound: Tensor
    slack: Tensor
    positional_share: Tensor
    symbolic_share: Tensor
    interaction_share: Tensor


def exclusion(C: Float[Tensor, "*batch content position"]) -> Exclusion:
    """Return variance, bound, slack and variance shares of cross-logit matrices, ``O(m^2)`` each.

    Args:
        C: ``[..., content, position]``, square: the slots that take part in permutations (in the theory all keys
            before the query's own). float32 or float64; sums are formed in float64.

    Returns:
        An :class:`Exclusion` whose fields have ``C``'s leading dimensions and dtype. Shares are NaN where ``C`` is
        constant (all entries equal up to four units of rounding of its largest entry): a head that gives every
        content the same logit everywhere is positional and symbolic at once, and no share of nothing is defined.

    A positional head has constant columns:

    >>> shares = exclusion(torch.tensor([[1.0, 2.0], [1.0, 2.0]]))
    >>> shares.positional_share, shares.symbolic_share
    (tensor(1.), tensor(0.))
    """
    require_floating("C", C)
    if C.ndim < 2 or C.shape[-1] != C.shape[-2] or C.shape[-1] == 0:
        raise ValueError(
            f"C must have shape [..., content, position] with as many contents as positions; got {tuple(C.shape)}"
        )
    with Checks() as check:
        most = 4 * check.finite_magnitude("C", C)
        check.room("squares of differences in C", most * most, C.dtype)
    wide = C.double()
    logits = wide.diagonal(dim1=-2, dim2=-1)
    by_content, by_position = logits[..., :, None], logits[..., None, :]

    variance = (logits - logits.mean(-1, keepdim=True)).square().mean(-1)
    from_positional = (wide - by_position).square().mean((-2, -1))
    from_symbolic = (wide - by_content).square().mean((-2, -1))
    slack = (2 * wide - by_content - by_position).square().mean((-2, -1)) / 2

    largest = wide.abs().amax((-2, -1))
    spread = wide.amax((-2, -1)) - wide.amin((-2, -1))
    constant = spread <= 4 * torch.finfo(C.dtype).eps * largest
    # Shares do not depend on units, so the deviations are scaled to 1 before they are squared.
    deviation = (wide - wide.mean((-2, -1), keepdim=True)) / torch.where(constant, 1, spread)[..., None, None]
    content, position = deviation.mean(-1, keepdim=True), deviation.mean(-2, keepdim=True)
    parts = torch.stack(
        [
            position.square().mean((-2, -1)),
            content.square().mean((-2, -1)),
            (deviation - content - position).square().mean((-2, -1)),
        ]
    )
    shares = torch.where(constant, torch.nan, parts / torch.where(constant, 1, parts.sum(0)))
    return Exclusion(
        variance=variance.to(C.dtype),
        bound=(from_positional + from_symbolic).to(C.dtype),
        slack=slack.to(C.dtype),
        positional_share=shares[0].to(C.dtype),
        symbolic_share=shares[1].to(C.dtype),
        interaction_share=shares[2].to(C.dtype),
    )

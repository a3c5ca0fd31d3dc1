"""Order in the cross-logit matrix: how often contents change places from one position to another, and the reverse.

Du et al., *RoPE Distinguishes Neither Positions Nor Tokens in Long Contexts, Provably* (2026), ask whether a key that
beats another at one position beats it at the next, and whether near places are still preferred to far ones. Both are
questions about the order of the entries of ``C[content, position]``, not about their size. The symmetric form is this
project's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core._checks import require_finite, require_floating


@dataclass(frozen=True, kw_only=True)
class Inversions:
    """How often an order in ``C`` is turned round; every field has the batch's shape, float64.

    Attributes:
        contents: of two contents at two positions: the part of the cases in which one content has the higher logit at
            the first position and the other at the second. 0 for symbolic heads, 1/2 where signs are like coin tosses.
        positions: of two positions for two contents: the same with the roles exchanged. 0 for positional heads.
    """

    contents: Tensor
    positions: Tensor


def inversions(C: Float[Tensor, "*batch content position"]) -> Inversions:
    """Return inversions of contents and of positions, over all pairs of both; ties are none.

    Without ties the inversions of contents are ``(1 - tau) / 2`` with Kendall's ``tau`` between two columns, averaged
    over pairs of columns. They do not change when a strictly increasing function is applied to ``C``.

    Args:
        C: ``[..., content, position]``, at least two of each; positions may be any distances from the query.

    Returns:
        :class:`Inversions`; ``O(content^2 position + content position^2)``.

    Raises:
        ValueError: if there are fewer than two contents or positions, or ``C`` holds NaN or infinity.

    A head that adds what stands there to where it stands turns no order round:

    >>> inversions(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).contents
    tensor(0., dtype=torch.float64)
    """
    _require_matrix(C)
    return Inversions(contents=_inverted_rows(C), positions=_inverted_rows(C.transpose(-1, -2)))


def far_preferred(
    C: Float[Tensor, "*batch content position"], distance: Float[Tensor, " position"], *, factor: float = 2.0
) -> Float[Tensor, "*batch"]:
    """Return how often a content has a higher logit at a far position than at a near one; 1/2 without any bias.

    Args:
        C: ``[..., content, position]``.
        distance: from the query, one for each position, above 0.
        factor: a pair of positions counts if the far one is at least so many times as far as the near one.

    Returns:
        The part of all contents and pairs, float64; ties count one half.

    Raises:
        ValueError: if distances do not fit ``C`` or are not above 0, ``factor`` is not above 1, or no pair is so far
            apart.
    """
    _require_matrix(C)
    distance = torch.as_tensor(distance, dtype=torch.float64, device=C.device)
    if distance.shape != C.shape[-1:] or not bool((distance > 0).all()):
        raise ValueError(
            f"distance must hold one number above 0 for each of the {C.shape[-1]} positions; got shape "
            f"{tuple(distance.shape)}, least {float(distance.min()) if distance.numel() else 'none'}"
        )
    if not factor > 1:
        raise ValueError(f"factor must be above 1, so that far is farther than near; got {factor}")
    won, pairs = torch.zeros(C.shape[:-2], dtype=torch.float64, device=C.device), 0
    for near in range(len(distance)):
        far = distance >= factor * distance[near]
        gain = C[..., far] - C[..., near, None]
        won += ((gain > 0).sum((-1, -2)) + 0.5 * (gain == 0).sum((-1, -2))).double()
        pairs += int(far.sum())
    if pairs == 0:
        raise ValueError(f"no position is {factor:g} times as far as another; pass more distances or a smaller factor")
    return won / (pairs * C.shape[-2])


def _inverted_rows(C: Tensor) -> Tensor:
    """Over pairs of rows and pairs of columns, how often the rows' order differs between the columns."""
    rows, columns = C.shape[-2:]
    turned = torch.zeros(C.shape[:-2], dtype=torch.float64, device=C.device)
    for row in range(rows - 1):
        ahead = C[..., row : row + 1, :] - C[..., row + 1 :, :]
        turned += ((ahead > 0).sum(-1).double() * (ahead < 0).sum(-1)).sum(-1)
    return turned / (rows * (rows - 1) / 2 * columns * (columns - 1) / 2)


def _require_matrix(C: Tensor) -> None:
    require_floating("C", C)
    if C.ndim < 2 or min(C.shape[-2:]) < 2:
        raise ValueError(
            f"C must have shape [..., content, position] with two or more of each to compare; got {tuple(C.shape)}"
        )
    require_finite("C", C)

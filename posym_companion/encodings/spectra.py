"""Eigenvalues of Gram matrices under positions: products with kernels, and sums with biases.

Gu et al., *Deconstructing Positional Information* (2026), write logits as a Gram matrix of contents and look, in their
first version, at what positions do to it: an additive encoding adds a Toeplitz matrix, a rotation multiplies by one,
entry by entry. What holds for the product is a theorem of Bapat and Sunder (1985): with a *correlation matrix* ``T``
(positive semidefinite, ones on the diagonal) the eigenvalues of ``G * T`` are majorised by those of ``G``. Here are the
kernels, the eigenvalues, a check of majorisation with a stated tolerance, and the doubly stochastic matrix on which the
proof rests.

All functions take ``[..., n, n]``, real or complex Hermitian, and compute in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Complex, Float, Inexact
from torch import Tensor

from posym_core._checks import require_finite

# Eigenvalues of an n x n matrix come with an error of about n * eps times the largest; a sum of k of them with k times
# that. The factor leaves room for the matrix itself having been rounded.
ROUNDING = 8 * torch.finfo(torch.float64).eps
# How far a diagonal may be from 1, and a matrix from being its own adjoint, relative to the largest entry.
SYMMETRY = 1e-6


@dataclass(frozen=True, kw_only=True)
class Majorisation:
    """Majorisation of one spectrum by another; every field has the batch's shape.

    Attributes:
        excess: largest amount by which a sum of the ``k`` largest of the first exceeds that of the second, over
            ``k``; 0 or less where the sums never do.
        sum_gap: sum of the first minus sum of the second.
        tolerance: what rounding can make of both.
        holds: no excess, and, unless asked for weak majorisation, no gap, beyond the tolerance.
    """

    excess: Float[Tensor, "*batch"]
    sum_gap: Float[Tensor, "*batch"]
    tolerance: Float[Tensor, "*batch"]
    holds: Bool[Tensor, "*batch"]


def eigenvalues(matrix: Inexact[Tensor, "*batch n n"]) -> Float[Tensor, "*batch n"]:
    """Return eigenvalues of Hermitian matrices, largest first.

    >>> eigenvalues(torch.tensor([[2.0, 1.0], [1.0, 2.0]])).tolist()
    [3.0, 1.0]
    """
    return torch.linalg.eigvalsh(_hermitian("matrix", matrix)).flip(-1)


def singular_values(matrix: Inexact[Tensor, "*batch m n"]) -> Float[Tensor, "*batch k"]:
    """Return singular values, largest first, for matrices that are not Hermitian, such as query-key logits."""
    return torch.linalg.svdvals(_double("matrix", matrix))


def majorisation(
    first: Float[Tensor, "*batch n"], second: Float[Tensor, "*batch n"], *, weak: bool = False
) -> Majorisation:
    """Test if ``first`` is majorised by ``second``: no sum of its ``k`` largest is larger, and the whole sums agree.

    If ``weak`` these may differ; values stand in any order.

    >>> majorisation(torch.tensor([2.0, 2.0]), torch.tensor([3.0, 1.0])).holds
    tensor(True)
    """
    if first.ndim == 0 or second.ndim == 0 or first.shape[-1] != second.shape[-1]:
        raise ValueError(
            f"two spectra are compared value by value and must hold equally many; got {tuple(first.shape)} and "
            f"{tuple(second.shape)}"
        )
    require_finite("first", first)
    require_finite("second", second)
    first, second = first.double(), second.double()
    gap = (first.sort(descending=True).values.cumsum(-1) - second.sort(descending=True).values.cumsum(-1)).nan_to_num()
    n = first.shape[-1]
    largest = torch.maximum(first.abs().amax(-1), second.abs().amax(-1))
    tolerance = ROUNDING * n**2 * largest
    excess, sum_gap = gap.amax(-1), gap[..., -1]
    holds = excess <= tolerance
    return Majorisation(
        excess=excess,
        sum_gap=sum_gap,
        tolerance=tolerance,
        holds=holds if weak else holds & (sum_gap.abs() <= tolerance),
    )


def rope_kernels(angles: Float[Tensor, " plane"], positions: int | Float[Tensor, " n"]) -> Complex[Tensor, "plane n n"]:
    """Return a matrix per plane, ``exp(i theta (a - b))`` for positions ``a`` and ``b``: Hermitian, Toeplitz, rank one.

    Args:
        angles: radians per position.
        positions: how many from 0, or the positions themselves.
    """
    angles = torch.as_tensor(angles).double()
    require_finite("angles", angles)
    phase = angles[:, None, None] * _offsets(positions, angles.device)
    return torch.polar(torch.ones_like(phase), phase)


def averaged_kernel(
    angles: Float[Tensor, " plane"],
    positions: int | Float[Tensor, " n"],
    weights: Float[Tensor, " plane"] | None = None,
) -> Float[Tensor, "n n"]:
    """Return the correlation matrix ``sum_k w_k cos(theta_k (a - b))``, the mean of :func:`rope_kernels`' real parts.

    Positions are given, or how many there are from 0; weights are scaled to sum 1, and alike by default.

    >>> averaged_kernel(torch.tensor([0.0, torch.pi / 2]), 3)[0].round(decimals=6).abs().tolist()
    [1.0, 0.5, 0.0]
    """
    angles = torch.as_tensor(angles).double()
    require_finite("angles", angles)
    weights = torch.ones_like(angles) if weights is None else torch.as_tensor(weights).double()
    if weights.shape != angles.shape or not (weights >= 0).all() or not weights.sum() > 0:
        raise ValueError(
            f"weights must be one number per angle, none below 0 and one above; got {weights.tolist()} for "
            f"{len(angles)} angles"
        )
    waves = (angles[:, None, None] * _offsets(positions, angles.device)).cos()
    return ((weights / weights.sum())[:, None, None] * waves).sum(0)


def kernel_product(
    gram: Inexact[Tensor, "*batch n n"], kernel: Inexact[Tensor, "*batch n n"]
) -> Inexact[Tensor, "*batch n n"]:
    """Return the product ``gram * kernel``, entry by entry, of a Hermitian matrix with a correlation matrix.

    Its eigenvalues are majorised by those of ``gram``; so for a positive semidefinite ``gram`` the largest falls, the
    smallest rises and the condition number falls, or they stay.
    """
    return _hermitian("gram", gram) * require_correlation(kernel)


def require_correlation(kernel: Inexact[Tensor, "*batch n n"]) -> Inexact[Tensor, "*batch n n"]:
    """Return the kernel in double precision, if it is positive semidefinite with ones on the diagonal, or raise."""
    kernel = _hermitian("kernel", kernel)
    off = float((kernel.diagonal(dim1=-2, dim2=-1).real - 1).abs().amax())
    if off > SYMMETRY:
        raise ValueError(f"a correlation matrix has ones on its diagonal; this one is off by {off:.3g}. Divide by it")
    least = float(torch.linalg.eigvalsh(kernel)[..., 0].min())
    if least < -SYMMETRY * kernel.shape[-1]:
        raise ValueError(
            f"a correlation matrix is positive semidefinite; this one has the eigenvalue {least:.3g}, and products "
            "with it need not contract anything"
        )
    return kernel


def _offsets(positions: int | Tensor, device: torch.device) -> Float[Tensor, "n n"]:
    places = torch.arange(positions) if isinstance(positions, int) else torch.as_tensor(positions)
    places = places.to(device, torch.float64)
    if places.ndim != 1 or len(places) == 0:
        raise ValueError(f"positions must be a number above 0 or a row of positions; got shape {tuple(places.shape)}")
    require_finite("positions", places)
    return places[:, None] - places


def _double(name: str, x: Tensor) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch tensor; got {type(x).__name__}. Use torch.as_tensor")
    if not (x.is_floating_point() or x.is_complex()):
        raise TypeError(f"{name} must be real or complex floating point; got {x.dtype}. Convert with {name}.double()")
    if x.ndim < 2:
        raise ValueError(f"{name} must have shape [..., rows, columns]; got {tuple(x.shape)}")
    require_finite(name, x)
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def _hermitian(name: str, x: Tensor) -> Tensor:
    x = _double(name, x)
    if x.shape[-1] != x.shape[-2] or x.shape[-1] == 0:
        raise ValueError(f"{name} must be square; got {tuple(x.shape)}")
    off = (x - x.mH).abs().amax((-2, -1))
    if (off > SYMMETRY * x.abs().amax((-2, -1))).any():
        raise ValueError(
            f"{name} must be its own conjugate transpose, as Gram matrices are; entries differ by up to "
            f"{float(off.max()):.3g}. Logits of queries with keys are not: use singular_values"
        )
    return (x + x.mH) / 2

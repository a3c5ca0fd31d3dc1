"""Queries and keys as arrows in a rotation plane: do keys share a direction, and where does the query point?

A plane's part of a query or key is a complex number. Turned back to position 0, a key is what the *token* contributes;
where the token stands is in the rotation alone. If all keys of a plane are one arrow ``k``, the logit of a key at
distance ``D`` from the query ``q`` is ``Re(q conj(k) exp(i angle D)) = |q| |k| cos(angle (D - D*))``: a wave over the
distance, whose crest ``D*`` is the phase by which the query trails the keys, over the angle. This is the head of
Theorem 3 in Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*, who report to find
it in trained heads. The measures are this project's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from posym_core._checks import require_finite, require_floating
from posym_core.metrics import Pairing, rotate, split_planes


def unrotated_planes(
    x: Float[Tensor, "*batch dim"],
    positions: Tensor | float,
    angles: Float[Tensor, " plane"],
    *,
    pairing: Pairing = "halves",
) -> Complex[Tensor, "*batch plane"]:
    """Return planes of rotated queries or keys, turned back to position 0, as complex128.

    >>> arrow = unrotated_planes(torch.tensor([0.0, 2.0]), 1, torch.tensor([torch.pi / 2]))
    >>> round(arrow.real.item(), 6), round(abs(arrow.imag.item()), 6)
    (2.0, 0.0)
    """
    require_floating("x", x)
    back = rotate(x.double(), -torch.as_tensor(positions, dtype=torch.float64), angles, pairing=pairing)
    return torch.complex(*split_planes(back, pairing))


def concentration(arrows: Complex[Tensor, "*batch arrow"], *, weighted: bool = True) -> Float[Tensor, "*batch"]:
    """Return the resultant length of directions: 1 if all arrows point one way, near 0 if they lie all around.

    Weighted: ``|sum of arrows| / sum of |arrows|``, so that an arrow counts by its length, as it does in a logit.
    Unweighted: the mean resultant length of directional statistics, one minus the circular variance.

    Directions drawn at random give about ``sqrt(pi / (4 arrows))``, not 0.

    >>> concentration(torch.tensor([2 + 0j, 1j])).round(decimals=4)
    tensor(0.7454)
    >>> concentration(torch.tensor([2 + 0j, 1j]), weighted=False).round(decimals=4)
    tensor(0.7071)
    """
    arrows = _arrows("arrows", arrows)
    if not weighted:
        return (arrows / arrows.abs()).mean(-1).abs()
    return arrows.sum(-1).abs() / arrows.abs().sum(-1)


def coherence(arrows: Complex[Tensor, "*batch arrow"]) -> Float[Tensor, "*batch"]:
    """Return how much of the arrows' mean square their mean carries: ``|mean|^2 / mean of |arrow|^2``, from 0 to 1.

    1 only for *equal* arrows (:func:`concentration` asks for equal directions only, and its square is never less).
    Over positions that go around a plane evenly this is the plane's positional share of variance, whatever the query.

    >>> coherence(torch.tensor([2 + 0j, 1j]))
    tensor(0.5000)
    """
    arrows = _arrows("arrows", arrows)
    return arrows.mean(-1).abs().square() / arrows.abs().square().mean(-1)


def alignment(
    arrows: Complex[Tensor, "*batch arrow"], expected: Float[Tensor, "*batch arrow"], *, free: bool = False
) -> Float[Tensor, "*batch"]:
    """Return how well the arrows' phases follow expected ones (radians): mean cosine of the difference, from -1 to 1.

    With ``free`` the best constant is added to all expected phases; phases that hardly vary then follow any.
    """
    arrows = _arrows("arrows", arrows)
    try:
        expected = expected.expand(torch.broadcast_shapes(arrows.shape, expected.shape))
    except RuntimeError:
        raise ValueError(
            f"expected phases of shape {tuple(expected.shape)} do not broadcast against arrows of shape "
            f"{tuple(arrows.shape)}; pass one phase per arrow"
        ) from None
    rest = arrows / arrows.abs() * torch.polar(torch.ones_like(expected), -expected)
    return rest.mean(-1).abs() if free else rest.mean(-1).real


def crest(product: Complex[Tensor, "*batch"], angle: Float[Tensor, "*#batch"] | float) -> Float[Tensor, "*batch"]:
    """Return the distance ``D*`` at which ``Re(product exp(i angle D))`` is largest, nearest to 0, in positions.

    ``product`` is ``q conj(k)`` of unrotated arrows, or a mean of such. The crest repeats every ``2 pi / angle``; a
    negative one lies behind the query, where no key is.

    >>> round(crest(torch.polar(torch.tensor(2.0), torch.tensor(-0.3)), 0.1).item(), 4)
    3.0
    """
    angle = torch.as_tensor(angle, dtype=torch.float64, device=product.device)
    if not bool((angle > 0).all()):
        raise ValueError(f"angles must be above 0, since a plane that does not turn has no crest; got {angle.tolist()}")
    return -product.angle() / angle


@dataclass(frozen=True, kw_only=True)
class Wave:
    """``amplitude * cos(angle * (distance - crest))``, fields ``[...]``; see :func:`fit_wave`."""

    amplitude: Tensor
    crest: Tensor
    angle: Tensor

    def at(self, distance: Float[Tensor, " distance"]) -> Float[Tensor, "*batch distance"]:
        """Return the wave's values."""
        phase = self.angle[..., None] * (distance - self.crest[..., None])
        return self.amplitude[..., None] * phase.cos()


def fit_wave(
    logits: Float[Tensor, "*batch distance"],
    distance: Float[Tensor, " distance"],
    angle: Float[Tensor, "*#batch"] | float,
) -> Wave:
    """Return least-squares wave of a known angle through logits over the distance: two numbers, amplitude and crest.

    There is no constant: a plane whose keys are equal has none.

    >>> distance = torch.arange(1.0, 9.0)
    >>> wave = fit_wave(2 * (0.5 * (distance - 3)).cos(), distance, 0.5)
    >>> wave.amplitude.round(decimals=4), wave.crest.round(decimals=4)
    (tensor(2., dtype=torch.float64), tensor(3., dtype=torch.float64))
    """
    if logits.shape[-1] != len(distance) or len(distance) < 3:
        raise ValueError(
            f"logits must have one value per distance, for three distances or more; got {logits.shape[-1]} values and "
            f"{len(distance)} distances"
        )
    require_finite("logits", logits)
    y, distance = logits.double(), distance.double()
    angle = torch.as_tensor(angle, dtype=torch.float64, device=y.device).expand(y.shape[:-1])
    phase = angle[..., None] * distance
    basis = torch.stack([phase.cos(), -phase.sin()], dim=-1)
    # orthogonal columns first: a slow plane's cosine and sine are nearly parallel over few distances
    q, r = torch.linalg.qr(basis)
    weights = torch.linalg.solve_triangular(r, q.mT @ y[..., None], upper=True)[..., 0]
    product = torch.complex(weights[..., 0], weights[..., 1])
    return Wave(amplitude=product.abs(), crest=crest(product, angle), angle=angle)


def explained(
    predicted: Float[Tensor, "*batch distance"], seen: Float[Tensor, "*batch distance"]
) -> Float[Tensor, "*batch"]:
    """Return ``R^2``: one minus squared error over the variation of ``seen`` around its mean; NaN where it does not
    vary.

    It is 0 for a prediction no better than the mean, and negative for a worse one.
    """
    total = (seen - seen.mean(-1, keepdim=True)).square().sum(-1)
    total = torch.where(total > 0, total, math.nan)
    return 1 - (seen - predicted).square().sum(-1) / total


def _arrows(name: str, arrows: Tensor) -> Tensor:
    if not arrows.is_complex():
        raise TypeError(f"{name} must be complex, one number per plane; got {arrows.dtype}. Use unrotated_planes")
    if arrows.ndim == 0 or arrows.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one arrow in their last dimension; got {tuple(arrows.shape)}")
    require_finite(name, arrows)
    return arrows

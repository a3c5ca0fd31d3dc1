"""How sharply a loss bends where a model stands: the largest eigenvalue of its Hessian.

Gradient descent with a rate above two over this eigenvalue leaves a minimum instead of reaching it, which makes it the
usual measure of how well a training problem is conditioned. The Hessian is never formed: the method of Lanczos, as
ARPACK has it, needs products with vectors only, and each is one backward pass through the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core._checks import require_positive


@dataclass(frozen=True, kw_only=True)
class Sharpness:
    """The largest eigenvalue of a Hessian.

    Attributes:
        value: the eigenvalue, in units of the loss per squared unit of the parameters. Negative where the loss bends
            down in every direction.
        residual: ``|H v - value v|`` for the unit vector ``v`` that was found; an eigenvalue lies within so much of
            ``value``.
        products: products with the Hessian that were made.
    """

    value: float
    residual: float
    products: int


def hessian_product(
    loss: Float[Tensor, ""], parameters: Sequence[nn.Parameter]
) -> Callable[[Float[Tensor, " parameter"]], Float[Tensor, " parameter"]]:
    """Return the map from a vector to its product with the Hessian of ``loss``, over all parameters one after another.

    Parameters that the loss does not depend on have rows and columns of 0.
    """
    if not parameters:
        raise ValueError("a Hessian needs parameters, and none were given; pass model.parameters()")
    if not loss.requires_grad:
        raise ValueError("the loss depends on no parameter; compute it outside torch.no_grad()")
    gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    gradient = torch.cat([x.flatten() for x in gradients])

    def product(vector: Tensor) -> Tensor:
        if not gradient.requires_grad:  # a loss that is linear in its parameters
            return torch.zeros_like(vector)
        products = torch.autograd.grad(gradient, parameters, vector, retain_graph=True, materialize_grads=True)
        return torch.cat([x.flatten() for x in products])

    return product


def sharpness(
    loss: Float[Tensor, ""], parameters: Sequence[nn.Parameter], *, tolerance: float = 1e-3, seed: int = 0
) -> Sharpness:
    """Return the largest eigenvalue of the Hessian of ``loss``: the algebraically largest, not the largest in size.

    >>> x = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    >>> bend = torch.tensor([4.0, -9.0, 1.0])
    >>> round(sharpness((bend * x**2).sum() / 2, [x]).value, 6)
    4.0
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    require_positive("tolerance", tolerance)
    product = hessian_product(loss, parameters)
    like, size = parameters[0], sum(parameter.numel() for parameter in parameters)
    if size < 2:
        raise ValueError(f"the method needs at least 2 parameters; got {size}, whose Hessian is one number")
    made = 0

    def multiply(vector: np.ndarray) -> np.ndarray:
        nonlocal made
        made += 1
        result = product(torch.as_tensor(vector.ravel(), dtype=like.dtype, device=like.device)).double().cpu().numpy()
        if not np.isfinite(result).all():
            raise FloatingPointError("a product with the Hessian is not finite; lower the learning rate that led here")
        return result

    hessian = LinearOperator((size, size), matvec=multiply, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(seed).standard_normal(size)
    # Few vectors between restarts: a loss's largest eigenvalue stands far from the others.
    values, vectors = eigsh(hessian, k=1, which="LA", v0=start, tol=tolerance, ncv=min(size, 10))  # pyright: ignore[reportArgumentType]
    value, vector = float(values[0]), vectors[:, 0]
    residual = float(np.linalg.norm(multiply(vector) - value * vector))
    return Sharpness(value=value, residual=residual, products=made)

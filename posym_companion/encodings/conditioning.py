"""What conditioning costs gradient descent: a linear read-out that the theory describes, and a softmax head beside it.

For least squares on fixed features, gradient descent is governed by the features' Gram matrix alone, and features that
are products of a content and a position have a Gram matrix that is a product. A softmax head is not linear in its query
and key maps; there the matrix that governs the first steps is the Gram matrix of its gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.encodings.spectra import eigenvalues
from posym_core.encodings import LayerShape, Sinusoidal
from posym_core.metrics import rope_angles, rotate

WAYS = ("none", "rope", "sinusoidal", "alibi")


def descent_steps(
    gram: Float[Tensor, "n n"], target: Float[Tensor, " n"], *, remaining: float = 1e-4, most: int = 100_000
) -> int:
    """Count steps of gradient descent on least squares until so much of the loss remains, at the best constant rate.

    With features ``F`` and weights from 0, the residual after a step is ``(1 - rate * F F^T)`` times that before; the
    best rate is 2 over the sum of the largest and the smallest eigenvalue.

    Raises:
        ValueError: if it takes more than ``most`` steps.

    >>> descent_steps(torch.eye(3), torch.ones(3))
    1
    """
    values = eigenvalues(gram)
    rate, residual = 2 / (values[0] + values[-1]), target.to(values)
    goal = remaining * residual.square().sum()
    for step in range(1, most + 1):
        residual = residual - rate * (gram.to(values) @ residual)
        if residual.square().sum() <= goal:
            return step
    raise ValueError(f"{remaining:g} of the loss is not reached in {most} steps; pass a larger most or remaining")


@dataclass(frozen=True, kw_only=True)
class HeadTraining:
    """A softmax head trained on random numbers, per seed.

    Attributes:
        before: eigenvalues of the Gram matrix of the outputs' gradients, largest first, before training.
        after: the same after it.
        loss: mean squared error at each step.
    """

    before: Float[Tensor, "seed sample"]
    after: Float[Tensor, "seed sample"]
    loss: Float[Tensor, "seed step"]


def train_head(
    way: str, *, seeds: int = 8, samples: int = 16, tokens: int = 12, dim: int = 16, steps: int = 200, seed: int = 0
) -> HeadTraining:
    """Fit query and key maps of one head, from the last token, to a random number per sequence by gradient descent.

    All ways see the same contents, with a direction in common, the same first maps and the same targets; only positions
    enter differently. Values are fixed numbers, so that all that is learned is where to look. The rate is 1 over the
    largest eigenvalue at the start, for each seed and way its own.

    Args:
        way: ``"none"``, ``"rope"``, ``"sinusoidal"`` (added to the contents) or ``"alibi"``.
        seeds: heads trained at once.
        samples: sequences, all in every step.
        tokens: per sequence.
        dim: of contents, queries and keys.
        steps: of gradient descent.
        seed: of everything that is drawn.
    """
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(map(repr, WAYS))}; got {way!r}")
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(seeds, *shape, generator=generator, dtype=torch.float64)

    contents = draw(samples, tokens, dim) + draw(1, 1, dim)
    values = (contents @ draw(1, dim, 1)).squeeze(-1) / dim**0.5
    maps = [(draw(1, dim, dim) / dim**0.5).requires_grad_() for _ in range(2)]
    target = draw(samples)
    attend = _attention(way, contents, dim)

    def outputs() -> Tensor:
        return (attend(*maps) * values).sum(-1)

    before = eigenvalues(_gradient_gram(outputs(), maps))
    rate = (samples / 2 / before[:, 0])[:, None, None, None]
    losses = []
    for _ in range(steps):
        loss = (outputs() - target).square().mean(1)
        losses.append(loss.detach())
        gradients = torch.autograd.grad(loss.sum(), maps)
        with torch.no_grad():
            for parameter, gradient in zip(maps, gradients, strict=True):
                parameter -= rate * gradient
    after = eigenvalues(_gradient_gram(outputs(), maps))
    return HeadTraining(before=before, after=after, loss=torch.stack(losses, dim=1))


def _attention(way: str, contents: Tensor, dim: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Attention of the last token ``[seed, sample, token]`` as a function of query and key map."""
    tokens = contents.shape[-2]
    places, angles = torch.arange(tokens).double(), rope_angles(dim)
    if way == "sinusoidal":
        contents = contents + Sinusoidal(LayerShape(heads=1, dim=dim)).table(places)
    # The steepest of eight heads' slopes, 1/2: a single head's own would hardly be felt over so few tokens.
    bias = (places - places[-1]) / 2 if way == "alibi" else 0

    def attend(to_query: Tensor, to_key: Tensor) -> Tensor:
        query, keys = contents[..., -1:, :] @ to_query, contents @ to_key
        if way == "rope":
            query, keys = rotate(query, places[-1:], angles), rotate(keys, places, angles)
        return ((query @ keys.mT).squeeze(-2) / dim**0.5 + bias).softmax(-1)

    return attend


def _gradient_gram(outputs: Float[Tensor, "seed sample"], maps: list[Tensor]) -> Float[Tensor, "seed sample sample"]:
    """Products of the gradients of every two outputs."""
    rows = []
    for sample in range(outputs.shape[1]):
        # Seeds do not meet, so one pass gives the gradients of all of them.
        parts = torch.autograd.grad(outputs[:, sample].sum(), maps, retain_graph=True)
        rows.append(torch.cat([part.flatten(1) for part in parts], dim=1))
    gradients = torch.stack(rows, dim=1)
    return gradients @ gradients.mT

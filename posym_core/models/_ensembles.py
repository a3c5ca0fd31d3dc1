"""Independent models in one set of tensors: one for each seed and each variant of the angles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posym_core._checks import require_finite


class Ensemble(nn.Module):
    """Independent models, one for each seed and each variant of the angles; parameters are ``[seed, variant, ...]``.

    All variants of a seed start from the same weights and see the same inputs: a data stream belongs to a seed and is
    shared by its variants, so variants differ by their angles alone and seeds by everything that chance decides. With
    one variant every member has a stream of its own.

    What it computes is written for all members at once: ``torch.func.vmap`` of one member's forward pass takes
    several times as long for toys.

    Args:
        task: decides vocabulary and answers.
        angles: radians per position, as :attr:`shape` says; 0 is a plane without rotation.
        seeds: one per group of members; decides initial weights.
        sizes: what else :meth:`member` makes a member from.
    """

    shape: ClassVar[tuple[str, ...]]
    """Names of the angles' dimensions."""
    angles: Tensor

    def __init__(self, task: Any, angles: Tensor, *, seeds: Sequence[int], **sizes: int):
        super().__init__()
        angles = torch.as_tensor(angles).to(torch.float64)
        if angles.ndim != len(self.shape) or not angles.numel():
            raise ValueError(f"angles must have shape [{', '.join(self.shape)}]; got {tuple(angles.shape)}")
        require_finite("angles", angles)
        self.task, self.seeds, self.sizes = task, tuple(seeds), sizes
        self.dim = 2 * angles.shape[-1]
        self.scale = 1 / math.sqrt(self.dim)
        self.register_buffer("angles", angles, persistent=False)

    def initializer(self) -> Callable[..., nn.Parameter]:
        """Return what draws initial weights of a shape and ``spread``, the seeds' next, alike for all variants."""
        generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]

        def initial(*shape: int, spread: float) -> nn.Parameter:
            drawn = torch.stack([torch.randn(shape, generator=generator) for generator in generators])
            return nn.Parameter(spread * drawn[:, None].repeat(1, len(self.angles), *(1 for _ in shape)))

        return initial

    @property
    def ensemble(self) -> tuple[int, int]:
        """Number of seeds and of variants: the leading dimensions of every parameter."""
        return len(self.seeds), len(self.angles)

    def require_tokens(self, tokens: Tensor, *, more_than: int) -> None:
        """Raise if this is not a stream of inputs for every seed, or is too short for a question."""
        if tokens.ndim != 3 or len(tokens) != len(self.seeds) or tokens.shape[2] <= more_than:
            raise ValueError(
                f"tokens must have shape [seed, input, token] with {len(self.seeds)} seeds and more than {more_than} "
                f"tokens, the question's among them; got {tuple(tokens.shape)}. Draw them with sample_streams"
            )

    def losses(self, batch: Any) -> Float[Tensor, "seed variant"]:
        """Return members' mean cross-entropy on their seeds' inputs (each field of ``batch`` leads with the seed)."""
        scores = self(batch.tokens)
        answer = batch.answer[:, None, ..., None].expand(*scores.shape[:-1], 1)
        return (scores.logsumexp(-1) - scores.gather(-1, answer)[..., 0]).flatten(2).mean(-1)

    def member(self, seed: int, variant: int) -> Self:
        """Copy one member as an ensemble of one; ``seed`` counts the seeds given, from 0."""
        angles = self.angles[variant : variant + 1]
        alone = type(self)(self.task, angles.cpu(), seeds=self.seeds[seed : seed + 1], **self.sizes).to(angles.device)
        with torch.no_grad():
            for mine, its in zip(self.parameters(), alone.parameters(), strict=True):
                its.copy_(mine[seed : seed + 1, variant : variant + 1])
        return alone


def make_generators(seeds: Sequence[int], device: torch.device | str = "cpu", *, purpose: int) -> list[torch.Generator]:
    """Make a generator per seed; ``purpose`` (0 for training, 1 for tests, ...) keeps their streams apart."""
    spread = 1_000_003  # a prime far above any number of purposes, so that no two pairs share a stream
    return [torch.Generator(device).manual_seed(spread * (purpose + 1) + seed) for seed in seeds]


def sample_streams(task: Any, count: int, generators: Sequence[torch.Generator]) -> Any:
    """Draw ``count`` inputs of a task from every generator; each field leads with the stream ``[seed, ...]``."""
    return stack_streams([task.sample(count, generator) for generator in generators])


def stack_streams(drawn: Sequence[Any]) -> Any:
    """Stack a batch of each seed, named tuples of tensors, as one."""
    return drawn[0]._make(torch.stack(field) for field in zip(*drawn, strict=True))

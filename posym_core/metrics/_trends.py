"""How scores of a model's heads go with the layer: early layers against late ones, with interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64

from posym_core._checks import require_scores
from posym_core.metrics._stats import DRAWS, Estimate, ResampledHeads, average_prompts


@dataclass(frozen=True, kw_only=True)
class LayerContrast:
    """A score in the early and the late half of the layers.

    Attributes:
        early: median over heads of the first half (mean over prompts first, as the papers do).
        late: median over heads of the second half.
        difference: ``early - late`` with its interval.
    """

    early: float
    late: float
    difference: Estimate


def contrast_layers(
    scores: torch.Tensor | np.ndarray, *, split: int | None = None, draws: int = DRAWS, seed: int = 0
) -> LayerContrast:
    """Compare a score ``[prompt, layer, head]`` before layer ``split`` (default: half of them) with the rest."""
    x = require_scores("scores", scores)
    split = int(x.shape[1] // 2 if split is None else split)
    if not 0 < split < x.shape[1]:
        raise ValueError(f"split must leave layers on both sides, between 1 and {x.shape[1] - 1}; got {split}")
    sample = ResampledHeads(x.shape, draws=draws, seed=seed, split=split)

    def medians(heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        median = np.median if np.isfinite(heads).all() else np.nanmedian
        return median(heads[:, :split], axis=(1, 2)), median(heads[:, split:], axis=(1, 2))

    means = average_prompts(x)
    if not (np.isfinite(means[:, :split]).any() and np.isfinite(means[:, split:]).any()):
        raise ValueError("a contrast needs heads with a score on both sides; one side has none")
    (early,), (late,) = medians(means)
    drawn = sample.of(x)
    defined = np.isfinite(drawn)
    # A draw without a score on one side says nothing about the contrast.
    drawn = drawn[defined[:, :split].any(axis=(1, 2)) & defined[:, split:].any(axis=(1, 2))]
    if not len(drawn):
        raise ValueError(f"a contrast needs draws with a score on both sides; none of {draws} has. Pass more draws")
    many_early, many_late = medians(drawn)
    difference = sample.estimate(float(early - late), many_early - many_late)
    return LayerContrast(early=float(early), late=float(late), difference=difference)


def measure_layer_trend(
    scores: Float[np.ndarray, "prompt layer head"], layers: Int64[np.ndarray, " chosen"], *, draws: int = DRAWS
) -> LayerContrast:
    """Compare some layers of the early half of a model with those of the late half."""
    split = int((layers < scores.shape[1] // 2).sum())
    return contrast_layers(scores[:, layers], split=split, draws=draws)

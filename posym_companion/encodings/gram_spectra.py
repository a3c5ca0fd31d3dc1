"""Spectra of a language model's queries and keys: without positions, under one averaged kernel, and as rotated.

The theorem on spectral contraction speaks of a Gram matrix times one kernel. A rotary head gives every plane a kernel
of its own; what that does to real queries and keys is measured here beside what the theorem covers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from posym_companion.encodings.spectra import averaged_kernel, eigenvalues, majorisation, singular_values
from posym_companion.experiments import Experiment, load_experiment_model, slug
from posym_core.metrics import rotate
from posym_profile.capture import capture
from posym_profile.planes import find_planes
from posym_profile.prompts import text_prompts

WAYS = ("content", "averaged", "rotated")
DIMS = {
    "query logits": "way prompt layer head token",
    "key": "way prompt layer key_head token",
    "query_* logits_*": "compared prompt layer head",
    "key_*": "compared prompt layer key_head",
}


@dataclass(frozen=True, kw_only=True)
class GramSpectra:
    """One setting.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        tokens: tokens per prompt whose queries and keys are taken.
        prompts: how many windows of running text.
        seed: of the windows.
    """

    model: str = "gemma-3-270m"
    tokens: int = 48
    prompts: int = 8
    seed: int = 0

    @property
    def name(self) -> str:
        return f"gram_spectra/{slug(self.model)}"


def full_size(model: str = "gemma-3-270m") -> list[GramSpectra]:
    """Return eight windows of 48 tokens."""
    return [GramSpectra(model=model)]


def contents_of(model: Any, input_ids: Tensor, tokens: int) -> Iterator[tuple[Tensor, Tensor, Tensor, float]]:
    """Return queries ``[prompt, head, token, dim]`` and keys without positions, angles and scale, layer by layer.

    Only the last ``tokens`` of each prompt, in double precision.
    """
    planes = find_planes(model, input_ids.shape[1])
    places = torch.arange(input_ids.shape[1])
    for call, plane in zip(capture(model, input_ids, rows=None), planes, strict=True):
        query, keys = plane.arrange_query(call.query.double()), plane.arrange_keys(call.keys.double())
        still = [rotate(x.cpu(), -places.double(), plane.angles.cpu())[..., -tokens:, :] for x in (query, keys)]
        yield still[0], still[1], plane.angles.cpu(), call.scale


def spectra_of(query: Tensor, keys: Tensor, angles: Tensor, scale: float) -> dict[str, Tensor]:
    """Return spectra of one layer, ``[way, prompt, head, token]``, in the order of :data:`WAYS`: see :func:`measure`.

    Head ``h`` uses key head ``h // (heads / key heads)``.
    """
    places = torch.arange(query.shape[-2]).double()
    kernel = averaged_kernel(angles, places)

    def ways(left: Tensor, right: Tensor) -> Tensor:
        plain = left @ right.mT
        return torch.stack([plain, plain * kernel, rotate(left, places, angles) @ rotate(right, places, angles).mT])

    arrays = {
        "query": eigenvalues(ways(query, query)),
        "key": eigenvalues(ways(keys, keys)),
        "logits": singular_values(ways(query, keys.repeat_interleave(query.shape[1] // keys.shape[1], 1)) * scale),
    }
    for name in tuple(arrays):
        compared = majorisation(arrays[name][1:], arrays[name][:1].expand_as(arrays[name][1:]), weak=name == "logits")
        arrays[f"{name}_holds"] = compared.holds
    return arrays


def measure(model: Any, tokenizer: Any, setting: GramSpectra, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return all arrays of one setting.

    Returns:
        Eigenvalues of the Gram matrices ``query`` and ``key`` and singular values of the ``logits`` between all tokens
        (scaled, no mask), largest first, ``[way, prompt, layer, head, token]``; for keys, key heads. The ways are
        :data:`WAYS`: without positions, times the mean of all planes' kernels, and with every plane rotated as the
        model does. ``*_holds [way - 1, prompt, layer, head]``: whether the last two are majorised by the first (weakly,
        for logits).
    """
    prompts = text_prompts(tokenizer, facts=setting.tokens, count=setting.prompts, seed=setting.seed)
    layers = [
        spectra_of(*heads)
        for heads in tqdm(contents_of(model, prompts.input_ids, setting.tokens), disable=not progress)
    ]
    arrays = {name: torch.stack([layer[name] for layer in layers], dim=2).numpy() for name in layers[0]}
    return {name: x if x.dtype == bool else x.astype(np.float32) for name, x in arrays.items()}


EXPERIMENT = Experiment(
    settings=full_size, small={"tokens": 12, "prompts": 2}, measure=measure, dims=DIMS, load=load_experiment_model
)

"""Predictors of what a head is needed for: the papers' scores, shares of the cube, slow planes, and older scores.

Each is a number a head, measured on binding prompts; no head is touched. The older ones, which nothing about swaps
enters: the entropy of a head's attention and its attention to the fact that is asked about; *copying*, the attention
to the answer's token times what the head adds to the answer's logit; *retrieval*, how often no token gets more of its
attention than the answer's (Wu et al. 2025, arXiv 2404.15574, in prompts that end where the answer begins);
*previous token* and *induction*, the attention of each token to the one before it and, in a text said twice, to the
one behind its first mention (Olsson et al. 2022).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_core.metrics import PARTS, BlockLayout, normalize_parts, score_swaps
from posym_profile.capture import capture, find_input_device
from posym_profile.interventions import find_output_projections, record_head_outputs
from posym_profile.planes import Planes, find_planes
from posym_profile.prompts import Prompts
from posym_profile.scores import LayerHeads, map_layers, origin_cube

if TYPE_CHECKING:
    from xarray import Dataset

# theta n at which a plane's contents are half symbol, see posym_core.metrics._frequencies.dirichlet_kernel.
CROSSING = 2.78
# Parts of a cube that depend on the symbol alone, and those that depend on origin and place alone.
KINDS = {"symbol": ("symbol",), "where": ("origin", "place", "origin_place")}
PREDICTORS = (
    "positional",
    "symbolic",
    "symbol share",
    "where share",
    "symbol size",
    "where size",
    "slow planes",
    "entropy",
    "asked fact",
    "copying",
    "retrieval",
    "previous token",
    "induction",
)
# Tokens that are said twice, and how many such texts.
REPEATED, TEXTS = 32, 4
# Vocabularies begin with marks and single bytes, which no text repeats.
ORDINARY = 1000


@torch.no_grad()
def language_predictors(
    model: Any, prompts: Prompts, *, squares: int, seed: int = 0
) -> dict[str, Float[Tensor, "layer head"]]:
    """Return every one of :data:`PREDICTORS` of every head, means over prompts, NaN where one is not defined."""
    planes = find_planes(model, prompts.input_ids.shape[1])
    predictors = predict_from_swaps(model, prompts, planes)
    cubes = [origin_cube(model, prompts[row : row + 1], seed=seed + row) for row in range(squares)]
    predictors |= predict_from_cubes(cubes)
    predictors |= copying_scores(model, prompts)
    predictors |= token_scores(model, prompts.input_ids, repeated_texts(model, prompts, seed=seed))
    return {name: predictors[name].double().cpu() for name in PREDICTORS}


def predict_from_swaps(
    model: Any, prompts: Prompts, planes: Sequence[Planes]
) -> dict[str, Float[Tensor, "layer head"]]:
    """Return both scores, slow planes' part of the energy, entropy, and attention to the fact that is asked about."""
    swaps = BlockLayout(**prompts.layout)

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        return swap_predictors(heads, swaps, prompts.target[heads.prompts])

    measured = map_layers(model, prompts.input_ids, one_layer, progress=False, planes=planes)
    return {name: x.nanmean(0) for name, x in measured.items()}


def swap_predictors(
    heads: LayerHeads, swaps: BlockLayout, asked: Int64[Tensor, " prompt"]
) -> dict[str, Float[Tensor, "prompt key_head group"]]:
    """Return the same of one layer on every prompt; ``asked`` is the block asked about."""
    scores = score_swaps(heads, swaps)
    attention = scores.attention * swaps.block_length
    index = asked.to(attention.device)[:, None, None, None].expand(*attention.shape[:-1], 1)
    energy = heads.frequency_shares(slice(swaps.start, swaps.stop)).energy
    slow = heads.angles * (swaps.stop - swaps.start) < CROSSING
    return {
        "positional": scores.positional,
        "symbolic": scores.symbolic,
        "slow planes": (energy * slow).sum(-1) / energy.sum(-1),
        "entropy": scores.entropy,
        "asked fact": attention.gather(-1, index)[..., 0],
    }


def predict_from_cubes(cubes: Iterable[Dataset]) -> dict[str, Float[Tensor, "layer head"]]:
    """Return what depends on the symbol alone, or on origin and place alone: part of the variance, and its root."""
    variance = torch.cat([torch.from_numpy(cube.variance.values) for cube in cubes])
    parts = dict(zip(PARTS.values(), variance.unbind(-1), strict=True))
    shares = normalize_parts(parts)
    predictors = {}
    for kind, names in KINDS.items():
        predictors[f"{kind} share"] = sum_parts(shares, names).nanmean(0)
        predictors[f"{kind} size"] = sum_parts(parts, names).nanmean(0).sqrt()
    return predictors


def sum_parts(parts: Any, names: Sequence[str]) -> Tensor:
    """Return some parts together."""
    return torch.stack([parts[name] for name in names]).sum(0)


def copying_scores(model: Any, prompts: Prompts) -> dict[str, Float[Tensor, "layer head"]]:
    """Return ``copying``: attention to the answer's token times the raise of its logit; ``retrieval``: how often
    that is most.

    The raise is the answer's logit above the mean of the attributes that the prompt names, in what the head's output
    adds to the stream; the division by the stream's size before the vocabulary is the same for all heads and left out.
    """
    ids = prompts.input_ids
    place = answer_places(prompts)
    outputs = record_head_outputs(model, ids).outputs[:, :, -1]
    calls = capture(model, ids)
    vocabulary = _before_vocabulary(model)
    raises, attention, most = [], [], []
    for layer, (call, projection) in enumerate(zip(calls, find_output_projections(model), strict=True)):
        weights = call.weights()[:, :, 0]
        at = place.to(weights.device)[:, None, None].expand(*weights.shape[:2], 1)
        attention.append(weights.gather(-1, at)[..., 0])
        most.append(weights.argmax(-1) == at[..., 0])
        matrix: Tensor = projection.weight.unflatten(1, outputs.shape[2:])  # pyright: ignore
        added = torch.einsum("phd,whd->phw", outputs[:, layer].to(matrix), matrix)
        added = _as_added(model, layer, added) * vocabulary[0]
        answers = vocabulary[1][prompts.answer_ids.to(added.device)]
        logits = torch.einsum("phw,paw->pha", added, answers)
        right = prompts.target.to(added.device)[:, None, None].expand(*logits.shape[:2], 1)
        raises.append(logits.gather(-1, right)[..., 0] - logits.mean(-1))
    copying = torch.stack([a * r for a, r in zip(attention, raises, strict=True)], 1)
    return {"copying": copying.mean(0), "retrieval": torch.stack(most, 1).double().mean(0)}


def answer_places(prompts: Prompts) -> Int64[Tensor, " prompt"]:
    """Return where the answer's token stands in the fact that is asked about."""
    answer = prompts.answer_ids.gather(1, prompts.target[:, None])
    first = prompts.start + prompts.target[:, None] * prompts.block_length
    fact = prompts.input_ids.gather(1, first + torch.arange(prompts.block_length))
    here = fact == answer
    if not (here.sum(1) == 1).all():
        raise ValueError("copying is asked of answers that stand once in their fact; got a fact with none or several")
    return first[:, 0] + here.long().argmax(1)


def _before_vocabulary(model: Any) -> tuple[Tensor, Tensor]:
    """Return what the last norm multiplies each dimension with, and the vocabulary's vectors."""
    vocabulary = model.get_output_embeddings().weight
    return _multiplied(model.base_model.norm, vocabulary), vocabulary


def _multiplied(norm: Any, like: Float[Tensor, "row width"]) -> Float[Tensor, " width"]:
    """Return what a norm multiplies each dimension with, once it has divided by the root mean square."""
    return norm(torch.ones_like(like[:1]))[0]


def _as_added(model: Any, layer: int, added: Float[Tensor, "prompt head width"]) -> Tensor:
    """Return what heads add to the stream; Gemma norms their sum first, by its own size."""
    here = model.base_model.layers[layer]
    if not hasattr(here, "post_feedforward_layernorm"):  # only where parts are normed behind, as well
        return added
    size = added.sum(1).square().mean(-1).sqrt()
    return added * _multiplied(here.post_attention_layernorm, added[0]) / size[:, None, None]


def token_scores(
    model: Any, input_ids: Int64[Tensor, "prompt token"], repeated: Int64[Tensor, "text token"]
) -> dict[str, Float[Tensor, "layer head"]]:
    """Return ``previous token`` and ``induction``: attention of all tokens, and of those that were said before."""
    before = [previous_token(call.weights()) for call in capture(model, input_ids, rows=None)]
    again = [induction(call.weights()) for call in capture(model, repeated, rows=None)]
    return {"previous token": torch.stack(before), "induction": torch.stack(again)}


def previous_token(attention: Float[Tensor, "prompt *head query key"]) -> Float[Tensor, "*head"]:
    """Return mean attention to the token before, over prompts and all tokens but the first."""
    return attention.diagonal(-1, -2, -1).mean(-1).mean(0)


def induction(attention: Float[Tensor, "prompt *head query key"], length: int = REPEATED) -> Float[Tensor, "*head"]:
    """Return mean attention to the token behind the first mention, over a text's second time, at the end."""
    return attention.diagonal(1 - length, -2, -1)[..., -length:].mean(-1).mean(0)


def repeated_texts(model: Any, prompts: Prompts, *, seed: int) -> Int64[Tensor, "text token"]:
    """Return tokens drawn at random, said twice behind what stands before the first block of the prompts."""
    words = model.get_input_embeddings().num_embeddings
    generator = torch.Generator().manual_seed(seed)
    once = torch.randint(min(ORDINARY, words // 2), words, (TEXTS, REPEATED), generator=generator)
    opening = prompts.input_ids[:1, : prompts.start].expand(TEXTS, -1)
    return torch.cat([opening, once, once], 1).to(find_input_device(model))

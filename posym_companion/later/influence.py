"""Influence of a token by its place before any training (Chowdhury, 2026; Herasimchyk et al., 2026)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_companion.head_measurements import look
from posym_companion.later.later_subjects import LaterClaims, context_prompts, make_untrained, plane_squares
from posym_companion.solvers.family_solvers import FamilySolver
from posym_core.metrics import rotate
from posym_profile.capture import find_input_device
from posym_profile.interventions import edit_rope, freeze_rotation
from posym_profile.prompts import Prompts
from posym_profile.scores import LayerHeads

DIMS = {
    "kinds": "kind",
    "rotated unrotated": "kind seed position",
    "trained": "prompt position",
    "trained_peak": "prompt layer head position",
    "fresh_peak": "seed layer head position",
}


def measure(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Two shapes by place on the same prompts, before training and after: influence, and what Theorem 7 bends.

    Returns:
        Influence of every token on the last token's final state, the root of the summed squares of the Jacobian's
        entries over the directions drawn: ``rotated`` and ``unrotated`` ``[kind, seed, position]`` of models with
        random weights, with their angles and with all of them stopped, NaN where there are fewer seeds; ``trained``
        ``[prompt, position]`` of the model as it is. ``kinds`` names them: the model's own class and, beside a model
        of text, a Qwen-2 of eight layers. ``fresh_peak [seed, layer, head, position]`` (mean over prompts) and
        ``trained_peak [prompt, layer, head, position]`` are :func:`target_peaks` of the own class.
    """
    prompts = context_prompts(source, setting)
    vocabulary = 0 if isinstance(source, FamilySolver) else len(source)
    kinds = ({"qwen2": 4 * setting.fresh} if vocabulary else {}) | {"own": setting.fresh}
    shape = (len(kinds), max(kinds.values()), prompts.input_ids.shape[1])
    arrays = {name: np.full(shape, np.nan, np.float32) for name in ("rotated", "unrotated")}
    peaks = []
    for kind, (name, seeds) in enumerate(kinds.items()):
        for seed in range(seeds):
            fresh = small_qwen(vocabulary, seed) if name == "qwen2" else make_untrained(model, source, seed)
            ids = prompts.input_ids[seed % len(prompts.input_ids)][None]
            for way, interventions in (("rotated", ()), ("unrotated", (freeze_rotation(),))):
                with edit_rope(fresh.requires_grad_(False), *interventions, length=ids.shape[1]):
                    arrays[way][kind, seed] = influence(fresh, ids, directions(fresh, setting.draws, seed))[0]
            if name == "own":
                peaks.append(peaks_of(fresh, prompts).mean(0))
    trained = [influence(model, row[None], directions(model, setting.draws, 0))[0] for row in prompts.input_ids]
    weights_on_targets = peaks_of(model, prompts)
    return arrays | {
        "kinds": np.array(list(kinds)),
        "trained": torch.stack(trained).numpy(),
        "trained_peak": weights_on_targets,
        "fresh_peak": np.stack(peaks) if peaks else np.zeros((0, *weights_on_targets.shape[1:]), np.float32),
    }


def peaks_of(model: Any, prompts: Prompts) -> Float[np.ndarray, "prompt layer head target"]:
    """:func:`target_peaks` of every head on every prompt."""
    measured = look(model, prompts, {"peak": lambda layer: target_peaks(layer.heads, layer.keys)})
    return measured["peak"].float().numpy()


def target_peaks(heads: LayerHeads, contents: slice) -> Float[Tensor, "prompt key_head group target"]:
    """Log of the weight that the positional part of a head puts on each place of the context when pointed at it.

    The positional part are the column means of ``C``, what a query makes of the mean key. Pointed at a target all
    planes add up there, and at a distance ``d`` from it the logit is ``sum over planes of |query| |mean key|
    cos(angle d)``. With one plane this is the head of Theorem 7 of Urrutia et al. (2026a); whatever the planes, the
    weight at an end is at most twice that at any other place. NaN in layers that do not see all of the context.
    """
    count = heads.keys.shape[-2]
    places = torch.arange(count, dtype=torch.float64, device=heads.keys.device)
    mean_key = rotate(heads.keys, -places, heads.angles)[..., contents, :].double().mean(-2)
    strength = heads.scale * (plane_squares(heads.query) * plane_squares(mean_key)).sqrt()
    place = places[contents] - places[contents][0]
    logits = strength @ (heads.angles[:, None] * place).cos()
    if heads.softcap is not None:
        logits = heads.softcap * (logits / heads.softcap).tanh()
    apart = (place[:, None] - place).abs().long()
    peak = logits[..., :1] - logits[..., apart].logsumexp(-1)
    return torch.where(heads.visible[..., contents].all(-1)[..., None], peak, torch.nan)


def directions(model: Any, count: int, seed: int) -> Float[Tensor, "direction width"]:
    """Random directions of a model's states, standard normal."""
    width = model.get_input_embeddings().weight.shape[1]
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def small_qwen(vocabulary: int, seed: int) -> Any:
    """A Qwen-2 of eight layers and width 128 with random weights, in evaluation mode."""
    import transformers

    settings = transformers.Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=4,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.Qwen2ForCausalLM(settings).eval()


def influence(
    model: Any, input_ids: Int[Tensor, "prompt token"], directions: Float[Tensor, "direction width"]
) -> Float[Tensor, "prompt token"]:
    """How much each token's embedding moves the last token's final state along some directions.

    For all directions of an orthonormal basis this is the Frobenius norm of the Jacobian; for standard normal ones its
    square is that norm's, on average, times their number.
    """
    embedded = model.get_input_embeddings()(input_ids.to(find_input_device(model))).detach().requires_grad_()
    state = model.base_model(inputs_embeds=embedded, use_cache=False).last_hidden_state[:, -1]
    squares = torch.zeros(input_ids.shape)
    for direction in directions:
        (slope,) = torch.autograd.grad((state * direction.to(state)).sum(), embedded, retain_graph=True)
        squares += slope.square().sum(-1).cpu()
    return squares.sqrt()

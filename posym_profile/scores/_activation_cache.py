"""Scores and cross-logits of the activations that TransformerLens has cached.

Queries and keys are those of ``hook_rot_q`` and ``hook_rot_k``. Angles, scale and visible keys come from the model that
the cache belongs to, which is run on random tokens for that; in the same run its hooks are compared with what its
attention was seen to use.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.metrics import BlockLayout
from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.capture._capturing import capture
from posym_profile.capture._wrappers import unwrap
from posym_profile.language_models._refusals import make_unsupported_error
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores._layer_heads import LayerHeads, read_layer_heads
from posym_profile.scores._layer_measurement import stack_padded
from posym_profile.scores._profiling import Profile, assemble_profile, score_layer

HOOKS = ("hook_rot_q", "hook_rot_k")
WITHOUT = "posym_profile.profile(model, input_ids) needs no hooks"
# Passes of one model over the same tokens, relative to the largest number; another query or key is off by its size.
SAME = 1e-4


def cached_swap_scores(
    cache: Any,
    *,
    start: int,
    block_length: int,
    blocks: int | None = None,
    tau: float = 1e-4,
    eps: float = 1e-8,
    per_frequency: bool = False,
) -> Profile:
    """Positional and symbolic scores of every head at the last token of every cached prompt.

    Args:
        cache: the ``ActivationCache`` of a ``TransformerBridge`` and of whole prompts without padding. Names that hold
            ``"hook_rot"`` are enough; where patterns are cached, they are compared.
        start: see :func:`posym_profile.scores.profile`, also for what follows.
        block_length: tokens per block.
        blocks: number of blocks.
        tau: temperature of the weights over pairs of blocks.
        eps: floor of the norms in the cosine.
        per_frequency: score every rotation plane as a head of its own.

    Returns:
        A :class:`posym_profile.scores.Profile`, as ``profile(cache.model, ...)`` gives for these prompts.

    Raises:
        UnsupportedModelError: if the hooks do not hold what attention uses (queries normalised after their rotation,
            latent attention, models without these hooks), or the model's attention is not one of rotary softmax.
        TypeError, ValueError: if this is no such cache, layers or tokens are missing, or blocks do not fit.
    """
    swaps = BlockLayout(start=start, block_length=block_length, blocks=blocks, tau=tau, eps=eps)
    layers = _cached_heads(cache)
    fitted = swaps.fit(layers[0].keys.shape[-2])
    measured = [score_layer(heads, fitted, per_frequency=per_frequency) for heads in layers]
    together = {
        name: stack_padded([layer[name].flatten(1, 2).cpu() for layer in measured], dim=1) for name in measured[0]
    }
    prompts, tokens = len(layers[0].keys), layers[0].keys.shape[-2]
    return assemble_profile(together, unwrap(cache.model), [tokens] * prompts, [fitted.number] * prompts)


def cached_cross_logits(
    cache: Any, layer: int, *, per_frequency: bool = False
) -> Float[Tensor, "prompt head *plane key key"]:
    """The cross-logit matrix of every head of one layer at the last token of every cached prompt.

    Args:
        cache: see :func:`cached_swap_scores`.
        layer: number of the layer, among those that attend.
        per_frequency: one matrix for each rotation plane.

    Returns:
        ``C[a, b]``: the logit that the content of token ``a`` would get at position ``b``; see
        :func:`posym_core.cross_logits`.

    Raises:
        UnsupportedModelError, TypeError, ValueError: see :func:`cached_swap_scores`.
    """
    layers = _cached_heads(cache)
    if layer not in range(len(layers)):
        raise ValueError(f"layer must be one of 0 to {len(layers) - 1}; got {layer!r}")
    return layers[layer].cross_logits(per_frequency=per_frequency).flatten(1, 2)


def _cached_heads(cache: Any) -> list[LayerHeads]:
    """The heads of every layer that attends, as cached."""
    entries, bridge = getattr(cache, "cache_dict", None), getattr(cache, "model", None)
    if not isinstance(entries, dict) or bridge is None:
        raise TypeError(
            "cache must be an ActivationCache with its model, the second of what TransformerBridge.run_with_cache "
            f"returns; got {type(cache).__name__}"
        )
    model = unwrap(bridge)
    if model is bridge:
        raise TypeError(f"cache must be that of a TransformerBridge; its model is a {type(bridge).__name__}. {WITHOUT}")
    batched = {name: x if cache.has_batch_dim else x[None] for name, x in entries.items() if "attn.hook_" in name}
    length = next((x.shape[1] for name, x in batched.items() if name.endswith(HOOKS)), 8)
    calls = _asked(bridge, model, length)
    missing = [hook for name in calls for hook in (name, name.replace(*HOOKS)) if hook not in batched]
    if missing:
        raise ValueError(f"the cache lacks {missing[0]}; cache all layers of names that hold 'hook_rot'")
    planes = find_planes(model, length)
    found = []
    for name, call in calls.items():
        query, keys = (batched[hook].detach().transpose(1, 2) for hook in (name, name.replace(*HOOKS)))
        query, keys = (x.float() if x.dtype.itemsize < 4 else x for x in (query, keys))
        own = AttentionInputs(
            index=call.index,
            module=call.module,
            query=query[:, :, -1:],
            keys=keys,
            scale=call.scale,
            softcap=None,
            sinks=None,
            visible=call.visible.expand(len(query), -1, -1, -1),
            rows=call.rows,
        )
        pattern = batched.get(name.replace(HOOKS[0], "hook_pattern"))
        # Rounded logits are off in proportion to their size, and weights by as much as logits.
        largest = 4 + float(own.logits().abs().max())
        if pattern is not None and not _same(own.weights()[:, :, 0], pattern[:, :, -1], largest):
            raise ValueError(
                f"{name}: the cached pattern is not the attention of these queries and keys (padding, part of a prompt "
                "or a hook that changed one of them); cache whole prompts without padding and without such hooks"
            )
        found.append(read_layer_heads(own, planes[call.index]))
    return found


def _asked(bridge: Any, model: Any, length: int) -> dict[str, AttentionInputs]:
    """What attention uses on random tokens, by the hook of its queries; refused if the hooks hold something else."""
    vocabulary = model.get_input_embeddings().weight.shape[0]
    probe = torch.randint(vocabulary // 20, vocabulary, (1, length), generator=torch.Generator().manual_seed(0))
    calls = capture(model, probe)
    with torch.no_grad():
        _, held = bridge.run_with_cache(probe.to(calls[0].keys.device), names_filter=lambda name: name.endswith(HOOKS))
    names = sorted((name for name in held if name.endswith(HOOKS[0])), key=lambda name: int(name.split(".")[1]))
    if len(names) != len(calls):
        raise make_unsupported_error(
            model, f"attends {len(calls)} times, and {HOOKS[0]} is there {len(names)} times", WITHOUT
        )
    for name, call in zip(names, calls, strict=True):
        query, keys = (held[hook].transpose(1, 2) for hook in (name, name.replace(*HOOKS)))
        keys = keys.repeat_interleave(call.keys.shape[1] // keys.shape[1], dim=1)
        if not (_same(query[:, :, -1:], call.query) and _same(keys, call.keys)):
            raise make_unsupported_error(
                f"{type(model).__name__}:",
                f"{name} and its keys are not what attention uses (it normalises them after the rotation, or they are "
                "the rotated part of latent attention)",
                WITHOUT,
            )
    return dict(zip(names, calls, strict=True))


def _same(found: Tensor, expected: Tensor, steps: float = 0.0) -> bool:
    """Whether numbers are the same, but for so many roundings where they are expected in half precision."""
    if found.shape != expected.shape:
        return False
    rounding = steps * torch.finfo(expected.dtype).eps if expected.dtype.itemsize < 4 else 0.0
    found, expected = found.float(), expected.float()
    return float((found - expected).abs().max()) <= (SAME + rounding) * float(expected.abs().max())

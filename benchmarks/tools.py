"""Scores of all heads by ``profile``, by what TransformerLens caches, and by a forward pass for each swap.

The three start from the same model and prompts and must agree. All pairs of blocks are swapped; for the third way, too
slow for that, the time of a few swaps is extrapolated.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoTokenizer
from transformers.models.gemma3.modeling_gemma3 import apply_rotary_pos_emb

from posym_profile import binding_prompts, load_model, profile

PROMPTS, FACTS, SWAPS = 16, 16, 4
# Soft enough that rounding does not decide which pair counts.
TAU, EPS = 0.05, 1e-8
SCORE_ERROR = 1e-4


def orders(prompts: Any) -> dict[tuple[int, int], Tensor]:
    """Where the contents of all tokens come from, for each pair of blocks that changes places."""
    tokens, length = prompts.input_ids.shape[1], prompts.block_length
    block = prompts.start + torch.arange(prompts.blocks * length).view(-1, length)
    found = {}
    for i, j in itertools.combinations(range(prompts.blocks), 2):
        found[i, j] = torch.arange(tokens)
        found[i, j][block[i]], found[i, j][block[j]] = block[j], block[i]
    return found


def block_means(pattern: Tensor, prompts: Any) -> Tensor:
    """``[prompt, head, token]`` as ``[prompt, head, block]``."""
    inside = pattern[..., prompts.start : prompts.start + prompts.blocks * prompts.block_length]
    return inside.unflatten(-1, (prompts.blocks, prompts.block_length)).mean(-1).double()


def weighted(before: Tensor, after: dict[tuple[int, int], Tensor]) -> tuple[Tensor, Tensor]:
    """Both scores from block means before and after each swap."""
    gaps, along, across = [], [], []
    for (i, j), means in after.items():
        pair, moved = before[..., [i, j]], means[..., [i, j]]
        gaps.append((pair[..., 0] - pair[..., 1]).abs())
        along.append(torch.cosine_similarity(moved, pair, dim=-1))
        across.append(torch.cosine_similarity(moved, pair.flip(-1), dim=-1))
    weights = (torch.stack(gaps) / TAU).softmax(0)
    return (weights * torch.stack(along)).sum(0), (weights * torch.stack(across)).sum(0)


def by_cache(bridge: Any, prompts: Any, swaps: dict[tuple[int, int], Tensor]) -> tuple[Tensor, Tensor]:
    """Run with cache, then for each layer permute its keys before their rotation and recompute the last pattern."""
    attention = ("attn.hook_rot_q", "attn.hook_k_normed", "attn.hook_pattern")
    with torch.no_grad():
        _, cache = bridge.run_with_cache(prompts.input_ids, names_filter=lambda name: name.endswith(attention))
    layers, positions = [], torch.arange(prompts.input_ids.shape[1])[None]
    for layer, block in enumerate(bridge.blocks):
        query = cache[f"blocks.{layer}.{attention[0]}"].transpose(1, 2)[:, :, -1:]
        keys = cache[f"blocks.{layer}.{attention[1]}"]
        inner = block.attn.original_component
        cos, sin = bridge.original_model.model.rotary_emb(keys, positions, inner.layer_type)
        before = block_means(cache[f"blocks.{layer}.{attention[2]}"][:, :, -1], prompts)
        after = {}
        for pair, order in swaps.items():
            _, moved = apply_rotary_pos_emb(query, keys[:, :, order], cos, sin)
            pattern = (query @ moved.transpose(-1, -2) * inner.scaling).softmax(-1)[:, :, -1]
            after[pair] = block_means(pattern, prompts)
        layers.append(weighted(before, after))
    positional, symbolic = zip(*layers, strict=True)
    return torch.stack(positional, 1), torch.stack(symbolic, 1)


class ByPasses:
    """A forward pass a swap: every layer's keys are permuted, and what it passes on is that of the plain pass."""

    def __init__(self, model: Any, prompts: Any) -> None:
        self.model, self.prompts = model, prompts
        self.outputs: dict[Any, Tensor] = {}
        self.before = self.means()

    @contextlib.contextmanager
    def swapped(self, order: Tensor) -> Iterator[None]:
        hooks = []
        for layer in self.model.model.layers:
            projection, attention = layer.self_attn.k_proj, layer.self_attn
            hooks.append(projection.register_forward_hook(lambda module, args, keys: keys[:, order]))
            hooks.append(attention.register_forward_hook(lambda m, args, out: (self.outputs[m], *out[1:])))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def means(self, order: Tensor | None = None) -> Tensor:
        """Block means of all heads ``[prompt, layer, head, block]``."""
        hooks = contextlib.ExitStack()
        if order is None:
            for layer in self.model.model.layers:
                keep = layer.self_attn.register_forward_hook(lambda m, args, out: self.outputs.update({m: out[0]}))
                hooks.callback(keep.remove)
        else:
            hooks.enter_context(self.swapped(order))
        with hooks, torch.no_grad():
            patterns = self.model.model(self.prompts.input_ids, output_attentions=True, use_cache=False).attentions
        return torch.stack([block_means(pattern[:, :, -1], self.prompts) for pattern in patterns], 1)


def agree(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    """Both scores by one way against another."""
    for scores, others in zip(found, expected, strict=True):
        torch.testing.assert_close(scores.float(), others.float(), atol=SCORE_ERROR, rtol=0)


def seconds(run: Any) -> tuple[Any, float]:
    """What is returned, and how long it took."""
    began = time.perf_counter()
    returned = run()
    return returned, time.perf_counter() - began


def rows() -> Iterator[str]:
    """Table rows, as they are measured, on the CPU."""
    model, tokenizer = load_model(device="cpu")
    prompts = binding_prompts(tokenizer, facts=FACTS, count=PROMPTS, seed=0)
    what = f"all heads on {PROMPTS} prompts of {prompts.input_ids.shape[1]} tokens, {FACTS} blocks"
    blocks = prompts.layout
    found, own = seconds(lambda: profile(model, prompts.input_ids, tau=TAU, progress=False, **blocks))
    yield f"| {what}: `profile`, planes included | {own:.1f} s |"
    _, again = seconds(lambda: profile(model, prompts.input_ids, tau=TAU, progress=False, **blocks))
    yield f"| {what}: `profile` again, which knows the planes | {again:.1f} s |"

    # TransformerLens reads the tokenizer a second time, by where it came from.
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        options = {
            "hf_model": copy.deepcopy(model),
            "tokenizer": AutoTokenizer.from_pretrained(folder),
            "device": "cpu",
        }
        bridge = TransformerBridge.boot_transformers("google/gemma-3-270m", **options)
    swaps = orders(prompts)
    cached, other = seconds(lambda: by_cache(bridge, prompts, swaps))
    agree(cached, (found.positional, found.symbolic))
    yield f"| {what}: `run_with_cache` and keys permuted | {other:.1f} s, {other / own:.1f} times as long |"

    few = dict(itertools.islice(swaps.items(), 0, None, len(swaps) // SWAPS))
    model.set_attn_implementation("eager")
    passes, first = seconds(lambda: ByPasses(model, prompts))
    after, some = seconds(lambda: {pair: passes.means(order) for pair, order in few.items()})
    agree(weighted(passes.before, after), by_cache(bridge, prompts, few))
    every = first + some * len(swaps) / len(few)
    yield (
        f"| {what}: a forward pass a swap, extrapolated from {len(few)} of {len(swaps)} swaps | {every:.0f} s, "
        f"{every / own:.1f} times as long |"
    )

"""Scores of all heads by ``profile``, by what TransformerLens and nnsight capture, and by a forward pass for each swap.

All start from the same model and prompts and must agree. All pairs of blocks are swapped; for the last way, too
slow for that, the time of a few swaps is extrapolated.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from nnsight import LanguageModel
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoTokenizer
from transformers.models.gemma3.modeling_gemma3 import rotate_half

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


Captured = list[tuple[Tensor, Tensor]]


def by_cache(bridge: Any, ids: Tensor) -> Captured:
    """The queries and keys of all layers before their rotation, in TransformerLens; logits of one token alone."""
    ends = ("attn.q_norm.hook_out", "attn.k_norm.hook_out")
    last = torch.tensor([ids.shape[1] - 1])  # by place: a number of tokens takes several times as long
    with torch.no_grad():
        _, cache = bridge.run_with_cache(ids, names_filter=lambda name: name.endswith(ends), logits_to_keep=last)
    return [tuple(cache[f"blocks.{layer}.{end}"] for end in ends) for layer in range(len(bridge.blocks))]


def by_trace(lm: Any, ids: Tensor) -> Captured:
    """The same in nnsight, which stops behind the last layer's keys."""
    kept = []
    with torch.no_grad(), lm.trace(ids) as tracer:
        for layer in lm.model.layers:
            kept.append((layer.self_attn.q_norm.output.save(), layer.self_attn.k_norm.output.save()))
        tracer.stop()
    return kept


def permute_keys(
    model: Any, captured: Captured, prompts: Any, swaps: dict[tuple[int, int], Tensor]
) -> tuple[Tensor, Tensor]:
    """Permute every layer's keys before their rotation, pair by pair, and recompute the last token's pattern."""
    layers, positions = [], torch.arange(prompts.input_ids.shape[1])[None]
    for (query, keys), layer in zip(captured, model.model.layers, strict=True):
        cos, sin = model.model.rotary_emb(keys, positions, layer.self_attn.layer_type)
        last = layer.self_attn.scaling * (query * cos + rotate_half(query) * sin)[:, :, -1:]

        def means(
            order: Tensor, keys: Tensor = keys, cos: Tensor = cos, sin: Tensor = sin, last: Tensor = last
        ) -> Tensor:
            moved = keys[:, :, order]
            pattern = (last @ (moved * cos + rotate_half(moved) * sin).mT).softmax(-1)
            return block_means(pattern[:, :, -1], prompts)

        layers.append(weighted(means(positions[0]), {pair: means(order) for pair, order in swaps.items()}))
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
    scores, own = seconds(lambda: profile(model, prompts.input_ids, tau=TAU, **blocks))
    found = torch.as_tensor(scores.positional.values), torch.as_tensor(scores.symbolic.values)
    yield f"| {what}: `profile`, planes included | {own:.1f} s |"
    _, again = seconds(lambda: profile(model, prompts.input_ids, tau=TAU, **blocks))
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
    lm = LanguageModel(copy.deepcopy(model), tokenizer=tokenizer)
    tools: dict[str, Callable[[Tensor], Captured]] = {
        "TransformerLens' `run_with_cache`, one token's logits": partial(by_cache, bridge),
        "nnsight's `trace`, stopped behind the last keys": partial(by_trace, lm),
    }
    for tool, capture in tools.items():
        capture(prompts.input_ids[:1])
        permuted, other = seconds(
            lambda capture=capture: permute_keys(model, capture(prompts.input_ids), prompts, swaps)
        )
        agree(permuted, found)
        yield f"| {what}: {tool}, and keys permuted | {other:.1f} s, {other / own:.1f} times the first call |"

    few = dict(itertools.islice(swaps.items(), 0, None, len(swaps) // SWAPS))
    model.set_attn_implementation("eager")
    passes, first = seconds(lambda: ByPasses(model, prompts))
    after, some = seconds(lambda: {pair: passes.means(order) for pair, order in few.items()})
    agree(weighted(passes.before, after), permute_keys(model, by_cache(bridge, prompts.input_ids), prompts, few))
    every = first + some * len(swaps) / len(few)
    yield (
        f"| {what}: a forward pass a swap, extrapolated from {len(few)} of {len(swaps)} swaps | {every:.0f} s, "
        f"{every / own:.1f} times the first call |"
    )

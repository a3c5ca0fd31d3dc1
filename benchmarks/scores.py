"""Closed form against the literal definition, and scoring against the forward pass that yields the heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from benchmarks.timing import best, best_of_each, count_launches, peak_memory
from posym_core import rope_angles, rotate, swap_scores
from posym_profile import binding_prompts, load_model, origin_cube, profile
from posym_profile.planes._rotary_planes import _KEPT
from posym_profile.prompts import Prompts
from posym_profile.scores import measure_head_labels

LENGTH = 4


def literal(query: torch.Tensor, keys: torch.Tensor, angles: torch.Tensor, blocks: int) -> tuple[float, float]:
    """One head by permuting its keys, pair by pair: the definition, vectorised within a pair only."""
    positions = torch.arange(len(keys))
    contents = rotate(keys, -positions, angles)
    block = torch.arange(blocks * LENGTH).view(blocks, LENGTH)

    def means(order: torch.Tensor) -> torch.Tensor:
        attention = (rotate(contents[order], positions, angles) @ query).softmax(-1)
        return attention[block].mean(-1)

    before = means(positions)
    gaps, along, across = [], [], []
    for i in range(blocks):
        for j in range(i + 1, blocks):
            order = positions.clone()
            order[block[i]], order[block[j]] = block[j], block[i]
            after = means(order)[[i, j]]
            gaps.append((before[i] - before[j]).abs())
            along.append(torch.cosine_similarity(after, before[[i, j]], dim=0, eps=1e-8))
            across.append(torch.cosine_similarity(after, before[[j, i]], dim=0, eps=1e-8))
    weights = (torch.stack(gaps) / 1e-4).softmax(0)
    return float(weights @ torch.stack(along)), float(weights @ torch.stack(across))


def closed_form_against_loop() -> Iterator[str]:
    """One head of 256 dimensions, blocks of four keys."""
    angles = rope_angles(256)
    for blocks in (16, 64, 256):
        generator = torch.Generator().manual_seed(blocks)
        query = torch.randn(256, generator=generator) / 16
        keys = torch.randn(blocks * LENGTH + 2, 256, generator=generator)

        def closed(query: torch.Tensor = query, keys: torch.Tensor = keys) -> object:
            return swap_scores(query, keys, angles, block_length=LENGTH, products=torch.float32)

        def loop(query: torch.Tensor = query, keys: torch.Tensor = keys, blocks: int = blocks) -> object:
            return literal(query, keys, angles, blocks)

        fast = best(closed, repeats=9, warm_up=3)
        slow = best(loop, repeats=1, warm_up=0 if blocks > 64 else 1)
        yield f"| closed form against permuting keys, {blocks} blocks of {LENGTH} | {slow / fast:,.0f} times faster |"


def run_forward(model: Any, ids: torch.Tensor) -> object:
    """Run a pass without logits and without a cache."""
    with torch.no_grad():
        return model.base_model(ids, use_cache=False)


def draw_prompt(model: Any, length: int) -> torch.Tensor:
    """One prompt of random tokens, none of them a control token."""
    tokens = model.get_input_embeddings().weight.shape[0]
    drawn = torch.randint(tokens // 20, tokens, (1, length), generator=torch.Generator().manual_seed(0))
    return drawn.to(model.device)


def score_first(model: Any, score: Callable[[], object]) -> object:
    """Score as in a first call, when the model's planes are not known."""
    _KEPT.pop(model, None)
    return score()


def scoring_against_forward_pass(model: Any, lengths: Sequence[int] = (80, 256, 1024)) -> Iterator[str]:
    """All heads on one prompt; every four tokens are a block, as in README's example, or a sixty-fourth of them.

    Planes are found once for each model and length, in the first call; what that adds is a row of its own.
    """
    launched = "kernels launched by" if model.device.type == "cuda" else "operations of"
    for length in lengths:
        forward = partial(run_forward, model, draw_prompt(model, length))
        for block_length in sorted({LENGTH, max(LENGTH, (length - 2) // 64)}):
            score = partial(profile, model, forward.args[1], start=1, block_length=block_length, progress=False)
            ways = forward, score, partial(score_first, model, score)
            plain, again, first = best_of_each(*ways, repeats=max(3, 4096 // length))
            extra = peak_memory(score, model.device) - peak_memory(forward, model.device)
            what = f"{length} tokens, {(length - 2) // block_length} blocks of {block_length}"
            yield (
                f"| forward pass with all scores against without, {what} | {again / plain:.2f} times the time, "
                f"{round(extra / 2**20) + 0:+d} MB at the peak |"
            )
            yield f"| the same, first call, which finds planes, {what} | {first / plain:.2f} times the time |"
            if block_length == LENGTH:
                few, many = (count_launches(way, model.device) for way in (forward, score))
                yield f"| {launched} a forward pass with all scores, {what} | {many:,} (without: {few:,}) |"


def labels_against_forward_pass(model: Any, length: int = 256) -> Iterator[str]:
    """Yield the time of labels, which take passes over prompts of their own, whatever the profile's."""
    forward = partial(run_forward, model, draw_prompt(model, length))
    plain, labels = best_of_each(forward, partial(measure_head_labels, model))
    yield f"| labels of all heads against a forward pass, {length} tokens | {labels / plain:.2f} times the time |"


def cube_against_its_passes(model: Any, prompts: Prompts) -> Iterator[str]:
    """The cube of one prompt, in each layer, against the passes of its reordered prompts and nothing else."""
    forward = partial(run_forward, model, prompts.input_ids.to(model.device).repeat(prompts.blocks, 1))
    measure = partial(origin_cube, model, prompts.input_ids[0], **prompts.layout)
    plain, whole = best_of_each(forward, measure)
    what = f"symbol, origin and place in all heads against the {prompts.blocks} passes that it takes"
    yield f"| {what} | {whole / plain:.2f} times the time |"


def rows() -> Iterator[str]:
    """Table rows, as they are measured: of one head, and of the packaged model's."""
    yield from closed_form_against_loop()
    model, tokenizer = load_model("gemma-3-270m")
    yield from scoring_against_forward_pass(model)
    yield from labels_against_forward_pass(model)
    yield from cube_against_its_passes(model, binding_prompts(tokenizer, facts=16, count=1))

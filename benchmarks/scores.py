"""Closed form against the literal definition, and scoring against the forward pass that yields the heads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.timing import best, best_of_each, peak_memory
from posym_core import rope_angles, rotate, swap_scores
from posym_profile import binding_prompts, load_model, origin_cube, profile
from posym_profile.planes._rotary_planes import _KEPT

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


def scoring_against_forward_pass(model_name: str = "gemma-3-270m") -> Iterator[str]:
    """All heads of the packaged model, one prompt; every four tokens are a block, and 64 blocks.

    Planes are found once for each model and length, in the first call; what that adds is a row of its own.
    Every four tokens are a block, as in README's example, and in longer prompts also a sixty-fourth of them.
    """
    model, _ = load_model(model_name)
    tokens = model.get_input_embeddings().weight.shape[0]
    for length in (80, 256, 1024, 4096):
        ids = torch.randint(1000, tokens, (1, length), generator=torch.Generator().manual_seed(0)).to(model.device)

        def forward(ids: torch.Tensor = ids) -> object:
            with torch.no_grad():
                return model.base_model(ids, use_cache=False)

        def score_again(block_length: int, ids: torch.Tensor = ids) -> object:
            return profile(model, ids, start=1, block_length=block_length, progress=False)

        def score_first(block_length: int, score: Callable[[int], object] = score_again) -> object:
            _KEPT.pop(model, None)
            return score(block_length)

        for block_length in sorted({LENGTH, max(LENGTH, (length - 2) // 64)}):
            ways = forward, partial(score_again, block_length), partial(score_first, block_length)
            plain, again, first = best_of_each(*ways, repeats=7 if length < 1024 else 3)
            extra = peak_memory(ways[1], model.device) - peak_memory(forward, model.device)
            what = f"{length} tokens, {(length - 2) // block_length} blocks of {block_length}"
            yield (
                f"| forward pass with all scores against without, {what} | {again / plain:.2f} times the time, "
                f"{round(extra / 2**20) + 0:+d} MB at the peak |"
            )
            yield f"| the same, first call, which finds planes, {what} | {first / plain:.2f} times the time |"


def cube_against_its_passes(model_name: str = "gemma-3-270m") -> Iterator[str]:
    """The cube of one prompt of 16 facts, in each layer, against the passes of its 16 prompts and nothing else."""
    model, tokenizer = load_model(model_name)
    prompts = binding_prompts(tokenizer, facts=16, count=1)
    blocks = prompts.layout
    ids = prompts.input_ids.to(model.device).repeat(prompts.blocks, 1)

    def forward() -> object:
        with torch.no_grad():
            return model.base_model(ids, use_cache=False)

    def measure() -> object:
        return origin_cube(model, prompts.input_ids[0], **blocks)

    plain, whole = best_of_each(forward, measure, repeats=5)
    what = "symbol, origin and place in all heads against the 16 passes that it takes"
    yield f"| {what} | {whole / plain:.2f} times the time |"


def rows() -> Iterator[str]:
    """Table rows, as they are measured."""
    yield from closed_form_against_loop()
    yield from scoring_against_forward_pass()
    yield from cube_against_its_passes()

"""Multi-hop training: our steps against transformers', and what watching every head costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.timing import best, peak_memory
from posym_companion.several_hops.gptj import AnswerLoss
from posym_companion.several_hops.multihop import TRAINING, MultihopSettings, Watch
from posym_core.models import train
from posym_core.store import choose_device


class ByTransformers(nn.Module):
    """The same loss by transformers' own forward pass and layers of dropout."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def losses(self, batch: tuple[Tensor, Tensor, int]) -> Tensor:
        tokens, answer, seed = batch
        torch.manual_seed(seed)
        hidden = self.model.transformer(tokens, use_cache=False).last_hidden_state
        return nn.functional.cross_entropy(self.model.lm_head(hidden[:, -1]), answer)


def train_steps(model: nn.Module, batch: tuple[Any, ...], settings: MultihopSettings, steps: int) -> None:
    """A whole training of so many steps from its beginning."""
    made = replace(settings.training, steps=steps, record_every=steps)
    train(model, lambda *_: batch, generators=[], settings=made, progress=False)


def training_rows(settings: MultihopSettings, shown: str, *, steps: int) -> Iterator[str]:
    """Yield steps a second of one model both ways."""
    device = choose_device()
    steps = steps if device.type == "cpu" else 50 * steps

    def made() -> AnswerLoss:
        return AnswerLoss(settings.make_model().to(device))

    drawn = settings.sample(settings.batch, TRAINING)
    batch = drawn.tokens.to(device), drawn.answer.to(device), 0
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if device.type == "cuda" else []):
        # Memory first: what a process has had once it keeps.
        peak = peak_memory(partial(train_steps, made(), batch, settings, steps), device)
        ways = ByTransformers(made().model), made()
        theirs, ours = (best(partial(train_steps, way, batch, settings, steps), repeats=3) for way in ways)
    yield f"| training, {shown} | {steps / ours:.1f} steps a second, {peak / 2**20:.0f} MB at the peak |"
    yield f"| training against transformers' forward pass, {shown} | {theirs / ours:.2f} times as fast |"


def watching_rows(settings: MultihopSettings, shown: str) -> Iterator[str]:
    """One checkpoint (all heads, all stations) against one step of the same model."""
    device = choose_device()
    trained, watch = AnswerLoss(settings.make_model().to(device)), Watch(settings, device)
    drawn = settings.sample(settings.batch, TRAINING)
    batch = drawn.tokens.to(device), drawn.answer.to(device), 0
    step = best(partial(train_steps, trained, batch, settings, 5), repeats=3) / 5
    trained.model.eval()
    score = best(lambda: watch.scores(trained.model), repeats=3)
    queries = settings.monitored * settings.hops * (settings.hops + 1) // 2 * settings.layers * settings.heads
    yield f"| scoring {queries:,} queries against a training step, {shown} | {score / step:.1f} steps |"
    share = score / step / settings.checkpoint_every
    yield f"| scoring at every {settings.checkpoint_every} steps, {shown} | {share:.2%} of the training time |"


def rows() -> Iterator[str]:
    """Table rows, as they are measured."""
    for settings, steps in ((MultihopSettings.small(), 20), (MultihopSettings(), 4)):
        shown = f"{settings.layers} layers of {settings.width} dimensions, {settings.task}"
        yield from training_rows(settings, shown, steps=steps)
        yield from watching_rows(settings, shown)

"""What watching every head costs while a multi-hop model trains, in training steps."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.timing import best
from posym_companion.several_hops.multihop import TRAINING, MultihopSettings, Watch
from posym_core.models.gptj import AnswerLoss
from posym_core.runs.devices import choose_device


def monitor_against_step(settings: MultihopSettings) -> Iterator[str]:
    """One checkpoint (all heads, all stations) and one look at the accuracy, against one step of the same model."""
    device = choose_device()
    trained = AnswerLoss(settings.make_model().to(device))
    model = trained.model
    optimizer = settings.training.optimizer(list(model.parameters()))
    batch = settings.sample(settings.batch, TRAINING)
    tokens, answer = batch.tokens.to(device), batch.answer.to(device)
    watch = Watch(settings, device, None)

    def step() -> None:
        model.train()
        optimizer.zero_grad(set_to_none=True)
        trained.losses((tokens, answer, 0)).backward()
        optimizer.step()

    def scored() -> None:
        watch.scores(model.eval())

    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if device.type == "cuda" else []):
        one = best(step, repeats=5, warm_up=2)
    score = best(scored, repeats=3)
    shown = f"{settings.layers} layers of {settings.width} dimensions, {settings.task}"
    yield f"| training, {shown} | {1 / one:.1f} steps a second |"
    queries = settings.monitored * settings.hops * (settings.hops + 1) // 2 * settings.layers * settings.heads
    yield f"| scoring {queries:,} queries against a training step, {shown} | {score / one:.1f} steps |"
    share = score / one / settings.checkpoint_every
    yield f"| scoring at every {settings.checkpoint_every} steps, {shown} | {share:.2%} of the training time |"


def rows() -> Iterator[str]:
    """Table rows, as they are measured."""
    yield from monitor_against_step(MultihopSettings.small())
    yield from monitor_against_step(MultihopSettings.full())

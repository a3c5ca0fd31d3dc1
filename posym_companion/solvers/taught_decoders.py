"""Small decoders that know index and are taught to bind, by whole matrices or by low-rank additions.

They have learned to give the attribute of a fact by its number. What they are then taught is the attribute of a fact by
its name, with nothing but the matrices of attention, or with additions of rank 4 to these and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import nn

from posym_companion.solvers.families import FactsLoss, family_model
from posym_companion.solvers.low_rank_training import train_lora, train_matrices
from posym_companion.solvers.taught_gemma import PROJECTIONS
from posym_core.models import CosineSettings, make_generators
from posym_core.tasks import FactsTask

Lesson = Literal["additions", "matrices"]
LAYERS, RANK, BATCH = 4, 4, 64
TASK = FactsTask(facts=8)
STEPS = 1600
# Additions are made of two small factors each and need larger steps than whole matrices.
RATES = {"index": 6e-3, "matrices": 3e-3, "additions": 1e-2}


@contextlib.contextmanager
def teach_decoder(lesson: Lesson, seed: int, *, steps: int = STEPS) -> Iterator[Any]:
    """Within the block, have a decoder that was taught to bind, in evaluation mode.

    Args:
        lesson: what is trained.
        seed: of the weights and of what is drawn; the same decoder before both lessons.
        steps: of each part of its teaching, at most: it ends where the loss is below 0.05.
    """
    model = family_model("llama", TASK, layers=LAYERS, seed=seed)
    _learn(model, list(model.parameters()), "index", "index", seed, steps)
    names = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in PROJECTIONS]
    with contextlib.ExitStack() as stack:
        if lesson == "matrices":
            stack.enter_context(train_matrices(model, names))
            trained: list[nn.Parameter] = [model.get_submodule(name).weight for name in names]
        else:
            model.requires_grad_(False)
            generator = torch.Generator().manual_seed(seed)
            trained = list(stack.enter_context(train_lora(model, names, rank=RANK, generator=generator)).values())
        _learn(model, trained, "binding", lesson, seed, steps)
        yield model.eval()


def _learn(
    model: Any, trained: Sequence[nn.Parameter], question: Literal["index", "binding"], rate: str, seed: int, steps: int
) -> None:
    """Train some weights on one kind of question until the loss is low."""
    task = FactsTask(facts=TASK.facts, questions=(question,))
    settings = CosineSettings(
        steps=steps, batch=BATCH, learning_rate=RATES[rate], warmup=100, betas=(0.9, 0.98), stop_loss=0.05
    )
    (generator,) = make_generators((seed,), torch.device("cpu"), purpose=question == "binding")
    optimiser, loss = settings.optimizer(list(trained)), FactsLoss(model, task)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = settings.rate(step)
        value = loss.losses(task.sample(BATCH, generator))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        if settings.stop_loss is not None and value.item() < settings.stop_loss:
            break

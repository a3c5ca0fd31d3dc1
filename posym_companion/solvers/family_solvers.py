"""Small language models of three architectures, trained on binding and index, profiled as the large ones are.

Urrutia et al. (2026a) profile Gemma-2, Qwen-2 and Llama-3. Weights of these are not part of this project; their
architectures are, at the size of the decoders of :mod:`posym_companion.solvers.task_solvers`. One result a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.experiments import Experiment
from posym_companion.solvers.families import FAMILIES, FactsLoss, Family, answers_right, family_model
from posym_companion.solvers.single_heads import patch_head
from posym_core.metrics import BlockLayout, simulate_random_swaps
from posym_core.models import CosineSettings, History, make_generators, train
from posym_core.store import choose_device
from posym_core.tasks import FactsBatch, FactsTask, Question
from posym_profile.interventions import record_head_outputs
from posym_profile.scores import LayerHeads, map_layers

TRAINING, LOOKING, TESTING, SCORING = range(4)  # purposes of data streams
QUESTIONS: tuple[Question, ...] = ("binding", "index")
DIMS = {
    "loss": "record",
    "look_step": "look",
    "look_accuracy": "look question",
    "right": "question prompt",
    "scores null_scores": "question layer head kind",
    "entropy ablated": "question layer head",
}


@dataclass(frozen=True, kw_only=True)
class FamilySolver:
    """One model.

    Attributes:
        family: architecture, see :func:`posym_companion.solvers.families.family_model`.
        seed: of weights and data.
        layers: number of layers.
        heads: heads a layer.
        width: of the residual stream.
        window: tokens that Gemma-2's first layer sees, and every other.
        facts: facts of a prompt.
        training: as of the decoders.
        look_every: steps between looks at the accuracy.
        test_prompts: prompts of each kind for accuracy and ablation.
        score_prompts: prompts of each kind for scores.
    """

    family: Family = "llama"
    seed: int = 0
    layers: int = 2
    heads: int = 2
    width: int = 64
    window: int = 8
    facts: int = 8
    training: CosineSettings = field(
        default_factory=lambda: CosineSettings(
            steps=1600, batch=64, learning_rate=6e-3, warmup=100, betas=(0.9, 0.98), record_every=25, stop_loss=0.05
        )
    )
    look_every: int = 50
    test_prompts: int = 512
    score_prompts: int = 48

    @property
    def name(self) -> str:
        return f"family_solvers/{self.family}_{self.seed}"

    @property
    def task(self) -> FactsTask:
        """The task."""
        return FactsTask(facts=self.facts, questions=QUESTIONS)


def full_size() -> list[FamilySolver]:
    """Three seeds of every family, seed by seed; there is no ``model`` to choose."""
    return [FamilySolver(family=family, seed=seed) for seed in range(3) for family in FAMILIES]


def small(setting: FamilySolver | None = None) -> FamilySolver:
    """A size for trying out."""
    setting = setting or FamilySolver()
    training = replace(setting.training, steps=20, batch=8)
    return replace(setting, facts=4, training=training, look_every=10, test_prompts=32, score_prompts=8)


def measure(
    setting: FamilySolver, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Train one model and profile it.

    Returns:
        ``loss``, accuracy at looks, which test prompts are answered ``right``, and of every head on each kind of
        question ``scores`` and those of the null model, entropy, and accuracy with the head ``ablated``.
    """
    model = make_untrained(setting).to(choose_device(device))
    history = train_solver(setting, model, work=work, progress=progress)
    arrays: dict[str, list[np.ndarray]] = {}
    for question in QUESTIONS:
        for name, values in profile_question(setting, model, question).items():
            arrays.setdefault(name, []).append(values)
    return {
        "loss": history.losses.numpy(),
        "look_step": history.observed_at.numpy(),
        **{name: values.numpy() for name, values in history.observations.items()},
        **{name: np.stack(values) for name, values in arrays.items()},
    }


def make_untrained(setting: FamilySolver) -> Any:
    """The model before its first step, on the CPU."""
    sizes = {name: getattr(setting, name) for name in ("layers", "heads", "width", "window", "seed")}
    return family_model(setting.family, setting.task, **sizes)


def train_solver(setting: FamilySolver, model: Any, *, work: Path | None = None, progress: bool = True) -> History:
    """Train the model and leave it in evaluation mode."""
    task = setting.task
    history = train(
        FactsLoss(model, task),
        lambda count, generators: task.sample(count, generators[0]),
        generators=make_generators((setting.seed,), model.device, purpose=TRAINING),
        settings=setting.training,
        observe=make_observer(setting, model),
        checkpoint=work / "training.safetensors" if work is not None else None,
        checkpoint_every=200,
        progress=progress,
        label=setting.name,
    )
    model.eval()
    return history


def load_solver(setting: FamilySolver, device: torch.device, *, progress: bool = False) -> Any:
    """The model after its training, in evaluation mode and without gradients."""
    model = make_untrained(setting).to(device)
    train_solver(setting, model, progress=progress)
    return model.requires_grad_(False)


def draw_questions(setting: FamilySolver, question: Question, count: int, purpose: int, device: Any) -> FactsBatch:
    """Fresh prompts with one question."""
    (generator,) = make_generators((setting.seed,), device, purpose=purpose)
    return setting.task.ask(question, count, generator)


def make_observer(setting: FamilySolver, model: Any):
    """An observer of the accuracy by question every so many steps."""

    def observe(step: int, _: Any) -> Mapping[str, Tensor] | None:
        if step % setting.look_every:
            return None
        model.eval()
        batches = [draw_questions(setting, question, 128, LOOKING, model.device) for question in QUESTIONS]
        right = [answers_right(model, setting.task, batch).mean() for batch in batches]
        model.train()
        return {"look_accuracy": torch.stack(right)}

    return observe


@torch.no_grad()
def profile_question(setting: FamilySolver, model: Any, question: Question) -> dict[str, np.ndarray]:
    """Everything of one kind of question."""
    task = setting.task
    swaps = BlockLayout(start=1, block_length=task.words, blocks=task.facts)
    generator = torch.Generator().manual_seed(0)

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        scores = heads.swap_scores(swaps)
        null = simulate_random_swaps(scores.attention.cpu(), generator=generator)
        return {
            "scores": torch.stack([scores.positional, scores.symbolic], -1),
            "null_scores": torch.stack(null, -1),
            "entropy": scores.entropy,
        }

    prompts = draw_questions(setting, question, setting.score_prompts, SCORING, model.device)
    measured = map_layers(model, prompts.tokens, one_layer, progress=False)
    batch = draw_questions(setting, question, setting.test_prompts, TESTING, model.device)
    means = record_head_outputs(model, batch.tokens).outputs.mean(0)
    right = torch.empty(setting.layers, setting.heads)
    answer = (task.first_attribute + batch.answer[:, 0]).cpu()
    for layer in range(setting.layers):
        for head in range(setting.heads):
            outputs = patch_head(model, batch.tokens, means, layer, head).argmax(-1)
            right[layer, head] = (outputs == answer).float().mean()
    return {
        **{name: values.nanmean(0).float().numpy() for name, values in measured.items()},
        "right": answers_right(model, task, batch)[:, 0].bool().cpu().numpy(),
        "ablated": right.numpy(),
    }


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS)

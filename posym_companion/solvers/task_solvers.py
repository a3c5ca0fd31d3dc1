"""Decoders of a few layers that solve binding and index: which angles let them, and what their heads do then.

Urrutia et al. (2026a) measure positional and symbolic heads on language models, and show on models of one layer and one
head that frequencies decide which task is learned. Here several layers and heads learn both tasks at once, so that the
claims meet models that solve what they are measured on and whose heads' roles can be found out by intervention. This
project's own. One result a setting: five seeds that differ in weights and data, all of one band of angles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posym_companion.experiments import Experiment
from posym_companion.head_measurements import LayerLook, Measurement
from posym_companion.solvers.head_roles import mark_members_right, mean_ablation, patching, with_other_answers
from posym_companion.solvers.solver_settings import TaskSolvers, full_size, small
from posym_core.metrics import BlockLayout
from posym_core.models import DecoderEnsemble, History, Observer, make_generators, sample_streams, stack_streams, train
from posym_core.store import choose_device
from posym_core.tasks import FactsBatch, Question
from posym_profile.scores import LayerHeads

TRAINING, LOOKING, TESTING, SCORING, ANSWERING = range(5)  # purposes of data streams
SCORES = ("positional", "symbolic", "entropy", "spread")
SHARES = ("positional_share", "symbolic_share", "interaction_share")
# What heads are looked at for: the numbers along the last dimension of each array.
HEADS: Mapping[str, Sequence[str | Measurement]] = {
    "scores": (*SCORES[:3], lambda layer: layer.matrix.diagonal(dim1=-2, dim2=-1).std(-1)),
    "null_scores": ("null_positional", "null_symbolic"),
    "shares": SHARES,
    "energy": ("plane_energy_share",),
}
DIMS = {
    "angles": "layer plane",
    "hits asked": "seed question fact",
    "look_step": "look",
    "look_accuracy": "look seed question",
    "scores": "seed question layer head score",
    "null_scores": "seed question layer head kind",
    "shares": "seed question layer head share",
    "intact": "seed question",
    "ablated patched": "seed question layer head",
    "stopped": "seed question stop",
    "energy": "seed question layer head plane",
}


def measure(
    setting: TaskSolvers, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Train one ensemble, and return what its heads are and do.

    Right answers ``hits`` of ``asked`` are by the place of the fact. A head is ``ablated`` and ``patched`` as
    :mod:`posym_companion.solvers.head_roles` says, and ``intact`` is the accuracy on the same prompts. ``stopped`` is
    that with planes stopped after training: all, those that turn by a whole turn or more over the context, those that
    turn by less than an eighth.
    """
    model, history = train_ensemble(
        setting, device=device, work=work, observe=make_observer(setting), progress=progress
    )
    arrays = {
        "angles": setting.angles.numpy(),
        "look_step": history.observed_at.numpy(),
        **{name: values.numpy() for name, values in history.observations.items()},
    }
    return arrays | measure_roles(model, setting) | measure_heads(model, setting)


def train_ensemble(
    setting: TaskSolvers, *, device: str, work: Path | None, observe: Observer | None = None, progress: bool = True
) -> tuple[DecoderEnsemble, History]:
    """Return the ensemble after its training, and what was recorded on the way."""
    chosen = choose_device(device)
    model = DecoderEnsemble(setting.task, setting.angles[None], seeds=setting.seeds, heads=setting.heads).to(chosen)
    history = train(
        model,
        lambda count, generators: sample_streams(setting.task, count, generators),
        generators=make_generators(setting.seeds, chosen, purpose=TRAINING),
        settings=setting.training,
        observe=observe,
        checkpoint=work / "training.safetensors" if work is not None else None,
        checkpoint_every=200,
        progress=progress,
        label=setting.name,
    )
    return model, history


def draw_questions(model: DecoderEnsemble, question: Question, count: int, purpose: int) -> FactsBatch:
    """Return fresh prompts with one question."""
    generators = make_generators(model.seeds, model.embedding.device, purpose=purpose)
    return stack_streams([model.task.ask(question, count, each) for each in generators])


def make_observer(setting: TaskSolvers):
    """Return an observer of accuracy by question, every so many steps."""

    def observe(step: int, model: DecoderEnsemble) -> Mapping[str, Tensor] | None:
        if step % setting.look_every:
            return None
        accuracy = [
            mark_members_right(model, draw_questions(model, question, 128, LOOKING)).mean((1, 2, 3))
            for question in setting.questions
        ]
        return {"look_accuracy": torch.stack(accuracy, -1)}

    return observe


def fact_layout(setting: TaskSolvers) -> BlockLayout:
    """Return the layout in which facts are the blocks that change places."""
    return BlockLayout(start=1, block_length=setting.task.words, blocks=setting.facts)


@torch.no_grad()
def capture_heads(model: DecoderEnsemble, batch: FactsBatch) -> list[LayerHeads]:
    """Return the heads of every seed and layer on prompts with one question, seed by seed."""
    layers = model.queries_and_keys(batch.tokens)
    rows, tokens = batch.tokens.shape[1:]
    return [
        LayerHeads(
            layer=number,
            prompts=slice(rows),
            query=query[seed, 0][:, :, None],
            keys=keys[seed, 0][:, :, None],
            angles=model.angles[0, number],
            scale=model.scale,
            visible=torch.ones(rows, 1, 1, tokens, dtype=torch.bool, device=query.device),
            softcap=None,
            sinks=None,
        )
        for seed in range(len(model.seeds))
        for number, (query, keys) in enumerate(layers)
    ]


def measure_roles(model: DecoderEnsemble, setting: TaskSolvers) -> dict[str, np.ndarray]:
    """Return accuracy by place, what every head's ablation and patching do, and what stopping planes does."""
    arrays: dict[str, list[Tensor]] = {
        name: [] for name in ("hits", "asked", "intact", "ablated", "patched", "stopped")
    }
    turns = model.angles * (setting.task.context - 1) / (2 * math.pi)
    stops = (torch.ones_like(turns, dtype=torch.bool), turns >= 1 - 1e-9, turns < 1 / 8 - 1e-9)
    for question in setting.questions:
        batch = draw_questions(model, question, setting.test_prompts, TESTING)
        right = mark_members_right(model, batch)[:, 0, :, 0]
        places = torch.zeros(len(right), setting.facts, device=right.device)
        fact = batch.fact[..., 0]
        arrays["hits"].append(places.scatter_add(1, fact, right).short())
        arrays["asked"].append(places.scatter_add(1, fact, torch.ones_like(right)).short())
        arrays["intact"].append(right.mean(1))
        arrays["ablated"].append(mean_ablation(model, batch)[:, 0])
        arrays["patched"].append(patching(model, batch, with_other_answers(model, batch))[:, 0])
        angles, accuracies = model.angles, []
        try:
            for stop in stops:
                model.angles = torch.where(stop, 0, angles)
                accuracies.append(mark_members_right(model, batch).mean((1, 2, 3)))
        finally:
            model.angles = angles
        arrays["stopped"].append(torch.stack(accuracies, -1))
    return {name: torch.stack(rows, 1).cpu().numpy() for name, rows in arrays.items()}


def measure_heads(model: DecoderEnsemble, setting: TaskSolvers) -> dict[str, np.ndarray]:
    """Return scores, shares and planes' energy of every head on every kind of question, means over prompts."""
    rows: dict[str, list[Tensor]] = {}
    keys = slice(1, setting.task.context - 1)
    for question in setting.questions:
        batch = draw_questions(model, question, setting.score_prompts, SCORING)
        generator = torch.Generator().manual_seed(0)
        here: dict[str, list[Tensor]] = {}
        for number, heads in enumerate(capture_heads(model, batch)):
            layer = LayerLook(
                heads=heads,
                layout=fact_layout(setting),
                keys=keys,
                target=batch.fact[number // setting.layers, :, 0],
                generator=generator,
            )
            for name, parts in HEADS.items():
                values = [layer.measure(part) for part in parts]
                value = values[0] if len(values) == 1 else torch.stack(values, -1)
                here.setdefault(name, []).append(value[:, :, 0].nanmean(0).cpu())
        for name, values in here.items():
            rows.setdefault(name, []).append(torch.stack(values).unflatten(0, (len(setting.seeds), setting.layers)))
    return {name: torch.stack(values, 1).half().numpy() for name, values in rows.items()}


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS)

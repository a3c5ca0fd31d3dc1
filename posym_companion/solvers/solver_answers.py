"""Scores of heads where a decoder that solves its task answers right, and where it answers wrong.

Urrutia et al. (2026a) score heads on prompts whether or not the model answers them. A model that solves the task is
wrong now and then: if a head's score says how it works towards the answer, it should be another there. Expected before
the run: on wrong answers the heads that carry the answer have less attention on the fact that is asked about, by more
than half, and those of binding are as symbolic as on right ones (difference of s_SYM below 0.1), because a head that
compares contents and finds the wrong one still compares contents. This project's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posym_companion.experiments import Experiment
from posym_companion.solvers.head_roles import mark_members_right, patching, with_other_answers
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.solver_settings import small as small_solver
from posym_companion.solvers.task_solvers import (
    ANSWERING,
    TESTING,
    capture_heads,
    draw_questions,
    fact_layout,
    train_ensemble,
)
from posym_core.models import DecoderEnsemble, make_generators, stack_streams
from posym_core.tasks import FactsBatch, Question

MEASURED = ("positional", "symbolic", "asked_attention")
DIMS = {
    "accuracy": "seed question",
    "patched": "seed question layer head",
    "*": "seed question answer prompt layer head",
}
# Bands that were solved by all seeds within few steps.
SOLVED_BY = ("1e4", "1e6", "fast+1e4")


@dataclass(frozen=True, kw_only=True)
class SolverAnswers:
    """One ensemble, trained once more.

    Attributes:
        solver: what is trained, as in :mod:`posym_companion.solvers.task_solvers`.
        rounds: of a thousand prompts a seed and kind of question that are asked.
        kept: right and wrong answers of a seed and kind of question that are scored, the first ones of each.
    """

    solver: TaskSolvers = field(default_factory=TaskSolvers)
    rounds: int = 4
    kept: int = 40

    @property
    def name(self) -> str:
        return f"solver_answers/{self.solver.name.partition('/')[2]}"


def full_size() -> list[SolverAnswers]:
    """Three bands; there is no ``model`` to choose."""
    return [SolverAnswers(solver=TaskSolvers(band=band)) for band in SOLVED_BY]


def measure(
    setting: SolverAnswers, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Train an ensemble, ask until enough is answered wrong, and score heads on both kinds of answer.

    Returns:
        ``accuracy [seed, question]`` of all that was asked; ``patched [seed, question, layer, head]``, what a head
        carries; and for right answers (first) and wrong ones ``positional``, ``symbolic`` and ``asked_attention``, on
        the fact that is asked about, ``[seed, question, answer, prompt, layer, head]``, NaN where there are fewer.
    """
    solver = setting.solver
    model, _ = train_ensemble(solver, device=device, work=work, progress=progress)
    rows: dict[str, list[Tensor]] = {}
    for question in solver.questions:
        batch = draw_questions(model, question, solver.test_prompts, TESTING)
        measured = {"patched": patching(model, batch, with_other_answers(model, batch))[:, 0].float()}
        measured |= by_answer(model, question, setting)
        for name, values in measured.items():
            rows.setdefault(name, []).append(values.cpu())
    return {name: torch.stack(values, 1).numpy() for name, values in rows.items()}


def by_answer(model: DecoderEnsemble, question: Question, setting: SolverAnswers) -> dict[str, Tensor]:
    """Accuracy on one kind of question, and every head's measurements on right and on wrong answers."""
    generators = make_generators(model.seeds, model.embedding.device, purpose=ANSWERING)
    batches = [
        stack_streams([model.task.ask(question, 1000, each) for each in generators]) for _ in range(setting.rounds)
    ]
    whole = FactsBatch(*(torch.cat(parts, 1) for parts in zip(*batches, strict=True)))
    right = torch.cat([mark_members_right(model, batch)[:, 0, :, 0] for batch in batches], 1).bool()
    kinds = [score_prompts(model, whole, chosen, setting) for chosen in (right, ~right)]
    return {
        "accuracy": right.float().mean(1),
        **{name: torch.stack([kind[name] for kind in kinds], 1) for name in MEASURED},
    }


def score_prompts(
    model: DecoderEnsemble, whole: FactsBatch, chosen: Tensor, setting: SolverAnswers
) -> dict[str, Tensor]:
    """Measurements ``[seed, prompt, layer, head]`` on each seed's first chosen prompts, NaN where there are fewer."""
    first = chosen.int().argsort(dim=1, descending=True, stable=True)[:, : setting.kept]
    places = chosen.gather(1, first)
    batch = FactsBatch(*(x[torch.arange(len(x), device=x.device)[:, None], first] for x in whole))
    layers = setting.solver.layers
    rows: dict[str, list[Tensor]] = {name: [] for name in MEASURED}
    for number, layer in enumerate(capture_heads(model, batch)):
        scores = layer.swap_scores(fact_layout(setting.solver))
        fact = batch.fact[number // layers, :, 0]
        on_facts = scores.attention * setting.solver.task.words
        place = fact[:, None, None, None].expand(*on_facts.shape[:-1], 1)
        by_layer = (scores.positional, scores.symbolic, on_facts.gather(-1, place)[..., 0])
        for name, values in zip(MEASURED, by_layer, strict=True):
            rows[name].append(values[:, :, 0])
    stacked = {name: torch.stack(x).unflatten(0, (-1, layers)).movedim(1, 2) for name, x in rows.items()}
    return {name: x.float().masked_fill(~places[..., None, None], torch.nan) for name, x in stacked.items()}


EXPERIMENT = Experiment(
    settings=full_size, small={"solver": small_solver, "rounds": 1, "kept": 4}, measure=measure, dims=DIMS
)

"""Heads of decoders that were never trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from posym_companion.results import name_dims
from posym_companion.solvers import random_solvers, task_solvers
from posym_companion.solvers.random_solvers import (
    APART,
    DIMS,
    EXPERIMENT,
    full_size,
    measure,
    measure_draw,
)
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.task_solvers import SCORING, capture_heads, draw_questions, fact_layout, measure_heads
from posym_core.metrics import score_swaps
from posym_core.models._decoders import DecoderEnsemble

SOLVER = TaskSolvers(facts=4, seeds=(0, 1), layers=3)


def test_scores_are_those_of_the_same_ensemble_before_training():
    found = measure_draw(SOLVER, 1, 5, torch.device("cpu"))
    seeds = (2 * APART, 2 * APART + 1)
    model = DecoderEnsemble(SOLVER.task, SOLVER.angles[None], seeds=seeds, heads=2)
    for place, question in enumerate(SOLVER.questions):
        heads = capture_heads(model, draw_questions(model, question, 5, SCORING))
        for number, layer in enumerate(heads):
            scores = score_swaps(layer, fact_layout(SOLVER))
            mine = found[number // 3, place, number % 3]
            np.testing.assert_allclose(mine[:, 0], scores.positional.mean(0)[:, 0], rtol=1e-5)
            np.testing.assert_allclose(mine[:, 1], scores.symbolic.mean(0)[:, 0], rtol=1e-5)


def test_use_is_that_of_the_ensemble_that_was_never_trained(monkeypatch):
    monkeypatch.setattr(random_solvers, "DRAWS", 2)
    found = measure(EXPERIMENT.shrink(full_size()[1]), device="cpu", progress=False)
    name_dims(DIMS, found)
    assert list(found) == ["1e4_2x2_8_use", "fast_2x2_8_use"]
    solver = next(each for each in task_solvers.full_size() if each.name.endswith("/1e4_2x2_8"))
    one = replace(solver, seeds=tuple(APART + seed for seed in solver.seeds), score_prompts=3)
    model = DecoderEnsemble(one.task, one.angles[None], seeds=one.seeds, heads=one.heads)
    with torch.no_grad():
        heads = measure_heads(model, one)
    scores = heads["scores"][:, 0].astype(float)
    np.testing.assert_allclose(found["1e4_2x2_8_use"][0, :, 0, ..., 0], scores[..., 0] - scores[..., 1], atol=1e-6)

"""Right and wrong answers of decoders: which prompts are scored, and that scores are those of the model itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from posym_companion.results import load_result
from posym_companion.solvers import solver_answers, task_solvers
from posym_companion.solvers.head_roles import mark_members_right
from posym_companion.solvers.solver_answers import EXPERIMENT, SolverAnswers
from posym_core.models._ensembles import make_generators, stack_streams


def tiny() -> SolverAnswers:
    setting = EXPERIMENT.shrink(SolverAnswers())
    training = dataclasses.replace(setting.solver.training, steps=12, batch=8, record_every=4)
    solver = dataclasses.replace(setting.solver, width=16, training=training, test_prompts=24)
    return dataclasses.replace(setting, solver=solver)


@pytest.fixture(scope="module")
def measured():
    return solver_answers.measure(tiny(), device="cpu", progress=False)


def test_right_answers_are_right_and_scored_as_one_by_one(measured):
    setting = tiny()
    model, _ = task_solvers.train_ensemble(setting.solver, device="cpu", work=None, progress=False)
    generators = make_generators(model.seeds, torch.device("cpu"), purpose=task_solvers.ANSWERING)
    batch = stack_streams([model.task.ask("binding", 1000, each) for each in generators])
    right = mark_members_right(model, batch)[:, 0, :, 0].bool()
    np.testing.assert_allclose(measured["accuracy"][:, 0], right.float().mean(1), atol=1e-6)
    for answer, chosen in enumerate((right, ~right)):
        for seed in range(2):
            for place, prompt in enumerate(torch.nonzero(chosen[seed])[: setting.kept, 0].tolist()):
                alone = type(batch)(*(x[:, prompt : prompt + 1] for x in batch))
                layers = task_solvers.capture_heads(model, alone)[seed * 2 : seed * 2 + 2]
                for number, layer in enumerate(layers):
                    scores = layer.swap_scores(task_solvers.fact_layout(setting.solver))
                    fact = int(batch.fact[seed, prompt, 0])
                    expected = {
                        "positional": scores.positional[0, :, 0],
                        "symbolic": scores.symbolic[0, :, 0],
                        "asked_attention": 2 * scores.attention[0, :, 0, fact],
                    }
                    for name, value in expected.items():
                        found = measured[name][seed, 0, answer, place, number]
                        np.testing.assert_allclose(found, value, atol=1e-5)


def test_places_without_an_answer_are_undefined():
    setting = dataclasses.replace(tiny(), kept=900)
    found = solver_answers.measure(setting, device="cpu", progress=False)
    there = np.isfinite(found["positional"]).all((-1, -2))
    hits = np.round(1000 * found["accuracy"]).astype(int)
    np.testing.assert_array_equal(there[:, :, 0].sum(-1), hits)
    np.testing.assert_array_equal(there[:, :, 1].sum(-1), np.minimum(1000 - hits, 900))


def test_a_run_is_kept_under_the_solvers_name(tmp_path):
    (result,) = solver_answers.EXPERIMENT.run([tiny()], folder=tmp_path, progress=False)
    assert result.name == "solver_answers/1e4_2x2_4"
    assert load_result(result.name, folder=tmp_path)["positional"].shape == (2, 2, 2, 4, 2, 2)

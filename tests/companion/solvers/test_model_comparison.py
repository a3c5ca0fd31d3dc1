"""Rows of the survey: numbers of the core on the scores that are stored beside them, and solvers that are retrained."""

from __future__ import annotations

import numpy as np
import pytest

from posym_companion.results import name_dims
from posym_companion.solvers import family_solvers, model_comparison
from posym_companion.solvers.model_comparison import SurveyedModel
from posym_core.metrics._trends import TRENDS, measure_head_trends


@pytest.mark.parametrize(("family", "trained"), [("gemma2", False), ("llama", True)])
def test_a_row_is_counted_from_what_is_stored(family, trained):
    setting = model_comparison.EXPERIMENT.shrink(SurveyedModel(model=family, trained=trained, task="index"))
    found = model_comparison.measure(setting, device="cpu", progress=False)
    name_dims(model_comparison.DIMS, found)
    scores = (found[name] for name in ("positional", "symbolic"))
    again = measure_head_trends(
        *scores,
        found["plane_energy"][None],
        found["plane_angle"],
        tokens=int(found["tokens"]),
        local=found["windows"] > 0,
    )
    for name in TRENDS:
        number = getattr(again, name)
        expected = [np.nan] * 3 if number is None else [number.value, number.low, number.high]
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
    assert found["right"][0] == found["correct"].mean()
    assert found["windows"].tolist() == ([8, 0] if family == "gemma2" else [0, 0])
    assert found["rope_bases"].tolist() == [1e4]


def test_solvers_are_those_of_their_experiment():
    setting = model_comparison.EXPERIMENT.shrink(SurveyedModel(model="qwen2", facts=4))
    solver = family_solvers.FamilySolver(family="qwen2", seed=2, facts=4)
    solver = family_solvers.replace(solver, training=family_solvers.replace(solver.training, steps=20))
    model = family_solvers.make_untrained(solver)
    family_solvers.train_solver(solver, model, progress=False)
    mine, prompts = model_comparison.profile_decoder(setting, model.device, False)
    for one, other in zip(mine.parameters(), model.parameters(), strict=True):
        assert (one == other).all()
    right = model_comparison.choose_answers(mine, prompts)
    assert right.correct.shape == (6,)
    assert (right.alternatives == solver.task.attributes).all()

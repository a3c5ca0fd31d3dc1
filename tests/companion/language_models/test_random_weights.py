"""Random weights beside trained ones: what is measured."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posym_companion.language_models import random_weights
from posym_companion.language_models.random_weights import DIMS, EXPERIMENT, RandomWeights, measure
from posym_companion.results import name_dims
from posym_profile import binding_prompts, profile


@pytest.fixture
def loads(tiny, tokenizer, monkeypatch):
    monkeypatch.setattr(random_weights, "load_experiment_model", lambda *a, **k: (tiny, tokenizer))


def test_the_scores_are_those_of_profile_and_equal_weights_are_a_plain_mean(loads, tiny, tokenizer):
    found = measure(EXPERIMENT.shrink(RandomWeights(weights="trained")), device="cpu", progress=False)
    name_dims(DIMS, found)
    prompts = binding_prompts(tokenizer, facts=4, count=3)
    place = prompts.layout
    for row, tau in enumerate((1e-4, 1e9)):
        scores = profile(tiny, prompts.input_ids, **place, tau=tau, visible_only=False)
        np.testing.assert_allclose(found["positional"][row], scores.positional, atol=1e-5)
        np.testing.assert_allclose(found["symbolic"][row], scores.symbolic, atol=1e-5)
    assert found["keys"] == prompts.input_ids.shape[1] - 1 - prompts.start


def test_each_draw_has_weights_of_its_own_and_the_trained_model_is_left_alone(loads, tiny):
    before = [x.clone() for x in tiny.parameters()]
    draws = [measure(EXPERIMENT.shrink(RandomWeights(draw=draw)), device="cpu", progress=False) for draw in (0, 1, 0)]
    assert not np.array_equal(draws[0]["symbolic"], draws[1]["symbolic"])
    np.testing.assert_array_equal(draws[0]["symbolic"], draws[2]["symbolic"])
    assert all(torch.equal(x, y) for x, y in zip(before, tiny.parameters(), strict=True))

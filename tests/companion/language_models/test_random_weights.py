"""Random weights beside trained ones: what is measured, and when a trend counts as learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posym_companion.language_models import random_weights
from posym_companion.language_models.judges.plane_profile import half_loss_phase, keeps_the_law
from posym_companion.language_models.judges.random_weights import HALF, BesideRandomWeights
from posym_companion.language_models.random_weights import DIMS, EXPERIMENT, RandomWeights, measure
from posym_companion.results import Result, name_dims
from posym_core.metrics._stats import Estimate
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


def test_a_lead_changes_the_prompts_alone(loads, tiny, tokenizer):
    found = measure(EXPERIMENT.shrink(RandomWeights(weights="trained", lead=2)), device="cpu", progress=False)
    prompts = binding_prompts(tokenizer, facts=4, count=3, lead=2)
    scores = profile(tiny, prompts.input_ids, **prompts.layout, visible_only=False)
    np.testing.assert_allclose(found["positional"][0], scores.positional, atol=1e-5)
    assert found["keys"] == prompts.input_ids.shape[1] - 1 - prompts.start


def test_each_draw_has_weights_of_its_own_and_the_trained_model_is_left_alone(loads, tiny):
    before = [x.clone() for x in tiny.parameters()]
    draws = [measure(EXPERIMENT.shrink(RandomWeights(draw=draw)), device="cpu", progress=False) for draw in (0, 1, 0)]
    assert not np.array_equal(draws[0]["symbolic"], draws[1]["symbolic"])
    np.testing.assert_array_equal(draws[0]["symbolic"], draws[2]["symbolic"])
    assert all(torch.equal(x, y) for x, y in zip(before, tiny.parameters(), strict=True))


def estimate(low, high):
    return Estimate(value=(low + high) / 2, low=low, high=high)


@pytest.mark.parametrize(
    ("low", "high", "below", "above"),
    [
        (-0.95, -0.91, True, False),
        (-0.95, -0.90, False, False),  # a tie with the lowest draw
        (-0.88, -0.82, False, False),
        (-0.69, -0.60, False, True),
        (-0.70, -0.60, False, False),  # a tie with the highest draw
        (np.nan, np.nan, False, False),
    ],
)
def test_a_trend_is_learned_only_beyond_every_draw(low, high, below, above):
    found = BesideRandomWeights(found=estimate(low, high), drawn=(-0.8, -0.9, -0.7))
    assert (found.less_least.high < 0, found.less_most.low > 0) == (below, above)


def test_a_draw_without_the_trend_decides_nothing():
    assert np.isnan(BesideRandomWeights(found=estimate(-0.95, -0.91), drawn=(-0.8, np.nan)).less_least.high)
    assert np.isnan(BesideRandomWeights(found=estimate(-0.95, -0.91), drawn=(np.nan, -0.8)).less_least.high)


@pytest.mark.parametrize(
    ("value", "kept"),
    [(HALF, True), (HALF * 1.099, True), (HALF * 1.101, False), (HALF * 0.901, True), (HALF * 0.899, False)],
)
def test_the_law_holds_within_a_tenth_on_every_kind_of_prompt(value, kept):
    assert keeps_the_law({("likes", 16): HALF, ("bought", 16): value}) is kept
    assert not keeps_the_law({("likes", 16): HALF, ("bought", 16): float("nan")})


def test_a_kernel_s_planes_express_half_at_the_law_s_angle():
    angles = np.geomspace(1, 1e-3, 60)
    keys = 50
    kept = (np.sin(keys * angles / 2) / (keys * np.sin(angles / 2))) ** 2
    arrays = {"kept": np.tile(kept, (3, 2, 1)), "angles": np.tile(angles, (3, 1)), "keys": np.array(keys)}
    arrays["kept"][0] = np.nan  # a layer without contents counts for nothing
    result = Result(name="a/b", arrays=arrays, dims={}, settings={}, provenance={})
    assert half_loss_phase(result) == pytest.approx(HALF, rel=0.01)


def test_half_precision_keeps_three_digits(loads):
    whole, half = (
        measure(EXPERIMENT.shrink(RandomWeights(half=half)), device="cpu", progress=False) for half in (False, True)
    )
    for name in ("positional", "symbolic", "kept", "energy"):
        assert half[name].dtype == np.float16
        np.testing.assert_allclose(half[name], whole[name], atol=1e-3)

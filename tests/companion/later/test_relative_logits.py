"""Mean logits by query and key: the part that is relative, on matrices that are known, and on tiny models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from posym_companion.later import relative_logits
from posym_companion.later.relative_logits import (
    RelativeLogits,
    full_size,
    measure,
    measure_parameterless_logits,
    small,
    summarize_halves,
)
from posym_companion.results import name_dims
from posym_profile.language_models._loading import PACKAGED


def test_what_depends_on_the_distance_is_relative_and_the_rest_is_not():
    place = torch.arange(12.0)
    distance = place[:, None] - place
    toeplitz, by_key = (-distance).expand(2, 1, 12, 12), place.expand(12, 12).expand(2, 1, 12, 12)
    found = summarize_halves(toeplitz)
    assert found["whole"] == pytest.approx(found["relative"])
    assert found["near_minus_far"] > 0
    mixed = summarize_halves(toeplitz + by_key)
    assert 0 < mixed["relative"] < mixed["whole"]
    # By hand: the variance over pairs below the diagonal, and over means of diagonals.
    pairs = [(i, j) for i in range(12) for j in range(i)]
    values = np.array([j - (i - j) for i, j in pairs], float)
    steps = np.array([i - j for i, j in pairs])
    means = np.array([values[steps == step].mean() for step in steps])
    assert mixed["whole"][0] == pytest.approx(values.var())
    assert mixed["relative"][0] == pytest.approx(means.var())


def test_what_differs_between_the_halves_counts_for_nothing():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2, 200, 12, 12, generator=generator)
    assert abs(summarize_halves(noise)["whole"].mean()) < 0.03
    assert summarize_halves(noise[:1].expand(2, -1, -1, -1))["whole"].mean() > 0.8


def test_layers_without_parameters_are_those_of_a_plain_loop():
    setting = RelativeLogits(kind="no parameters", rotated=False, length=5, texts=2)
    found = measure_parameterless_logits(setting)
    state = functional.normalize(torch.randn(1, 5, 64, generator=torch.Generator().manual_seed(0)), dim=-1)[0]
    for layer in range(4):
        states = functional.normalize(state, dim=-1)
        logits = states @ states.T
        assert torch.allclose(found[0, layer], logits.double(), atol=1e-6)
        read = [logits[i, : i + 1].softmax(-1) @ states[: i + 1] for i in range(5)]
        state = state + torch.stack(read)


def test_without_a_mask_and_rotation_no_place_is_different():
    free = RelativeLogits(kind="no parameters", rotated=False, masked=False, length=8, texts=4000)
    masked = RelativeLogits(kind="no parameters", rotated=False, length=8, texts=4000)
    deep = {
        name: summarize_halves(measure_parameterless_logits(x))["near_minus_far"][-1]
        for name, x in (("free", free), ("masked", masked))
    }
    assert deep["masked"] > 0.05
    assert abs(deep["free"]) < 0.01


def list_different():
    """Small settings that differ in more than a name or a seed; decoders hardly learn."""
    for setting in map(small, full_size()):
        if setting.solver is not None:
            training = replace(setting.solver.training, steps=3)
            yield replace(setting, solver=replace(setting.solver, width=16, training=training))
        elif setting.model == PACKAGED and setting.draw in (None, 0):
            yield setting


@pytest.mark.parametrize("setting", [*list_different()], ids=lambda setting: setting.name)
def test_every_setting_is_measured(setting, tiny, tokenizer, monkeypatch, tmp_path):
    monkeypatch.setattr(relative_logits, "load_experiment_model", lambda name, **options: (tiny, tokenizer))
    arrays = measure(setting, device="cpu", work=tmp_path, progress=False)
    name_dims(relative_logits.DIMS, arrays)
    for name, x in arrays.items():
        assert np.isfinite(x).all(), name

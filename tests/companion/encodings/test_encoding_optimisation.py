"""Stable learning rates and sharpness: what is kept, and when a rate blows up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from posym_companion.encodings import encoding_optimisation
from posym_companion.encodings.encoding_optimisation import (
    EXPERIMENT,
    EncodingOptimisation,
    SteadyRate,
)
from posym_core.models._classifier import EncodingModel


def test_the_experiment_keeps_what_it_saw(tmp_path):
    setting = replace(EXPERIMENT.shrink(EncodingOptimisation(encoding="alibi")), rate_steps=4, steps=4, looks=(0, 2, 4))
    (result,) = EXPERIMENT.run([setting], device="cpu", folder=tmp_path, progress=False)
    assert (result["peak"][:, 0] < 1.1).all()
    assert (result["peak"][:, 1] > 1.1).all()
    assert result["eigenvalue"].shape == (2, 1)
    assert (result["residual"] < 0.05 * result["eigenvalue"]).all()
    # The first look is at the untrained model: its Hessian once more, from the gradient's differences.
    batch = setting.draw(setting.sentences, 0, 0)
    model = EncodingModel(setting.study.model_settings(), seed=0).eval().double()
    parameters = list(model.parameters())
    loss = nn.functional.cross_entropy(model(batch.tokens), batch.answer)
    assert result["loss"][0, 0] == pytest.approx(float(loss.detach()), rel=1e-5)
    vector = torch.randn(sum(p.numel() for p in parameters), generator=torch.Generator().manual_seed(0)).double()
    gradient = torch.cat([x.flatten() for x in torch.autograd.grad(loss, parameters, create_graph=True)])
    for _ in range(30):  # power iteration: the largest in size is the largest here
        along = gradient @ (vector / vector.norm())
        vector = torch.cat([x.flatten() for x in torch.autograd.grad(along, parameters, retain_graph=True)])
    assert result["eigenvalue"][0, 0] == pytest.approx(float(vector.norm()), rel=0.02)


def test_rates_above_the_first_that_blows_up_are_not_tried(tmp_path):
    setting = EncodingOptimisation(
        encoding="rope", seeds=(0,), rates=(0.003, 3.0, 6.0), rate_steps=4, steps=1, looks=(0,), bends=(0,),
        sentences=10, test=20,
    )  # fmt: skip
    found = encoding_optimisation.measure(setting, device="cpu")
    assert np.isnan(found["peak"]).tolist() == [[False, False, True]]


def test_a_loss_that_is_not_finite_blows_up(monkeypatch):
    def diverged(*args, **options):
        raise FloatingPointError("the loss of members [[]] is not finite")

    monkeypatch.setattr(encoding_optimisation, "train_model", diverged)
    assert encoding_optimisation.blow_up(EncodingOptimisation(encoding="rope"), 0, 1.0) == np.inf


def test_the_rate_rises_and_stays():
    schedule = SteadyRate(steps=40, warmup=4, learning_rate=2.0)
    assert [schedule.rate(step) for step in (0, 1, 3, 4, 39)] == [0.5, 1.0, 2.0, 2.0, 2.0]

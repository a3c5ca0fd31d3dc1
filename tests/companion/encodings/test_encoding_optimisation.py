"""Stable learning rates and sharpness: what is kept, when a rate counts as stable, and how a row is decided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from invented import save_invented
from refusals import refuse_each
from torch import nn

from posym_companion.encodings import encoding_optimisation
from posym_companion.encodings.encoding_optimisation import (
    ENCODINGS,
    EXPERIMENT,
    EncodingOptimisation,
    SteadyRate,
)
from posym_companion.ledger import ledger
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


test_refusals = refuse_each(
    (lambda: EncodingOptimisation(encoding="rot"), "encoding must be one of 'rope', .*; got 'rot'"),
)


def invented(folder, rope_rate=0.2, rope_eigenvalue=1.0, others_rate=0.05, right=0.9):
    """Rotary heads with this stable rate and curvature, others with a curvature of 2 and this accuracy at the end."""
    for name in ENCODINGS:
        rates = np.array([0.05, 0.1, 0.2, 0.4])
        stable = rope_rate if name == "rope" else others_rate
        eigenvalue = rope_eigenvalue if name == "rope" else 2.0
        save_invented(
            EncodingOptimisation(encoding=name).name,
            {
                "rates": rates,
                "peak": np.where(rates > stable, 1.2, 1.0)[None].repeat(3, 0),
                "eigenvalue": np.full((3, 2), eigenvalue) * np.array([0.5, 2.0]),
                "accuracy": np.full((3, 2), 1.0 if name == "rope" else right),
            },
            folder=folder,
        )


STABLE, CURVED, AT_THE_END = (
    "a larger learning rate is stable",
    "the loss is less curved through training",
    "the loss is less curved at the end",
)


@pytest.mark.parametrize(
    ("options", "verdict", "rate", "curved"),
    [
        ({}, "reproduced in kind", "4 of 4", "4 of 4"),
        ({"others_rate": 0.1}, "partly", "not testable", "4 of 4"),  # one notch apart
        ({"others_rate": 0.4}, "partly", "not testable", "4 of 4"),
        ({"rope_rate": 0.05, "others_rate": 0.2}, "partly", "0 of 4", "4 of 4"),
        ({"rope_rate": 0.0, "others_rate": 0.05}, "partly", "not testable", "4 of 4"),
        ({"rope_rate": 0.0, "others_rate": 0.1}, "partly", "0 of 4", "4 of 4"),
        ({"rope_eigenvalue": 2.0}, "partly", "4 of 4", "0 of 4"),  # a tie
        ({"rope_eigenvalue": 3.0, "rope_rate": 0.05, "others_rate": 0.4}, "not reproduced", "0 of 4", "0 of 4"),
        ({"right": 0.89}, "partly", "4 of 4", "not testable"),
        ({"right": 0.89, "rope_rate": 0.1}, "not testable", "not testable", "not testable"),
    ],
)
def test_the_row_follows_both_measures(tmp_path, options, verdict, rate, curved):
    invented(tmp_path, **options)
    (row,) = ledger("G26-1c", folder=tmp_path)
    held = {part: found.partition(" encodings")[0] for part, found in row.parts.items()}
    assert (row.verdict, held) == (verdict, {STABLE: rate, CURVED: curved, AT_THE_END: curved})
    for when in ("through training", "at the end"):
        ratio = row.ours[f"largest Hessian eigenvalue {when}, rotary over its (alibi)"]["value"]
        assert ratio == pytest.approx(options.get("rope_eigenvalue", 1.0) / 2)
    assert "alibi 4 to 4, t5 4 to 4." in row.note
    assert ("Not learned, and so not compared: sinusoidal (0.89 to 0.89)" in row.note) == ("right" in options)

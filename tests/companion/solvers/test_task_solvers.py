"""The decoders' experiment: bands, what is measured, and a run that goes on after a break."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from posym_companion.solvers import task_solvers
from posym_companion.solvers.solver_settings import BANDS, TaskSolvers, band_angles, small
from posym_core.metrics._rope import rope_angles


def tiny(**options) -> TaskSolvers:
    setting = small(TaskSolvers(**{"heads": 2, "width": 16, **options}))
    training = dataclasses.replace(setting.training, steps=12, batch=8, record_every=4)
    return dataclasses.replace(setting, training=training, look_every=6, test_prompts=24, score_prompts=6)


@pytest.mark.parametrize("length", [17, 33])
def test_bands_lie_where_they_say(length):
    turns = {band: band_angles(band, 8, length) * length / (2 * math.pi) for band in BANDS}
    assert float(band_angles("fast", 8, length)[0]) == pytest.approx(1)
    assert float(turns["fast"][-1]) == pytest.approx(1)
    assert float(turns["middle"][0]) == pytest.approx(1)
    assert float(turns["middle"][-1]) == pytest.approx(1 / 8)
    assert float(turns["slow"][0]) == pytest.approx(1 / 8)
    assert float(band_angles("slow", 8, length)[-1]) == pytest.approx(1e-4)
    assert torch.equal(band_angles("1e6", 8, length), rope_angles(16, 1e6))
    assert [int((turns[band] > 0).sum()) for band in ("p25", "p75", "none", "pair")] == [2, 6, 0, 4]
    torch.testing.assert_close(turns["pair"][:4], torch.full((4,), 0.25, dtype=torch.float64))
    for angles in turns.values():
        assert (angles.diff() <= 0).all()


def test_stopping_nothing_changes_nothing():
    """No plane of a band without rotation is stopped by any of the three, so all leave the accuracy as it is."""
    found = task_solvers.measure(tiny(band="none"), progress=False)
    np.testing.assert_allclose(found["hits"].sum(-1) / 24, found["intact"], atol=1e-6)
    np.testing.assert_allclose(found["stopped"], np.repeat(found["intact"][..., None], 3, -1))

"""Models in a browser beside PyTorch: what is stored, and the measurement in a small size."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from posym_companion.one_head import frequency_control
from posym_companion.results import load_result
from posym_companion.several_hops import browser_models
from posym_companion.several_hops.browser_models import BrowserModels
from posym_core.models import TrainingSettings

browser = pytest.mark.skipif(
    not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), reason="no Chromium is on the path"
)


@pytest.mark.parametrize("task", [*browser_models.HOPS, "facts"])
def test_stored_answers_are_those_of_pytorch(task):
    found = load_result(f"browser_models/{task}")
    assert found["difference"].max() < 1e-3
    assert found["same"].all()
    assert (found["right_browser"] == found["right_pytorch"]).all()


@browser
def test_a_small_size_of_training(monkeypatch):
    quick = replace(frequency_control.FrequencyControlSettings(), training=TrainingSettings(steps=150, batch=64))
    monkeypatch.setattr(frequency_control, "FrequencyControlSettings", lambda: replace(quick, lengths=(8,)))
    setting = replace(browser_models.EXPERIMENT.shrink(BrowserModels(task="retrieval")), frequencies=(3, 29))
    measured = browser_models.measure(setting)
    assert measured.arrays["accuracy"].shape == (1, 2)
    assert measured.arrays["accuracy"][0, 1] > measured.arrays["accuracy"][0, 0] > 0.1
    assert measured.seconds == pytest.approx(measured.arrays["seconds"].sum())


@browser
def test_a_small_size_of_asking():
    measured = browser_models.measure(
        replace(browser_models.EXPERIMENT.shrink(BrowserModels(task="number")), sequences=4)
    )
    assert measured.arrays["difference"].max() < 1e-3
    assert measured.arrays["same"].all()

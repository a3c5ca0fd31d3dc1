from dataclasses import replace

import numpy as np
import pytest

from posym_companion import loop
from posym_companion.language_models import binding_profile, score_correlation

SETTING = binding_profile.BindingProfile(facts=3, prompts=2)


@pytest.fixture
def loads(packaged, monkeypatch):
    """The experiment with a model that is there already, and how often it asked for it."""
    asked = []
    monkeypatch.setattr(loop, "load_model", lambda *a, **k: asked.append(a) or packaged)
    return asked


def test_a_result_holds_what_its_description_says(tmp_path, loads):
    (result,) = binding_profile.EXPERIMENT.run([SETTING], folder=tmp_path, progress=False)
    assert result["positional"].shape == (2, 18, 4)
    assert result["plane_symbolic_share"].shape == (2, 18, 4, 128)
    assert result["plane_angle"].shape == (18, 128)
    assert result["correct"].shape == (2,)
    shares = sum(result[f"{name}_share"] for name in ("positional", "symbolic", "interaction"))
    np.testing.assert_allclose(shares, 1, atol=1e-5)
    np.testing.assert_allclose(result["variance"] + result["slack"], result["bound"], rtol=1e-4)
    np.testing.assert_allclose(np.nansum(result["plane_energy_share"][0], -1), 1, atol=1e-4)
    assert result.settings["facts"] == 3
    assert (result["positional"] + result["symbolic"] > 0.99).all()


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, loads):
    other = replace(SETTING, template="bought")
    run = binding_profile.EXPERIMENT.run([SETTING, other], folder=tmp_path, progress=False)
    first = next(run)
    run.close()
    assert [
        result.name for result in binding_profile.EXPERIMENT.run([SETTING, other], folder=tmp_path, progress=False)
    ] == [
        SETTING.name,
        other.name,
    ]
    assert len(loads) == 2
    again = next(binding_profile.EXPERIMENT.run([SETTING], folder=tmp_path, progress=False))
    assert again.provenance == first.provenance
    changed = next(binding_profile.EXPERIMENT.run([replace(SETTING, prompts=1)], folder=tmp_path, progress=False))
    assert changed["positional"].shape[0] == 1


def test_same_seed_same_result(tmp_path, loads):
    runs = [
        next(binding_profile.EXPERIMENT.run([SETTING], folder=tmp_path / name, progress=False)) for name in ("a", "b")
    ]
    for name in runs[0].arrays:
        np.testing.assert_array_equal(runs[0][name], runs[1][name])


def test_full_size_covers_templates_and_lengths():
    settings = binding_profile.full_size()
    assert len({setting.name for setting in settings}) == 9
    assert {setting.facts for setting in settings} == {16, 64, 128}
    assert all(setting.prompts >= 64 for setting in settings)


def test_the_quoted_correlation_is_that_of_the_heads_means():
    draw = np.random.default_rng(0).random((4, 5, 6, 3))
    scores = dict(zip(("positional", "symbolic", "null_positional", "null_symbolic"), draw, strict=True))
    scores["symbolic"] = 1 - scores["positional"] + 0.3 * scores["symbolic"]
    found, null = score_correlation(scores)
    pairs = (("positional", "symbolic"), ("null_positional", "null_symbolic"))
    expected = [np.corrcoef(*(scores[name].mean(0).ravel() for name in pair))[0, 1] for pair in pairs]
    np.testing.assert_allclose([found.pearson.value, null], expected)
    assert found.pearson.high < 0

import numpy as np
import pytest
import torch
from architectures import shared, tokens

from posym_companion.language_models import plane_profile
from posym_companion.language_models.judges.plane_profile import measure_layer_p, turning_angle
from posym_companion.language_models.plane_profile import PlaneProfile, measure
from posym_core.metrics._exclusion_bound import exclusion
from posym_core.metrics._frequencies import dirichlet_kernel
from posym_core.metrics._logit_matrix import cross_logits
from posym_profile.capture._capturing import capture
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.prompts import Prompts, make_prompts
from posym_profile.scores._profiling import profile

SETTING = PlaneProfile(facts=24, prompts=2)


@pytest.fixture(scope="module")
def measured(packaged):
    return measure(*packaged, SETTING, progress=False)


def test_scores_are_those_of_blocks_that_end_beside_the_query(measured, packaged):
    model, tokenizer = packaged
    ids = make_prompts(tokenizer, "text", facts=24, count=2).input_ids
    for name, blocks in (("", 16), ("far_", 15)):
        whole = profile(model, ids, start=9, block_length=1, blocks=blocks, progress=False)
        np.testing.assert_allclose(measured[f"{name}positional"], whole.positional, atol=1e-3)
        np.testing.assert_allclose(measured[f"{name}symbolic"], whole.symbolic, atol=1e-3)


def test_shares_and_energies_add_up(measured):
    shares = sum(measured[f"{name}_share"].astype(float) for name in ("positional", "symbolic", "interaction"))
    np.testing.assert_allclose(shares[np.isfinite(shares)], 1, atol=2e-3)
    np.testing.assert_allclose(measured["energy_share"].sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(measured["energy"].astype(float).sum(-1), 1, rtol=2e-3)
    assert ((measured["kept"] >= 0) | np.isnan(measured["kept"])).all()


def test_only_what_a_window_shows_takes_part(monkeypatch):
    """A tiny model whose local layers see 16 of 44 tokens, against the matrix of the visible keys alone."""
    model, ids = shared("Gemma3"), tokens(1)
    prompts = Prompts(
        input_ids=ids, start=1, block_length=2, blocks=8, answer_ids=ids[:, :2], target=ids[:, 0] * 0, texts=["any"]
    )
    monkeypatch.setattr(plane_profile, "make_prompts", lambda *args, **options: prompts)
    found = measure(model, None, PlaneProfile(task="index", facts=8, prompts=1), progress=False)
    assert found["seen"].tolist() == [15, 15, 42]
    for layer, (call, planes) in enumerate(zip(capture(model, ids), find_planes(model, 44), strict=True)):
        first = max(1, int(call.visible[0, 0, -1].int().argmax()))
        keys = planes.arrange_keys(call.keys)[0, :, None, first:-1]
        query = planes.arrange_query(call.query[0, :, -1]).unflatten(0, (keys.shape[0], -1))
        C = cross_logits(query, keys, planes.angles, scale=call.scale, per_frequency=True)
        parts = exclusion(C)
        kept = parts.symbolic_share / (parts.symbolic_share + parts.interaction_share)
        np.testing.assert_allclose(found["kept"][layer], kept.flatten(0, 1), atol=2e-3)
        np.testing.assert_allclose(found["positional_share"][layer], parts.positional_share.flatten(0, 1), atol=2e-3)


def law(angles, keys):
    return dirichlet_kernel(torch.as_tensor(angles), keys).numpy()[None] ** 2


@pytest.mark.parametrize("keys", [16, 100, 1000])
def test_contents_without_direction_turn_where_the_law_says(keys):
    angles = np.geomspace(3, 1e-5, 400)
    assert turning_angle(law(angles, keys), angles) * keys == pytest.approx(2.7831, rel=5e-3)


def test_the_turn_moves_with_the_angles_and_not_with_heads_that_repeat():
    angles = np.geomspace(3, 1e-5, 60)
    kept = law(angles, 50)
    once = turning_angle(kept, angles)
    assert turning_angle(kept, angles / 10) == pytest.approx(once / 10)
    assert turning_angle(np.repeat(kept, 3, axis=0), angles) == pytest.approx(once)


def test_the_turn_is_read_off_between_two_planes():
    angles, kept = np.array([1.0, 0.1, 0.01]), np.array([[0.0, 0.25, 0.75]])
    assert turning_angle(kept, angles) == pytest.approx(10**-1.5)
    # Undefined planes are passed over, and a head of no weight does not count.
    assert turning_angle(np.array([[0.0, np.nan, 1.0]]), angles) == pytest.approx(0.1)
    both = np.vstack([kept, [[1.0, 1.0, 1.0]]])
    assert turning_angle(both, angles, np.array([[1.0] * 3, [0.0] * 3])) == pytest.approx(10**-1.5)


def test_planes_that_never_turn_have_no_turning_angle():
    assert np.isnan(turning_angle(np.ones((2, 3)), np.array([1.0, 0.1, 0.01])))
    assert np.isnan(turning_angle(np.full((2, 3), np.nan), np.array([1.0, 0.1, 0.01])))


def test_a_head_without_energy_is_not_beyond_the_null():
    """A correlation that is NaN was once larger than that of any order of the layers."""
    use = np.arange(24.0).reshape(12, 2)
    assert measure_layer_p(use, use) < 0.05 < measure_layer_p(np.random.default_rng(0).normal(size=use.shape), use)
    use[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"it is nan as they stand and finite in 0 of 499 orders"):
        measure_layer_p(np.arange(24.0).reshape(12, 2), use)

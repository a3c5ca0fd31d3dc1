"""Claims about planes on made-up profiles: how they lean, one head's three regimes, and use against behaviour."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import invent_random_weights, save_invented
from judged import find_missed, judge_made_up, require_both_sides

from posym_companion.claims import frequencies
from posym_companion.claims.frequencies import exchange_layers, name_regimes, share_same_side
from posym_companion.language_models.binding_profile import FACTS, plain_settings, random_weight_settings
from posym_companion.language_models.plane_profile import full_size

PLANES = 128


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(frequencies, "DRAWN", 60)
    monkeypatch.setattr(frequencies, "RESAMPLES", 60)


def invent_planes(lean, both, layers=18):
    """Scores of planes that lean to symbols by eighths, fast first, and how high the higher of the two is."""
    lean, both = (np.repeat(x, PLANES // 8) for x in (lean, both))
    scores = {"plane_positional": both - np.maximum(lean, 0), "plane_symbolic": both + np.minimum(lean, 0)}
    noise = 1e-4 * np.random.default_rng(0).normal(size=(layers, 1, 1))
    return {name: (x + noise)[None] * np.ones((1, layers, 4, PLANES)) for name, x in scores.items()}


# The fastest eighths are both; those behind lean to positions, and the slowest to symbols.
CLAIMED = (-0.02, -0.02, -0.2, -0.2, 0.0, 0.1, 0.2, 0.2), (1.0, 1.0, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8)
AGAINST = (0.3, 0.3, 0.2, 0.2, 0.0, -0.1, -0.2, -0.2), (0.8,) * 8
FLAT = (0.0,) * 8, (0.8,) * 8


def invent(folder, own, drawn):
    for settings, planes in ((plain_settings(lengths=FACTS[:1]), own), (random_weight_settings(), drawn)):
        for setting in settings:
            save_invented(setting.name, invent_planes(*planes), folder, **asdict(setting))
    return folder


def test_planes_lean_as_claimed_or_against_it_or_with_random_weights(tmp_path):
    claimed = judge_made_up("U25-4", invent(tmp_path / "claimed", CLAIMED, FLAT))
    against = judge_made_up("U25-4", invent(tmp_path / "against", AGAINST, FLAT))
    alike = judge_made_up("U25-4", invent(tmp_path / "alike", CLAIMED, CLAIMED))
    require_both_sides(claimed, against, alike)
    assert [one.grade for one in (claimed, against, alike)] == ["holds", "absent or opposite", "not attributable"]
    assert find_missed(alike) == ["more than with random weights", "random weights do not lean so"]


def test_one_heads_profile_is_its_own_or_that_of_random_weights(tmp_path):
    claimed = judge_made_up("U25-4H", invent(tmp_path / "claimed", CLAIMED, FLAT))
    against = judge_made_up("U25-4H", invent(tmp_path / "against", AGAINST, CLAIMED))
    require_both_sides(claimed, against)
    assert (claimed.grade, against.grade) == ("holds", "absent or opposite")
    assert judge_made_up("U25-4H", invent(tmp_path / "alike", CLAIMED, CLAIMED)).grade == "not attributable"


def test_a_profile_that_leans_to_nothing_has_no_regime():
    """What each half of the planes leans to is 0 where both scores are the same."""
    slow, fast, lower = name_regimes(np.full(64, 0.7), np.full(64, 0.7))
    assert (slow, fast, lower) == (0, 0, pytest.approx(0.7))


def invent_use(folder, sign, noise=0.0, at_birth=False):
    """Heads that use faster planes the more positional they are, or slower ones."""
    generator = np.random.default_rng(1)
    invent_random_weights(folder, as_claimed=not at_birth)
    angles = np.broadcast_to(10.0 ** -np.linspace(0, 3, PLANES), (18, PLANES))
    for setting in (*full_size(), *plain_settings(lengths=FACTS[:1])):
        behaviour = generator.permutation(np.linspace(-1, 1, 72)).reshape(1, 18, 4)
        place = (63.5 - sign * 63 * behaviour[0] + noise * generator.normal(size=(18, 4))).clip(0, 127).astype(int)
        energy = np.eye(PLANES)[place]
        heads = {"positional": (1 + behaviour) / 2, "symbolic": (1 - behaviour) / 2}
        heads |= {"energy_share": energy, "angles": angles, "plane_energy_share": energy[None], "plane_angle": angles}
        save_invented(setting.name, heads, folder, **asdict(setting))
    return judge_made_up("U25-9", folder)


def test_use_goes_with_behaviour_or_against_it_or_with_that_of_random_weights(tmp_path):
    claimed = invent_use(tmp_path / "claimed", 1)
    against = invent_use(tmp_path / "against", -1, at_birth=True)
    loose = invent_use(tmp_path / "loose", 0, noise=40, at_birth=True)
    require_both_sides(claimed, against, loose)
    assert [one.grade for one in (claimed, against)] == ["holds", "absent or opposite"]
    assert "all heads are on their side" in find_missed(loose)


def test_heads_on_the_side_of_their_use_are_counted_by_the_medians():
    behaviour = np.arange(8.0)
    assert share_same_side(behaviour, behaviour**3) == 1
    assert share_same_side(behaviour, -behaviour) == 0
    assert share_same_side(behaviour, behaviour[[4, 1, 2, 3, 0, 5, 6, 7]]) == 0.75


def test_a_head_without_energy_is_not_beyond_the_null():
    """A correlation that is NaN was once larger than that of any order of the layers."""
    use = np.arange(24.0).reshape(12, 2)
    assert exchange_layers(use, use) < 0.05 < exchange_layers(np.random.default_rng(0).normal(size=use.shape), use)
    use[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"it is nan as they stand and finite in 0 of 499 orders"):
        exchange_layers(np.arange(24.0).reshape(12, 2), use)

"""Claims about all heads of a language model on made-up heads: layers, the correlation of scores, and families."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import invent_bindings, save_invented
from judged import count_parts, find_missed, judge_made_up, require_both_sides

from posym_companion.claims import language_model
from posym_companion.claims.language_model import shift
from posym_companion.claims.rows import judge_all
from posym_companion.language_models.random_weights import full_size
from posym_core.metrics import Estimate


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """What is invented here is far from every line: few draws tell."""
    monkeypatch.setattr(language_model, "DRAWN", 60)
    monkeypatch.setattr(language_model, "RESAMPLES", 60)


def invent_trend_at_birth(folder):
    """Random weights whose early layers are positional and whose late ones are symbolic."""
    early = np.where(np.arange(18) < 9, 0.8, 0.2)[None, None, :, None] * np.ones((2, 3, 18, 4))
    noise = 0.01 * np.random.default_rng(0).normal(size=early.shape)
    for setting in full_size():
        if setting.weights == "random":
            save_invented(
                setting.name, {"positional": early + noise, "symbolic": 1 - early + noise}, folder, **asdict(setting)
            )


def test_layers_turn_from_position_to_symbol_or_do_not(tmp_path):
    for name, trend in (("claimed", 1.0), ("against", -1.0)):
        invent_bindings(tmp_path / name, trend=trend)
    invent_bindings(tmp_path / "small", trend=0.3)
    invent_trend_at_birth(tmp_path / "small")
    claimed, *others = (judge_made_up("U25-2", tmp_path / name) for name in ("claimed", "against", "small"))
    require_both_sides(claimed, *others)
    assert [one.grade for one in (claimed, *others)] == ["holds", "absent or opposite", "not attributable"]
    assert find_missed(others[1]) == ["the difference of s_POS is the paper's", "random weights have no such trend"]


def test_scores_exclude_each_other_or_rise_together(tmp_path):
    for name, coupling in (("claimed", -1.0), ("against", 1.0)):
        invent_bindings(tmp_path / name, coupling=coupling)
    claimed, against = (judge_made_up("U25-3", tmp_path / name) for name in ("claimed", "against"))
    require_both_sides(claimed, against)
    assert (claimed.grade, against.grade) == ("holds", "absent or opposite")


def invent_families(folder, models, coupling=-1.0):
    generator = np.random.default_rng(0)
    for number, model in enumerate(models):
        early = np.where(np.arange(18) < 9, 0.2, -0.2)[None, :, None]
        positional = 0.5 + early + 0.05 * generator.normal(size=(6, 18, 4))
        arrays = {"positional": positional, "symbolic": 0.5 + coupling * (positional - 0.5)}
        save_invented(f"binding_profile/{number}", arrays, folder, model=model)
    return judge_made_up("U25-5", folder)


def test_other_families_are_judged_once_all_three_are_there(tmp_path):
    families = ["google/gemma-2-2b-it", "Qwen/Qwen2-1.5B", "meta-llama/Llama-3.2-1B"]
    some = invent_families(tmp_path / "some", [*families[:2], "google/gemma-2b", "Qwen/Qwen3-1.7B"])
    assert (some.grade, some.why) == (
        "undecided",
        "not met: every family is profiled, of which no weights come with this project",
    )
    claimed = invent_families(tmp_path / "all", families)
    assert (claimed.grade, len(claimed.evidence)) == ("holds", 3)
    against = invent_families(tmp_path / "against", families, coupling=1.0)
    assert list(count_parts(against).values()) == ["0 of 3", "3 of 3", "0 of 3"]
    assert against.grade == "weaker"


def test_a_draw_without_the_trend_decides_nothing(tmp_path):
    """r is learned only beyond every draw, and of an undefined one nothing is known."""
    r = Estimate(value=-0.93, low=-0.95, high=-0.91)
    assert shift(r, -0.9).high < 0
    assert np.isnan(shift(r, float(np.min([-0.8, np.nan]))).high)


def test_missing_profiles_leave_every_model_undecided(tmp_path):
    for row in judge_all("U25-2", "U25-3", folder=tmp_path):
        assert row.grade == "undecided"
        assert {one.grade for one in row.answers.values()} == {"undecided"}
        assert row.headline.startswith("not run: result 'binding_profile/gemma-3-270m_likes_16' is not there")

"""Theorem 1 with a head that breaks it, and its consequence with heads in which it does and does not follow."""

from __future__ import annotations

import numpy as np
import pytest
from invented import invent_bindings, invent_random_weights
from judged import judge_made_up, require_both_sides

from posym_companion.claims import exclusion
from posym_companion.claims.exclusion import draw_scores


def test_one_head_that_violates_the_bound_refutes_the_theorem(tmp_path):
    for name, violation in (("claimed", 0.0), ("broken", 0.6)):
        invent_bindings(tmp_path / name, violation=violation)
    claimed, broken = (judge_made_up("U25-1", tmp_path / name) for name in ("claimed", "broken"))
    require_both_sides(claimed, broken)
    assert (claimed.grade, broken.grade) == ("proved", "refuted as worded")
    assert {case for part in broken.parts for case in part.missed} == {
        f"Gemma 3, {x}" for x in ("likes", "bought", "lives")
    }
    assert broken.headline.startswith("heads and prompts of Gemma 3 within the bound 0 of 1,296")


def test_one_set_of_heads_without_the_correlation_refutes_that_it_follows(tmp_path, monkeypatch):
    for name, alike in (("claimed", False), ("other", True)):
        invent_random_weights(tmp_path / name, as_claimed=alike)
    other = judge_made_up("U25-3T", tmp_path / "other")

    def opposite(seed: int, *, interaction: bool):
        x = np.random.default_rng(seed).uniform(size=(2, 1, 72))
        return x, 1 - x

    monkeypatch.setattr(exclusion, "draw_scores", opposite)
    claimed = judge_made_up("U25-3T", tmp_path / "claimed")
    require_both_sides(claimed, other)
    assert (claimed.grade, other.grade) == ("proved", "refuted as worded")


def test_heads_that_are_drawn_obey_the_theorem_and_are_of_either_sign():
    """A head that attends evenly is both, and noise that is sharp is neither."""
    for seed, interaction, sign in ((0, True, 1), (1, True, 1), (0, False, -1)):
        positional, symbolic = (x.mean((0, 1)) for x in draw_scores(seed, interaction=interaction))
        assert np.corrcoef(positional, symbolic)[0, 1] * sign > 0.5
        assert positional.max() == pytest.approx(1, abs=0.01)

"""Theorems with heads that break them: each search finds what it is given."""

from __future__ import annotations

import pytest
import torch
from judged import judge_made_up, require_both_sides

from posym_companion.claims import three_tasks
from posym_companion.claims.three_tasks import bends, build_index_head, build_retrieval_head
from posym_core.tasks import IndexTask


def blind(*_):
    """Return a head that gives every class the same score."""
    return lambda tokens: torch.zeros(len(tokens), 99, dtype=torch.float64)


# A head that does the task in place of one that cannot, and one that cannot, or is too weak, in place of one that does.
BROKEN = {
    "U25-T2": {"random_symbolic": lambda task, seed: build_index_head(task, 0.7), "build_index_head": blind},
    "U25-T3": {"WITHIN": 0.98},
    "U25-T4": {"random_positional": lambda task, seed: build_retrieval_head(task), "build_retrieval_head": blind},
    "U25-T5": {"WITHIN": 0.98},
}


@pytest.mark.parametrize("name", ["U25-T2", "U25-T3", "U25-T4", "U25-T5", "U25-T6", "U25-T7"])
def test_a_theorem_is_proved_and_no_search_contradicts_it(name, tmp_path):
    answer = judge_made_up(name, tmp_path)
    assert answer.grade == "proved"
    assert answer.evidence == {}
    assert all(part.held == part.told > 0 for part in answer.parts)


@pytest.mark.parametrize("name", BROKEN)
def test_a_head_that_breaks_a_theorem_is_found(name, tmp_path, monkeypatch):
    claimed = judge_made_up(name, tmp_path)
    for attribute, broken in BROKEN[name].items():
        monkeypatch.setattr(three_tasks, attribute, broken)
    answer = judge_made_up(name, tmp_path)
    require_both_sides(claimed, answer)
    assert answer.grade == "refuted as worded"


def test_pure_heads_that_are_not_caught_and_two_angles_that_err_refute_theorem_6(tmp_path, monkeypatch):
    claimed = judge_made_up("U25-T6", tmp_path)
    monkeypatch.setattr(three_tasks, "is_caught", lambda pair: False)
    free = judge_made_up("U25-T6", tmp_path)
    monkeypatch.setattr(three_tasks, "is_caught", lambda pair: True)
    monkeypatch.setattr(three_tasks, "is_always_right", lambda head, inputs: False)
    require_both_sides(claimed, free, judge_made_up("U25-T6", tmp_path))
    assert free.grade == "refuted as worded"


def test_curves_of_the_other_shape_refute_theorem_7(tmp_path, monkeypatch):
    claimed = judge_made_up("U25-T7", tmp_path)
    for name, other in (("positional", "symbolic"), ("symbolic", "positional")):
        monkeypatch.setattr(three_tasks, f"compute_{name}_peak", getattr(three_tasks, f"compute_{other}_peak"))
        answer = judge_made_up("U25-T7", tmp_path)
        monkeypatch.undo()
        assert answer.grade == "refuted as worded"
        assert {part.name for part in claimed.parts} >= {part.name for part in answer.parts if part.held < part.told}


def test_a_curve_bends_once_and_a_flat_one_both_ways():
    u = torch.tensor([3.0, 1.0, 0.5, 1.0, 3.0])
    assert (bends(u, 1), bends(u, -1), bends(-u, -1)) == (True, False, True)
    assert bends(torch.zeros(5), 1)
    assert bends(torch.zeros(5), -1)
    assert not bends(torch.tensor([1.0, 3.0, 1.0, 3.0]), 1)


def test_a_head_that_does_index_is_not_caught():
    task = IndexTask(length=5, symbols=5)
    pair = three_tasks.make_index_collision(build_index_head(task, 0.7), task)
    assert pair.right == 2
    assert not three_tasks.is_caught(pair)

"""Constructed heads of one hop and their bounds: what the claims say of altered ones."""

from __future__ import annotations

import math
from dataclasses import replace

from judged import count_parts, judge_made_up, require_both_sides

from posym_companion.claims import hop_heads
from posym_companion.theory._number_letter_heads import IndexHead, list_sequences
from posym_companion.theory._number_letter_limits import compute_index_discrepancy
from posym_core.tasks._number_letter_programs import is_valid


def test_the_constructions_need_enough_strength(tmp_path, monkeypatch):
    claimed = judge_made_up("U26-4a", tmp_path)
    assert (claimed.grade, [*count_parts(claimed).values()]) == ("proved", ["3 of 3", "2 of 2"])
    monkeypatch.setattr(hop_heads, "ABOVE", 0.999)
    weaker = judge_made_up("U26-4a", tmp_path)
    require_both_sides(claimed, weaker)
    assert weaker.grade == "refuted as worded"


def test_wrong_answers_are_among_valid_last_tokens():
    head = hop_heads.list_constructed_heads(3)[0]
    assert isinstance(head, IndexHead)
    # Letters, and integers that reach back far enough.
    valid = int(is_valid(list_sequences(head.task, 3), head.task)[:, -1].sum())
    assert (hop_heads.count_wrong(head, 3), valid) == (0, 6**2 * (2 + 2))
    head.beta = 0.0
    assert 0 < hop_heads.count_wrong(head, 3) <= valid


def test_two_bounds_are_refuted_for_the_maximum(tmp_path):
    answer = judge_made_up("U26-4b", tmp_path)
    assert (answer.grade, [*count_parts(answer).values()]) == ("refuted as worded", ["1 of 3"])
    by_hand = sum(
        compute_index_discrepancy(n, hop_heads.INDEX_ANGLE).greatest > 2 * math.pi**2 / n**2 + 1e-12
        for n in range(2, 101)
    )
    assert answer.parts[0].numbers == {"1 - cos(theta)": 0, "2 pi^2 / n^2": by_hand, "1 - cos(omega - n theta)": 99}


def test_bounds_that_hold_on_every_input_are_not_refuted(tmp_path, monkeypatch):
    for name in ("compute_index_discrepancy", "compute_retrieval_discrepancy"):
        true = getattr(hop_heads, name)
        monkeypatch.setattr(hop_heads, name, lambda *given, true=true: replace(true(*given), greatest=0.0))
    assert judge_made_up("U26-4b", tmp_path).grade == "proved"

"""The judge of the one-hop constructions: its verdicts from invented limits, and its finding from the real ones."""

from __future__ import annotations

import math
from dataclasses import replace

from posym_companion.ledger import ledger
from posym_companion.several_hops.judges import hop_theory
from posym_companion.theory._number_letter_heads import IndexHead, list_sequences
from posym_companion.theory._number_letter_limits import compute_index_discrepancy
from posym_core.tasks._number_letter_programs import is_valid


def test_the_constructions_need_no_result(tmp_path):
    (row,) = ledger("U26-4a", folder=tmp_path)
    assert row.verdict == "reproduced"
    assert list(row.parts.values()) == ["3 of 3 angles", "2 of 2 angles"]


def test_too_low_a_temperature_is_not_right(monkeypatch):
    monkeypatch.setattr(hop_theory, "ABOVE", 0.999)
    (row,) = ledger("U26-4a")
    assert row.verdict == "refuted as stated"
    assert row.parts["Index"] == "0 of 3 angles"
    head = hop_theory.list_constructed_heads()[0]
    assert row.fails_in[0] == f"angle 0.866: wrong answers of IndexHead {hop_theory.count_wrong(head, 4)[0]}"


def test_two_bounds_are_refuted_for_the_maximum(tmp_path):
    (row,) = ledger("U26-4b", folder=tmp_path)
    assert row.verdict == "refuted as stated"
    assert row.parts == {"the greatest discrepancy over inputs stays within the bound": "1 of 3 bounds"}
    assert "the maximal difference between the largest and second-largest logit" in row.note
    assert "could not be checked against the definition" in row.note
    # Three steps are nearly a whole turn, and the target in the middle has rivals at one and two.
    least, greatest, bound = 1 - math.cos(3 * 2.1), 1 - math.cos(2 * 2.1), 2 * math.pi**2 / 16
    assert f"none is, by {least:.5f}, and the bound {bound:.2f} is exceeded by {greatest - bound:.2f}." in row.note
    by_hand = sum(
        compute_index_discrepancy(n, hop_theory.INDEX_ANGLE).greatest > 2 * math.pi**2 / n**2 + 1e-12
        for n in range(2, 101)
    )
    assert by_hand > 0
    exceeds = "lengths at which the greatest discrepancy exceeds it"
    assert row.fails_in == [f"2 pi^2 / n^2: {exceeds} {by_hand}", f"1 - cos(omega - n theta): {exceeds} 99"]


def altered(monkeypatch, **fields):
    """Let both discrepancies be something else."""
    for name in ("compute_index_discrepancy", "compute_retrieval_discrepancy"):
        true = getattr(hop_theory, name)
        monkeypatch.setattr(hop_theory, name, lambda *given, true=true: replace(true(*given), **fields))


def test_bounds_that_hold_on_every_input_reproduce_the_theorem(monkeypatch):
    altered(monkeypatch, greatest=0.0)
    assert ledger("U26-4b")[0].verdict == "reproduced"


def test_wrong_answers_are_among_valid_last_tokens():
    head = hop_theory.list_constructed_heads(3)[0]
    assert isinstance(head, IndexHead)
    # Letters, and integers that reach back far enough.
    valid = int(is_valid(list_sequences(head.task, 3), head.task)[:, -1].sum())
    assert hop_theory.count_wrong(head, 3) == (0, valid)
    assert valid == 6**2 * (2 + 2)
    head.beta = 0.0
    assert hop_theory.count_wrong(head, 3)[0] > 0

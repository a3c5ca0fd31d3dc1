"""The judge of the one-hop constructions: its verdicts from invented limits, and its finding from the real ones."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from posym_companion.findings import hop_theory, ledger
from posym_core.models.constructed.hop_limits import index_discrepancy
from posym_core.models.constructed.hops import IndexHead, every_sequence
from posym_core.tasks.multihop_programs import is_valid


@pytest.mark.parametrize(
    ("heads", "stated", "worst", "verdict"),
    [
        (True, True, True, "reproduced"),
        (True, False, True, "reproduced in kind"),
        (True, False, False, "not reproduced"),
        (False, True, True, "not reproduced"),
        (False, False, True, "not reproduced"),
    ],
)
def test_verdicts_follow_what_holds(heads, stated, worst, verdict):
    assert hop_theory.judged(heads=heads, stated=stated, worst=worst) == verdict


def test_the_row_needs_no_result_and_says_which_bounds_fail(tmp_path):
    (row,) = ledger("U26-4", folder=tmp_path)
    assert row.verdict == "reproduced in kind"
    assert "2 of its 3 bounds fail (2 pi^2 / n^2, 1 - cos(omega - n theta))" in row.note
    assert row.ours["IndexHead: least share right, at 3 angles"] == 1
    assert row.ours["RetrievalHead: least share right, at 2 angles"] == 1
    # All inputs: letters, and integers that reach back far enough; ends, and pairs that name one earlier pair.
    inputs = 6**3 * (2 + 3)
    assert row.ours["IndexHead: inputs, all there are"] == inputs
    assert row.ours["lengths out of 99 whose best input exceeds 1 - cos(theta)"] == 0
    by_hand = sum(
        index_discrepancy(n, hop_theory.INDEX_ANGLE).greatest > 2 * math.pi**2 / n**2 + 1e-12 for n in range(2, 101)
    )
    assert row.ours["lengths out of 99 whose best input exceeds 2 pi^2 / n^2"] == by_hand > 0
    for name in ("1 - cos(theta)", "2 pi^2 / n^2", "1 - cos(omega - n theta)"):
        assert row.ours[f"lengths out of 99 whose worst input exceeds {name}"] == 0


def test_too_low_a_temperature_is_not_right(monkeypatch):
    monkeypatch.setattr(hop_theory, "ABOVE", 0.999)
    finding = hop_theory.heads_hop_within_bounds(None)
    assert finding.verdict == "not reproduced"
    assert "wrong on some inputs" in finding.note


def altered(monkeypatch, **fields):
    """Let both discrepancies be something else."""
    for name in ("index_discrepancy", "retrieval_discrepancy"):
        true = getattr(hop_theory, name)
        monkeypatch.setattr(hop_theory, name, lambda *given, true=true: replace(true(*given), **fields))


def test_bounds_that_hold_on_every_input_reproduce_the_theorem(monkeypatch):
    altered(monkeypatch, greatest=0.0, least=0.0)
    finding = hop_theory.heads_hop_within_bounds(None)
    assert finding.verdict == "reproduced"
    assert "all bounds hold on every input" in finding.note


def test_bounds_that_fail_on_the_worst_input_do_not(monkeypatch):
    altered(monkeypatch, greatest=3.0, least=3.0)
    finding = hop_theory.heads_hop_within_bounds(None)
    assert finding.verdict == "not reproduced"
    assert "fail even on the worst input" in finding.note


def test_shares_are_over_valid_last_tokens():
    head = hop_theory.constructed(3)[0]
    assert isinstance(head, IndexHead)
    share, count = hop_theory.share_right(head, 3)
    assert share == 1
    assert count == int(is_valid(every_sequence(head.task, 3), head.task)[:, -1].sum()) == 6**2 * (2 + 2)
    head.beta = 0.0
    assert hop_theory.share_right(head, 3)[0] < 1

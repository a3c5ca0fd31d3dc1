"""What lengths decide, from made-up ones: near and far, no head that looks, and models that answer nothing."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.solvers.answer_lengths import KNOWN, full_size
from posym_companion.solvers.judges.answer_lengths import NEAR, answered, points

RANK = "rank correlation over models"


def judged(folder, reaches, lengths, looks=0.9):
    """An ensemble whose members reach so many tokens and answer lists so long; a fact is two tokens."""
    (setting,) = (each for each in full_size() if each.model.startswith("1e4"))
    heads = (len(reaches), 2, 4)
    attention = np.full(heads, 0.1)
    attention[:, 1, 2] = looks
    reach = np.full(heads, 1.0)
    reach[:, 1, 2] = reaches
    correct = np.array(KNOWN)[None, :, None] <= np.array(lengths)[:, None, None]
    arrays = {
        "lengths": np.array(KNOWN),
        "words": np.array(2),
        "attention": attention,
        "reach": reach,
        "correct": np.broadcast_to(correct, (*correct.shape[:2], 10)),
    }
    save_invented(setting.name, arrays, folder, **asdict(setting))
    (row,) = ledger("B-5", folder=folder)
    return row


def test_lengths_that_are_as_predicted(tmp_path):
    row = judged(tmp_path, [16, 20, 32, 60, 64], [8, 8, 16, 32, 32])
    assert row.verdict == row.first_rule_verdict == "reproduced in kind"
    assert row.ours[RANK] > 0.9


@pytest.mark.parametrize(
    ("reaches", "verdict"), [([64, 64, 64, 16, 16], "not reproduced"), ([64, 16, 16, 64, 64], "partly")]
)
def test_lengths_that_are_not(tmp_path, reaches, verdict):
    row = judged(tmp_path, reaches, [8, 8, 8, 32, 32])
    assert row.verdict == verdict
    assert row.fails_in


def test_what_lies_beyond_the_lengths_asked_tests_nothing(tmp_path):
    """The first rule cut predictions, and so compared models with its own cut."""
    row = judged(tmp_path, [1e6, 1e5, 1e4, 1e3, 1e2], [16, 16, 16, 32, 32])
    assert row.verdict == "not testable"
    assert row.first_rule_verdict == "partly"
    assert row.ours["models whose predicted length was asked"] == 0
    assert [round(point.predicted) for point in points(tmp_path)] == [500_000, 50_000, 5000, 500, 50]
    assert {point.cut for point in points(tmp_path)} == {32.0}


def test_only_models_that_answer_count_and_one_length_has_no_rank(tmp_path):
    row = judged(tmp_path, [64, 64, 64, 64], [32, 32, 32, 0])
    assert row.verdict == "not testable"
    assert row.ours["models"] == 3
    row = judged(tmp_path, [64] * 5, [32] * 5)
    assert row.verdict == "partly"
    assert isinstance(row.ours[RANK], str)


def test_where_no_head_looks_nothing_is_predicted(tmp_path):
    row = judged(tmp_path, [64] * 5, [32] * 5, looks=0.3)
    assert row.verdict == "not testable"
    assert str(row.ours[NEAR]) == "0 of 5"


def test_a_longer_list_that_is_answered_behind_one_that_is_not_does_not_count():
    right = np.zeros((1, 3, 10), bool)
    right[0, [0, 2]] = True
    found = {"correct": right, "lengths": np.array(KNOWN)}
    assert answered(found, 0) == 8

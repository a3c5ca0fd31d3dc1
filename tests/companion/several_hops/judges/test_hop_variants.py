"""Judge of U26-9 on invented models: verdicts, how far models reach, and their heads."""

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.several_hops.hop_variants import HopVariant
from posym_companion.several_hops.judges.hop_variants import CASES, mean_kinds, reaches

AS_CLAIMED = {("number", "nope"): 0.2, ("number", "slow"): 0.3, ("letter", "fast"): 0.4}


def invented(folder, task, change, accuracy):
    hops = np.full((3, 2), accuracy)
    length = np.array([[1.0, 0.95, 0.2, 1.0], [0.8, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.91]])
    scores = np.full((3, 2, 2, 4, 1), 0.5)
    scores[:, :, :, 1], scores[:, :, :, 2] = 0.99, 0.01
    # Paths of one hop have one station less.
    scores[:, 0, 1] = np.nan
    arrays = {
        "test_accuracy": hops,
        "lengths": np.array([17, 24, 32, 64]),
        "length_accuracy": np.repeat(length[..., None], 2, 2),
        "positional": scores,
        "symbolic": 1 - scores,
    }
    return save_invented(HopVariant(task=task, change=change).name, arrays, folder)


def judged(folder, **changed):
    for task, change in CASES:
        accuracy = AS_CLAIMED.get((task, change), 0.99)
        invented(folder, task, change, changed.get(f"{task}_{change}", accuracy))
    return ledger("U26-9", folder=folder)[0]


def test_necessity_as_claimed(tmp_path):
    row = judged(tmp_path)
    assert (row.verdict, row.fails_in) == ("reproduced in kind", [])
    assert row.ours["Letter with all planes: longest sequence still solved, by seed"] == "24, 0, 64"
    assert row.ours["Letter with all planes: heads by layer, by seed"] == ".PS.; .PS.; .PS."


@pytest.mark.parametrize("missed", ["number_nope", "number_slow", "letter_fast"])
def test_a_task_that_is_solved_without_what_it_needs(tmp_path, missed):
    row = judged(tmp_path, **{missed: 0.95})
    assert row.verdict == "partly"
    (said,) = row.fails_in
    assert said.endswith(" only: 0.95 [0.95, 0.95], less than 0.9 was asked") or "without rotation: 0.95" in said


def test_models_that_learn_nothing_tell_nothing(tmp_path):
    assert judged(tmp_path, number_plain=0.5).verdict == "not testable"


def test_reach_ends_at_the_first_length_that_is_not_solved(tmp_path):
    result = invented(tmp_path, "number", "plain", 1.0)
    assert reaches(result) == [24, 0, 64]
    assert mean_kinds(result)[:, :, 0].tolist() == [[0, 1, -1, 0]] * 3

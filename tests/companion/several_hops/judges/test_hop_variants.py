"""Judge of U26-9 on invented models."""

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.several_hops.hop_variants import HopVariant
from posym_companion.several_hops.judges.hop_variants import CASES

AS_CLAIMED = {("number", "nope"): 0.2, ("number", "slow"): 0.3, ("letter", "fast"): 0.4}


def judged(folder, **changed):
    for task, change in CASES:
        accuracy = changed.get(f"{task}_{change}", AS_CLAIMED.get((task, change), 0.99))
        arrays = {"test_accuracy": np.full((3, 2), accuracy) + np.array([0.01, -0.01])}
        save_invented(HopVariant(task=task, change=change).name, arrays, folder)
    return ledger("U26-9", folder=folder)[0]


@pytest.mark.parametrize("missed", [None, "number_nope", "number_slow", "letter_fast"])
def test_a_task_that_is_solved_without_what_it_needs(tmp_path, missed):
    row = judged(tmp_path, **({missed: 0.95} if missed else {}))
    assert row.verdict == ("partly" if missed else "reproduced in kind")
    assert len(row.fails_in) == (missed is not None)
    assert all(case.endswith(": 0.95 [0.95, 0.95], less than 0.9 was asked") for case in row.fails_in)
    assert "intervals over 3 seeds" in row.note


def test_models_that_learn_nothing_tell_nothing(tmp_path):
    assert judged(tmp_path, number_plain=0.5).verdict == "not testable"

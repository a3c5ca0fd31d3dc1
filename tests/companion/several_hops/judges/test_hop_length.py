"""The judge of length on invented curves, one for every verdict."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.results import load_result
from posym_companion.several_hops.judges.hop_length import accuracy_at, reach, stored_lengths, symbols_travel_further
from posym_core.store._resuming import ResultError

LENGTHS = np.array([17, 32, 64, 128, 256, 850, 1020])


def invented(folder, task, seed, *, until, rest=0.1):
    accuracy = np.where(until >= LENGTHS, 0.97, rest)[:, None].repeat(4, 1)
    arrays = {"lengths": LENGTHS, "accuracy": accuracy}
    name = f"hop_length/{task}_{seed}"
    return save_invented(name, arrays, folder, seed=seed)


@pytest.mark.parametrize(
    ("number", "letter", "verdict", "first"),
    [
        ((17, 17, 32), (850, 1020, 1020), "reproduced", "reproduced in kind"),
        ((17, 17, 64), (850, 1020, 1020), "partly", "reproduced in kind"),
        ((17, 17, 32), (256, 1020, 1020), "partly", "reproduced in kind"),
        ((17, 17, 128), (256, 1020, 1020), "partly", "not reproduced"),
        ((850, 850, 850), (17, 17, 17), "not reproduced", "not reproduced"),
    ],
)
def test_every_verdict(tmp_path, number, letter, verdict, first):
    for seed in range(3):
        invented(tmp_path, "number", seed, until=number[seed])
        invented(tmp_path, "letter", seed, until=letter[seed])
    (row,) = ledger("U26-5", folder=tmp_path)
    assert (row.verdict, row.first_rule_verdict) == (verdict, first)
    assert row.ours["Number: largest reach over seeds, 2 hops"] == max(number)
    expected = np.mean([0.97 if x >= 850 else 0.1 for x in letter])
    assert row.ours["Letter at 850 tokens, mean over hops"]["value"] == pytest.approx(expected, rel=1e-3)
    assert len(row.evidence) == 7


def test_hops_are_judged_one_by_one(tmp_path):
    for seed in range(2):
        invented(tmp_path, "number", seed, until=17)
        run = invented(tmp_path, "letter", seed, until=1020)
        accuracy = run["accuracy"].copy()
        accuracy[-2:, 2:] = 0.3
        save_invented(run.name, {"lengths": LENGTHS, "accuracy": accuracy}, tmp_path)
    (row,) = ledger("U26-5", folder=tmp_path)
    assert row.verdict == "partly"
    assert row.parts["Letter holds at 850 tokens"] == "2 of 4 numbers of hops"
    assert row.fails_in == [f"Letter at 850 tokens, {hop} hops: 0.30 [0.30, 0.30]" for hop in (3, 4)]


def test_a_curve_that_comes_back_ended_where_it_fell(tmp_path):
    result = invented(tmp_path, "number", 0, until=64)
    accuracy = result["accuracy"].copy()
    accuracy[1] = 0.5
    again = save_invented(result.name, {"lengths": LENGTHS, "accuracy": accuracy}, tmp_path)
    assert reach(again) == 17
    accuracy[0] = 0.5
    again = save_invented(result.name, {"lengths": LENGTHS, "accuracy": accuracy}, tmp_path)
    assert reach(again) == 0


def test_one_seed_is_too_few(tmp_path):
    for task in ("number", "letter"):
        invented(tmp_path, task, 1, until=17)
    assert len(stored_lengths("number", tmp_path)) == 1
    with pytest.raises(ResultError, match="is not there"):
        symbols_travel_further(tmp_path)


def test_a_length_that_was_not_tested_is_named(tmp_path):
    invented(tmp_path, "number", 0, until=17)
    with pytest.raises(ValueError, match=r"hop_length/number_0 was tested at \[17, .*\] tokens; got 18"):
        accuracy_at([load_result("hop_length/number_0", folder=tmp_path)], 18)

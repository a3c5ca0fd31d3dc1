"""The judge of length on invented curves."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.several_hops.judges.hop_length import reach

LENGTHS = np.array([17, 32, 64, 128, 256, 850, 1020])


def invented(folder, task, seed, *, until, rest=0.1):
    accuracy = np.where(until >= LENGTHS, 0.97, rest)[:, None].repeat(4, 1)
    arrays = {"lengths": LENGTHS, "accuracy": accuracy}
    name = f"hop_length/{task}_{seed}"
    return save_invented(name, arrays, folder, seed=seed)


def test_as_claimed_and_one_seed_of_each_that_is_not(tmp_path):
    for place, until in (("claimed", {}), ("other", {"number": 128, "letter": 64})):
        for task, rest in (("number", 17), ("letter", 850)):
            for seed in range(3):
                invented(tmp_path / place, task, seed, until=until.get(task, rest) if seed == 1 else rest)
    row = ledger("U26-5", folder=tmp_path / "claimed")[0]
    assert row.verdict == "reproduced"
    assert len(row.evidence) == 7
    row = ledger("U26-5", folder=tmp_path / "other")[0]
    assert row.verdict == "not reproduced"
    assert row.ours["largest reach of Number over its training's length (2 hops)"] == pytest.approx(128 / 17, rel=1e-3)
    assert row.ours["least reach of Letter less largest of Number (2 hops)"] == 64 - 128
    assert row.ours["Letter at 850 tokens (2 hops)"]["value"] == pytest.approx((2 * 0.97 + 0.1) / 3, rel=1e-3)


def test_a_curve_that_comes_back_ended_where_it_fell(tmp_path):
    result = invented(tmp_path, "number", 0, until=64)
    accuracy = result["accuracy"].copy()
    accuracy[1] = 0.5
    again = save_invented(result.name, {"lengths": LENGTHS, "accuracy": accuracy}, tmp_path)
    assert reach(again) == 17
    accuracy[0] = 0.5
    again = save_invented(result.name, {"lengths": LENGTHS, "accuracy": accuracy}, tmp_path)
    assert reach(again) == 0

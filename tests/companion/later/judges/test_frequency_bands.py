"""What lies below the band, from made-up runs: each line kept and missed."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.later.frequency_bands import full_size
from posym_companion.later.judges.frequency_bands import turns
from posym_companion.ledger import ledger

NAMES = ["none", "below stopped", "below zeroed", "below as fast as the band", "above stopped"]
NAMES += ["below each head's own stopped", "random stopped, 0", "random stopped, 1"]


def invented(
    folder, *, still="", high=4.0, below=0.0, zeroed=0.0, above=0.5, drawn=0.3, right=1.0, kept=1.0, ratio=0.01, at=0.1
):
    """Two layers of four planes, one of them above the cut; costs are added to a loss of three nats."""
    for setting in full_size():
        own = setting.draw is None
        sizes = np.ones((2, 4))
        sizes[:, 1] = high if own else 2.0
        arrays = {"sizes": sizes, "own": np.ones((2, 3)), "cut": np.array([2, 2]), "sees": np.array([16, 64])}
        slow = 0.01 if setting.model == still else at
        arrays |= {"angles": np.tile([1.0, 0.5, slow, 0.01], (2, 1)), "conditions": np.array(NAMES)}
        arrays |= {"lengths": np.array(setting.lengths), "facts": np.array(setting.facts)}
        if setting.lengths:
            costs = np.array([0, below, zeroed, 0.2, above, below, drawn, drawn])
            moved = np.array([0, ratio if own else 0.1, 1, 1, 1, 1, 1.0, 1.0])
            shape = (len(NAMES), len(setting.lengths), 6)
            arrays["loss"] = np.broadcast_to(3 + costs[:, None, None], shape)
            arrays["moved"] = np.broadcast_to(moved[:, None, None], shape)
        if setting.facts:
            correct = np.full((len(NAMES), 2, 10), right)
            correct[1] = kept
            arrays["correct"] = correct
        save_invented(setting.name, {name: np.array(x) for name, x in arrays.items()}, folder, **asdict(setting))
    (row,) = ledger("L-7", folder=folder)
    return row


@pytest.mark.parametrize(
    ("values", "missed"),
    [
        ({}, []),
        ({"high": 2.0}, ["keys have a band"]),
        ({"below": 0.06}, ["stopping what lies below costs little"]),
        ({"below": 0.04, "drawn": 0.04}, ["it costs less than as many planes at random"]),
        ({"below": 0.04, "above": 0.03}, ["it costs less than as many planes directly above"]),
        ({"kept": 0.8}, ["the taught models bind as well"]),
        ({"zeroed": 0.06}, ["what lies below is hardly used: zeroing it costs little"]),
        ({"ratio": 0.1}, ["the little effect is learned, and not the architecture's"]),
    ],
)
def test_every_line_has_two_sides(tmp_path, values, missed):
    row = invented(tmp_path, **values)
    assert [part for part, said in row.parts.items() if said != "2 of 2 families"] == missed
    assert row.verdict == ("partly" if missed else "reproduced in kind")


def test_planes_that_hardly_turn_and_models_that_do_not_bind_are_no_test(tmp_path):
    row = invented(tmp_path, at=0.01, right=0.4, kept=0.4)
    untestable = [part for part, said in row.parts.items() if "not testable" in said]
    assert len(untestable) == 4
    assert row.first_rule_verdict == row.verdict
    assert "the taught models bind as well" in untestable


def test_a_family_whose_planes_hardly_turn_leaves_the_lines_to_the_other(tmp_path):
    row = invented(tmp_path, still="smollm2-135m")
    assert row.parts["stopping what lies below costs little"] == "1 of 1 families"
    assert row.verdict == "reproduced in kind"
    assert row.first_rule_verdict == "partly"  # three of its lines ask no family


def test_what_was_not_run_is_not_asked(tmp_path):
    invented(tmp_path)
    for name in ("smollm2-135m-binds", "gemma-3-270m-random1"):
        for file in (tmp_path / "frequency_bands").glob(f"{name}.*"):
            file.unlink()
    (row,) = ledger("L-7", folder=tmp_path)
    counts = {part: said for part, said in row.parts.items() if said != "2 of 2 families"}
    assert counts == {
        "keys have a band": "1 of 1 families",
        "the taught models bind as well": "1 of 1 families",
        "the little effect is learned, and not the architecture's": "1 of 1 families",
    }


def test_a_band_of_the_slowest_plane_has_nothing_below_it():
    assert turns({"angles": np.ones((2, 3)), "cut": np.array([3, 1]), "sees": np.array([9, 9])}).tolist() == [0, 9]

"""Index read from origins, from made-up runs: with every line met or missed, no carrier, one square."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.results import MissingResultError
from posym_companion.solvers.judges import origin_solvers
from posym_companion.solvers.judges.origin_solvers import origin_results, origin_share
from posym_companion.solvers.origin_solvers import KEPT, full_size


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """What is invented has no spread."""
    monkeypatch.setattr(origin_solvers, "DRAWS", 40)


AT = {name: place for place, name in enumerate(KEPT)}


def invented(folder, *, index=0.9, rotary=0.9, binding=0.1, before=0.1, binds=True, carried=True, squares=6, lost=0):
    """Five seeds a setting; one head carries both kinds, and origin is so much of its symbolic part."""
    for setting in full_size():
        layers, turns = setting.solver.layers, setting.solver.band != "none"
        accuracy = np.tile([1.0 if binds and turns else 0.3, 1.0], (5, 1))
        accuracy[:lost, 1] = 0.9  # not above it
        patched = np.zeros((5, 2, layers, 2))
        patched[..., -1, 1] = 0.9 if carried else 0.19
        parts = {name: np.full((5, 2, 2, squares, layers, 2, len(KEPT)), 0.5) for name in ("parts", "parts_before")}
        for name, values in (("parts", (binding, rotary if turns else index)), ("parts_before", (before, before))):
            for kind, value in enumerate(values):
                head = parts[name][:, kind, :, :, -1, 1]
                head[..., AT["origin"]] = value
                head[..., AT["symbol"]] = 1 - value - 0.05
                head[..., AT["symbol_origin"]], head[..., AT["prompts"]] = 0.25, 0.2
        made = {"accuracy": accuracy, "patched": patched, **parts}
        save_invented(setting.name, made, folder, **asdict(setting))
    (row,) = ledger("C-5", folder=folder)
    return row


INDEX, BINDING, BEFORE = (
    "index with rotation is read from origins, too",
    "binding is not",
    "before training origin holds less at the same heads",
)


@pytest.mark.parametrize(
    ("values", "cases", "verdict"),
    [
        ({}, (5, 5, 10), "reproduced in kind"),
        ({"index": 0.2, "rotary": 0.2, "binding": 0.8, "before": 0.3}, (0, 0, 0), "not reproduced"),
        ({"carried": False}, (0, 0, 0), "not reproduced"),
    ],
)
def test_models_are_asked_by_what_they_solve_and_whether_they_rotate(tmp_path, values, cases, verdict):
    row = invented(tmp_path, **values)
    assert [row.parts[name] for name in (INDEX, BINDING, BEFORE)] == [
        f"{some} of {every} models" for some, every in zip(cases, (5, 5, 10), strict=True)
    ]
    assert row.verdict == verdict
    assert (row.fails_in == []) == (verdict == "reproduced in kind")


def test_squares_on_which_origin_held_as_much_before_training_are_not_averaged_away(tmp_path):
    row = invented(tmp_path, index=0.75, before=np.array([0.2, 0.9, 0.3, 0.9, 0.5, 0.9]))
    assert (
        row.ours[
            "lower end of origin's share less the upper end before training (index, no rotation, none_2x2_8, seed 3)"
        ]
        < 0
    )
    assert row.parts[BEFORE] == "0 of 10 models"


def test_models_without_rotation_were_the_first_rule_s(tmp_path):
    row = invented(tmp_path, index=0.49)
    assert (row.verdict, row.fails_in, row.first_rule_verdict) == ("reproduced in kind", [], "partly")


def test_only_models_that_solve_a_kind_are_asked(tmp_path):
    row = invented(tmp_path, lost=2)
    assert row.parts[INDEX] == "3 of 3 models"
    assert row.parts[BEFORE] == "6 of 6 models"
    row = invented(tmp_path, binds=False)
    assert row.parts[BINDING] == "not testable"
    assert row.verdict == "partly"


def test_shares_are_of_the_symbolic_part_of_single_prompts(tmp_path):
    row = invented(tmp_path, index=0.75)
    assert row.ours["origin's share (index, no rotation, none_2x2_8, seed 3)"]["value"] == pytest.approx(0.75)
    result = origin_results(tmp_path)[0]
    both = origin_share(result, 0, "index", "symbol_origin")
    assert both is not None
    assert both.value == pytest.approx(0.05)
    place = origin_share(result, 0, "index", "place", queries="crossed")
    assert place is not None
    assert place.value == pytest.approx(0.5 / (1 + 4 * 0.5), rel=0.1)


def test_heads_before_the_last_layer_can_be_left_out(tmp_path):
    invented(tmp_path)
    setting, result = full_size()[1], origin_results(tmp_path)[1]
    arrays = {name: array.copy() for name, array in result.arrays.items()}
    arrays["patched"][:, 0, 0, 0] = 0.5
    arrays["parts"][:, 0, :, :, 0, 0] = 0
    arrays["parts"][:, 0, :, :, 0, 0, AT["origin"]] = 100
    save_invented(setting.name, arrays, tmp_path, **asdict(setting))
    (row,) = ledger("C-5", folder=tmp_path)
    assert row.parts[BINDING] == "0 of 5 models"
    assert row.note.endswith("of those in the last layer alone origin holds 0.10 to 0.10")


def test_one_square_and_undefined_parts(tmp_path):
    row = invented(tmp_path, squares=1)
    assert row.verdict == "reproduced in kind"
    assert invented(tmp_path, rotary=np.nan).parts[INDEX] == "0 of 5 models"
    with pytest.raises(MissingResultError):
        origin_results(tmp_path / "nothing")

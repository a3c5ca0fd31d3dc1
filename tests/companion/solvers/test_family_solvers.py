"""The models of three architectures: what is measured, and the judge on invented results."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.solvers import family_solvers
from posym_companion.solvers.family_solvers import FamilySolver, full_size, small
from posym_companion.solvers.judges.task_solvers import PAIRS


@pytest.fixture(scope="module")
def measured():
    return family_solvers.measure(small(FamilySolver(family="gemma2")), progress=False)


def test_arrays_have_the_dimensions_that_are_named(measured):
    sizes = {}
    for name, array in measured.items():
        (dims,) = (dims for names, dims in family_solvers.DIMS.items() if name in names.split())
        for dim, size in zip(dims.split(), array.shape, strict=True):
            assert sizes.setdefault(dim, size) == size
    assert {"layer": 2, "head": 2, "question": 2, "prompt": 32, "kind": 2, "look": 3}.items() <= sizes.items()
    assert ((measured["scores"] >= 0) & (measured["scores"] <= 1.001)).all()


def invented(folder, setting, *, right=1.0, trend=1.0):
    scores = np.zeros((2, 2, 2, 2))
    scores[:, 0] = [0.9, 0.3]
    scores[:, 1] = [0.2, 0.95]
    arrays = {
        "scores": scores if trend > 0 else scores[:, ::-1],
        "right": np.arange(100)[None].repeat(2, 0) < 100 * right,
    }
    save_invented(setting.name, arrays, folder, family=setting.family, layers=2)


def untrained(folder, **drawn):
    """Scores of untrained models whose two layers are alike; in one draw, of the first model's on binding, others."""
    scores = np.broadcast_to([[0.5, 0.5], [0.6, 0.7]], (3, len(full_size()), 2, 2, 2, 2)).copy()
    if drawn:
        scores[1, 0, 0] = drawn["scores"]
    save_invented("random_solvers/planes", {"families": scores}, folder)


@pytest.mark.parametrize(
    ("scores", "missed"),
    [
        # As the trained ones: no sign goes beyond.
        ([[[0.9, 0.3], [0.9, 0.3]], [[0.2, 0.95], [0.2, 0.95]]], ["r", "early", "late"]),
        # The trend of s_POS alone, and positive r.
        ([[[1.0, 0.5], [0.9, 0.5]], [[0.1, 0.5], [0.1, 0.4]]], ["early"]),
    ],
)
def test_an_untrained_model_with_such_a_sign_is_one_case_less(tmp_path, scores, missed):
    for setting in full_size()[:3]:
        invented(tmp_path, setting)
    untrained(tmp_path, scores=np.array(scores))
    (row,) = ledger("T-7", folder=tmp_path)
    less = {name: said for name, said in row.parts.items() if "random weights" in name}
    parts = {"r": "r is below", "early": "early layers", "late": "late layers"}
    for name, begins in parts.items():
        (said,) = (said for part, said in less.items() if part.startswith(begins))
        assert said == f"{5 if name in missed else 6} of 6 {PAIRS}", name
    assert (row.verdict, row.first_rule_verdict) == ("partly", "reproduced in kind")


def test_every_verdict(tmp_path):
    untrained(tmp_path)
    for setting in full_size()[:3]:
        invented(tmp_path, setting)
    assert ledger("T-7", folder=tmp_path)[0].verdict == "reproduced in kind"
    invented(tmp_path, full_size()[3], trend=-1.0)
    (row,) = ledger("T-7", folder=tmp_path)
    assert row.verdict == "partly"
    assert row.parts["r is negative"] == f"8 of 8 {PAIRS}"
    assert row.parts["early layers are positional"] == f"6 of 8 {PAIRS}"
    invented(tmp_path, full_size()[0], right=0.5)
    invented(tmp_path, full_size()[3], right=0.5)
    assert "no stored small model of llama" in ledger("T-7", folder=tmp_path)[0].note


def test_a_tie_is_no_trend(tmp_path):
    """Both layers alike: one head positional, one symbolic, so that r is negative and no layer is above another."""
    untrained(tmp_path)
    for setting in full_size()[:3]:
        invented(tmp_path, setting)
        arrays = {"scores": np.broadcast_to([[0.9, 0.3], [0.2, 0.95]], (2, 2, 2, 2)), "right": np.ones((2, 100))}
        save_invented(setting.name, arrays, tmp_path, family=setting.family, layers=2)
    (row,) = ledger("T-7", folder=tmp_path)
    assert list(row.parts.values())[:3] == [f"6 of 6 {PAIRS}", f"0 of 6 {PAIRS}", f"0 of 6 {PAIRS}"]

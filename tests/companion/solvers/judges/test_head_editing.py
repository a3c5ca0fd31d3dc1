"""What edits decide, from made-up ones: heads that move answers or only spoil them, and rivals that are the same."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.language_models.head_predictors import PREDICTORS
from posym_companion.ledger import ledger
from posym_companion.results import load_result
from posym_companion.solvers.head_editing import EDITS, HeadEditing
from posym_companion.solvers.head_rankings import HeadRankings
from posym_companion.solvers.judges.head_editing import (
    CHANCE,
    FAMILIES,
    EditSummary,
    measure_moved,
    over_lists,
    summarize_edit,
)

# Head that each predictor puts first, of three layers of four heads; scores share one, and rivals have their own.
FIRST = {
    "symbolic": (2, 0),
    "symbol share": (2, 0),
    "slow planes": (2, 0),
    "positional": (0, 1),
    "where share": (0, 1),
    "asked fact": (1, 1),
    "copying": (1, 2),
    "previous token": (1, 3),
}
FAST = (0, 1)
NOTHING = (0.97, 0.004, 0.004, 0.0044)
MOVED = (0.3, 0.4, 0.2, 0.02)
SPOILT = (0.3, 0.1, 0.1, 0.1)
LISTS = 6


def logs_of(chances):
    return np.log(np.broadcast_to(np.array(chances), (LISTS, 4, 4)).copy())


def invent(folder, edits, first=FIRST, unedited=NOTHING, lists=LISTS, tied=None):
    """``edits`` says by (edit, head) what is found there; everywhere else nothing changes."""
    predictors = np.full((1, 1, len(PREDICTORS), 3, 4), 0.5)
    for name, head in first.items():
        predictors[0, 0, PREDICTORS.index(name)][head] = 1.0
    if tied is not None:
        predictors[0, 0, PREDICTORS.index(tied[0])][tied[1]] = 1.0 - 5e-5
    predictors[0, 0, PREDICTORS.index("slow planes")][FAST] = 0.1
    for model in FAMILIES.values():
        ranking, setting = HeadRankings(model=model), HeadEditing(model=model)
        names = {"predictor_names": np.array(PREDICTORS), "predictors": predictors}
        save_invented(ranking.name, names, folder, **asdict(ranking))
        logs = np.broadcast_to(logs_of(unedited), (2, 3, 4, LISTS, 4, 4)).copy()
        for (edit, head), chances in edits.items():
            logs[EDITS.index(edit)][head] = chances if isinstance(chances, np.ndarray) else logs_of(chances)
        base = logs_of(unedited)
        arrays = {
            "log_probability": logs[..., :lists, :, :],
            "answer": logs.argmax(-1).astype(np.uint8)[..., :lists, :],
            "unedited": base[:lists],
            "unedited_answer": base.argmax(-1).astype(np.uint8)[:lists],
        }
        save_invented(setting.name, arrays, folder, **asdict(setting))
    (row,) = ledger("B-6", folder=folder)
    return row


RIGHT = {("sped up", (2, 0)): MOVED, ("stopped", FAST): MOVED}


def test_scores_that_tell(tmp_path):
    row = invent(tmp_path, RIGHT)
    assert row.verdict == "reproduced in kind"
    assert row.ours["moved by the first head (score, sped up, Gemma)"]["value"] == pytest.approx(
        0.56 + 0.0008, abs=1e-3
    )
    assert row.ours["first head (score, stopped, SmolLM2)"] == "0:1"
    assert str(row.ours["Gemma, fast planes stopped: they move it more than the first heads of others"]) == "12 of 12"
    assert not row.fails_in


def test_damage_that_spreads_moves_nothing(tmp_path):
    """Another head moves answers, so that it can be asked, and the heads of the scores only spoil them."""
    row = invent(tmp_path, dict.fromkeys(RIGHT, SPOILT) | {(edit, (0, 3)): MOVED for edit in EDITS})
    assert row.verdict == "not reproduced"
    assert row.ours["moved by the first head (score, sped up, Gemma)"]["value"] == pytest.approx(0, abs=2e-3)


def test_heads_that_attend_to_the_asked_fact_are_no_less(tmp_path):
    """Every rival moves as much: a tie is no comparison won."""
    edits = RIGHT | {(edit, (1, head)): MOVED for edit in EDITS for head in (1, 2, 3)}
    row = invent(tmp_path, edits)
    assert row.verdict == "partly"
    assert str(row.ours["Gemma, slow planes sped up: the first heads of scores move the answer"]) == "3 of 3"
    assert str(row.ours["Gemma, slow planes sped up: they move it more than the first heads of others"]) == "3 of 12", (
        "chance alone"
    )


def test_orders_that_begin_with_the_same_head_are_not_compared(tmp_path):
    row = invent(tmp_path, RIGHT, FIRST | {"asked fact": (2, 0), "copying": (2, 0), "previous token": (2, 0)})
    assert str(row.ours["Gemma, slow planes sped up: they move it more than the first heads of others"]) == "3 of 3"
    assert str(row.ours["Gemma, fast planes stopped: they move it more than the first heads of others"]) == "12 of 12"
    assert "asks nothing" in row.note


def test_of_heads_that_tie_the_mean_counts_and_by_the_first_rule_one(tmp_path):
    """Two heads have the highest score, of which one moves the answer by 0.56 and the other not."""
    predictors = FIRST | {"asked fact": (2, 0)}
    row = invent(tmp_path, RIGHT, predictors, tied=("symbolic", (2, 3)))
    assert row.ours["first head (score, sped up, Gemma)"] == "2 heads that tie"
    assert row.ours["moved by the first head (score, sped up, Gemma)"]["value"] == pytest.approx(0.28, abs=1e-2)
    # It is one of two in the score's order and the only one in that of attention, which is then the better.
    assert str(row.ours["Gemma, slow planes sped up: they move it more than the first heads of others"]) == "9 of 10"
    assert (row.verdict, row.parts["SmolLM2, fast planes stopped: the first heads of scores move the answer"]) == (
        "partly",
        "3 of 3 heads",
    )
    assert len({row.ours[f"moved by the first head{rule} (score, sped up, Gemma)"]["value"] for rule in RULES}) == 2


RULES = ("", ", first rule")


@pytest.mark.parametrize(("moving", "verdict"), [(2, "not testable"), (3, "reproduced in kind")])
def test_one_head_must_move_more_than_a_tenth(tmp_path, moving, verdict):
    """Of 24 questions, 3 are more; interval and margin are those of probabilities, which are moved everywhere."""
    chances = logs_of((0.45, 0.4, 0.05, 0.02))
    chances.reshape(-1, 4)[:moving] = np.log((0.4, 0.45, 0.05, 0.02))
    row = invent(tmp_path, dict.fromkeys(RIGHT, chances))
    assert row.verdict == verdict


def test_answers_that_were_a_neighbours_anyway_are_not_moved(tmp_path):
    row = invent(tmp_path, {}, unedited=(0.3, 0.4, 0.1, 0.04))
    assert row.ours["questions that one head moves to a neighbour (sped up, Gemma)"] == 0
    assert row.verdict == "not testable"


def test_a_model_that_does_not_answer_tells_nothing(tmp_path):
    row = invent(tmp_path, RIGHT, unedited=(0.1, 0.05, 0.05, 0.16))
    assert row.verdict == "not testable"
    assert row.parts["Gemma answers"] == "no"


def test_numbers_that_are_undefined_and_single_lists_move_nothing(tmp_path):
    row = invent(tmp_path, {key: np.full((LISTS, 4, 4), np.nan) for key in RIGHT} | {(e, (0, 3)): MOVED for e in EDITS})
    assert row.verdict == "not reproduced"
    alone = over_lists(np.array([0.9]))
    assert alone.value == 0.9
    assert np.isnan([alone.low, alone.high]).all()
    assert invent(tmp_path, RIGHT, lists=1).verdict == "not reproduced"


def test_chance_is_the_mean_of_all_heads(tmp_path):
    invent(tmp_path, RIGHT | {("sped up", (1, 0)): MOVED})
    model = FAMILIES["Gemma"]
    result, rankings = (
        load_result(setting(model=model).name, folder=tmp_path) for setting in (HeadEditing, HeadRankings)
    )
    found = summarize_edit(result, rankings, "sped up")
    assert isinstance(found, EditSummary)
    by_head = measure_moved(result)[0].mean(-1)
    assert found.moves[CHANCE].value == pytest.approx(sum(by_head.ravel()) / 12)
    assert found.compared["score", CHANCE].value == pytest.approx(by_head[2, 0] - by_head.mean())

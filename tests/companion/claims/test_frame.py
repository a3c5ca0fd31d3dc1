"""The grade is a count: cases of every grade, tests with whole intervals, and what a claim may look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from invented import save_invented

from posym_companion.claims import (
    CLAIMS,
    GRADES,
    OWN,
    U25,
    Asked,
    Claim,
    Look,
    above,
    below,
    claim,
    grade,
    part,
    untold,
)
from posym_companion.claims.rows import ask, judge, make_row, read_rows, write_rows
from posym_core.metrics import Estimate


def cases(name: str, held: str, asks: str = "direction") -> list[Asked]:
    """Return a part with its cases: ``+`` holds, ``-`` does not, ``?`` cannot be told."""
    asked, outcomes = Asked(name=name, asks=asks), {"+": True, "-": False, "?": untold("why")}
    for number, one in enumerate(held):
        asked.add(str(number), outcomes[one])
    return [asked]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (cases("d", "+++"), "holds"),
        (cases("d", "+++") + cases("s", "+", "size") + cases("c", "+", "control"), "holds"),
        (cases("d", "++-"), "weaker"),  # its scope is smaller
        (cases("d", "++?"), "holds"),  # what cannot be told is no case
        (cases("d", "+++") + cases("s", "-", "size"), "weaker"),
        (cases("d", "+++") + cases("s", "?", "size"), "weaker"),  # a part that cannot be told is not met
        (cases("d", "+++") + cases("e", "---"), "weaker"),
        (cases("d", "+++") + cases("c", "+-", "control"), "not attributable"),  # half is no majority
        (cases("d", "+++") + cases("c", "++-", "control"), "weaker"),
        (cases("d", "+++") + cases("e", "-") + cases("c", "-", "control"), "weaker"),
        (cases("d", "+-") + cases("s", "+", "size"), "absent or opposite"),
        (cases("d", "---") + cases("c", "+", "control"), "absent or opposite"),
        (cases("d", "???"), "undecided"),
        (cases("c", "+", "control"), "undecided"),
        ([], "undecided"),
    ],
)
def test_a_grade_is_a_count_of_parts(asked, expected):
    assert grade(asked) == expected
    assert expected in GRADES


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (cases("d", "++-"), "depends on the model"),
        (cases("d", "+++") + cases("c", "++-", "control"), "weaker"),
        (cases("d", "++?"), "holds"),
        (cases("d", "---"), "absent or opposite"),
    ],
)
def test_a_claim_whose_cases_must_agree_depends_on_the_model_where_they_do_not(asked, expected):
    assert grade(asked, all_agree=True) == expected


def test_one_counter_example_refutes_a_theorem():
    assert grade(cases("d", "+++") + cases("c", "+", "control"), theorem=True) == "proved"
    assert grade(cases("d", "++++++-"), theorem=True) == "refuted as worded"


def test_a_test_asks_the_whole_interval():
    wide = Estimate(value=0.5, low=0.1, high=0.9)
    assert [above(wide, 0).held, above(wide, 0.1).held, below(wide, 0.9).held, below(wide, 1).held] == [
        True,
        False,
        False,
        True,
    ]
    assert above(wide, 0.2).text == "0.5 [0.1, 0.9], > 0.2 asked"
    assert (above(3, 2).held, above(2, 2).held, below(np.float32(1), 2).number) == (True, False, (1.0,))
    undefined = Estimate(value=np.nan, low=np.nan, high=np.nan)
    assert not above(undefined, 0).held
    assert not below(undefined, 0).held


def make_claim(function: Callable, **options) -> Claim:
    words = {"short": "Heads are heads", "paper": U25, "at": "nowhere", "quote": "heads", "chapter": "a/b"}
    return Claim(id="X-1", ask=function, fixed="before the run", **words | options)


def test_a_claim_remembers_what_it_read_and_says_its_number(tmp_path: Path):
    save_invented("made/up", {"x": np.array(0.25)}, tmp_path)

    def heads(look: Look):
        """Are heads heads?"""
        share = float(look.load("made/up")["x"])
        look.headline("share", f"-{share:.2f} of 0.5", paper="-0.91", control="layers 1-13 at random 0.25")
        yield part("heads"), above(share, 0.2)
        yield part("large heads", "first", asks="size"), share > 0.5
        yield part("large heads", "second", asks="size"), untold("too few")

    row = judge(make_claim(heads), tmp_path)
    assert (row.grade, row.asks) == ("weaker", "Are heads heads?")
    assert row.headline == "share −.25 of .5 (paper −.91; layers 1-13 at random .25)"
    (answer,) = row.answers.values()
    assert list(answer.evidence) == ["made/up"]
    assert len(answer.evidence["made/up"]) == 12
    assert [(one.held, one.told, one.missed, one.untold, one.numbers) for one in answer.parts] == [
        (1, 1, {}, {}, {"": 0.25}),
        (0, 1, {"first": ""}, {"second": "too few"}, {}),
    ]
    write_rows([row], tmp_path / "lock.json")
    assert (tmp_path / "lock.json").read_text(encoding="utf-8").count('"large heads"') == 1


def test_what_is_missing_or_not_met_leaves_a_claim_undecided(tmp_path: Path):
    def reads(look: Look):
        look.load("no/result")
        yield part("nothing"), True

    def requires(look: Look):
        look.require("heads are there", above(1, 2))
        yield part("nothing"), True

    missing, unmet = (ask(make_claim(one), Look(tmp_path)) for one in (reads, requires))
    assert (missing.grade, unmet.grade) == ("undecided", "undecided")
    assert "result 'no/result' is not there" in missing.why
    assert unmet.why == "not met: heads are there (1, > 2 asked)"


@pytest.mark.parametrize(
    ("says", "all_models", "expected"),
    [
        ("yn", True, "depends on the model"),
        ("yn", False, "holds"),
        ("yyu", True, "holds"),
        ("uy", True, "undecided"),
        ("nu", True, "absent or opposite"),
    ],
)
def test_other_models_change_the_grade_only_where_all_must_agree(says, all_models, expected):
    def heads(look: Look):
        look.headline("heads", look.model)
        yield part("heads"), {"y": True, "n": False, "u": untold("why")}[look.model[0]]

    row = judge(make_claim(heads, models=tuple(f"{one}{at}" for at, one in enumerate(says)), all_models=all_models))
    assert row.grade == expected
    beside = "; absent or opposite in n1" if expected == "depends on the model" else ""
    assert row.headline == f"{says[0]}0: heads {says[0]}0{beside}"


def test_models_that_a_folder_has_are_asked_first(tmp_path: Path):
    def heads(look: Look):
        yield part("heads"), look.model == "one"

    own = make_claim(heads, models=("other",), others=lambda folder: ["one"])
    assert (judge(own, tmp_path).grade, list(judge(own, tmp_path).answers)) == ("holds", ["one", "other"])
    assert list(judge(own).answers) == ["other"]


@pytest.mark.parametrize("ask", [lambda: np.ones(4) + np.ones(32), lambda: torch.ones(4) + torch.ones(32), [].pop])
def test_results_of_another_size_leave_a_claim_undecided(ask, tmp_path: Path):
    def heads(look: Look):
        yield part("heads"), ask()

    row = judge(make_claim(heads), tmp_path)
    assert (row.grade, row.headline[:31]) == ("undecided", "cannot be asked of these result")
    with pytest.raises((LookupError, ValueError, RuntimeError)):
        judge(make_claim(heads))


def test_an_id_is_claimed_in_one_file(monkeypatch: pytest.MonkeyPatch):
    def heads(look: Look):
        yield part("heads"), True

    monkeypatch.setitem(CLAIMS, "X-1", make_claim(grade))
    with pytest.raises(ValueError, match=f"X-1 is claimed twice, in {grade.__module__} and in {heads.__module__}"):
        claim("X-1", "Heads are heads")(heads)


def test_rows_are_read_as_they_were_written():
    rows = read_rows()
    ids = [row.id for row in rows]
    assert ids[:2] == ["U25-1", "U25-2"]
    assert ids.index("U26-9") < ids.index("U26-10a")
    assert [row.paper == OWN for row in rows] == sorted(row.paper == OWN for row in rows)
    (row,) = read_rows("U25-3")
    assert make_row(asdict(row)) == row
    with pytest.raises(KeyError, match="no claim is called U25-4a; claims are U25-1, "):
        read_rows("U25-3", "U25-4a")

"""Lines and rules on made-up numbers just over and just under, and what every claim says of its rule."""

from __future__ import annotations

import dataclasses
import math
import re
import typing

import pytest

from posym_companion import verdicts
from posym_companion.old_claims import load_claim, read_entries
from posym_companion.ledger import VERDICTS, Cases, Line, Rule
from posym_companion.verdicts import Fixed, Numbers, seed_range
from posym_core.metrics._stats import Estimate


def test_the_whole_interval_must_lie_beyond_the_line():
    line = Line(part="", of="x", above=0.5)
    assert line.kept({"x": Estimate(value=0.7, low=0.51, high=0.9)}) == 1
    assert line.kept({"x": Estimate(value=0.7, low=0.5, high=0.9)}) == 0
    assert line.kept({"x": "never in 1 of 2 seeds"}) == 0
    assert line.kept({"x": float("nan")}) == 0
    assert Line(part="", of="x", below=0.5).kept({"x": 0.4}) == 1


def test_of_seeds_those_beyond_the_line_are_counted():
    """A mean and ends over seeds: four of five beyond the line are four of five, as where cases are counted."""
    line = Line(part="a", of="x", unit="seeds", above=0.5)
    some = {"x": seed_range([0.6, 0.7, 0.5, 0.8, 0.9])}
    assert some["x"].value == pytest.approx(0.7)
    assert (some["x"].low, some["x"].high) == (0.5, 0.9)
    assert line.kept(some) == 0.8
    rule = Rule(says="", lines=(line,))
    assert (rule.verdict(some), rule.parts(some)) == ("partly", {"a": "4 of 5 seeds"})
    said = "In some cases: a (4 of 5 seeds). The deciding number is 0.7 [0.5, 0.9] (x); more than 0.5 was asked."
    assert rule.describe(some) == said
    one = {"x": seed_range([0.6])}
    assert (rule.verdict(one), rule.parts(one)) == ("reproduced", {"a": "1 of 1 seeds"})
    undefined = {"x": seed_range([0.6, float("nan")])}
    assert math.isnan(undefined["x"].low)
    assert (rule.verdict(undefined), rule.parts(undefined)) == ("partly", {"a": "1 of 2 seeds"})


def test_cases_are_those_that_have_every_quantity_and_a_name_that_no_case_has_is_an_error():
    line = Line(part="both", of="both", each=(Line(part="", of="x", above=0), Line(part="", of="y", below=1)))
    numbers = Numbers()
    numbers.add("x", "one", 1.0)
    numbers.add("x", "two", 1.0)
    with pytest.raises(ValueError, match=r"'both' asks cases of y; quantities of cases are x"):
        line.read(numbers)
    numbers.add("y", "two", 2.0)
    assert line.read(numbers) == Cases(0, 1)
    assert line.describe_missed(numbers) == ["two: y 2"]
    with pytest.raises(ValueError, match=r"yields each quantity of a case once; x \(two\) came twice"):
        numbers.add("x", "two", 3.0)


def test_what_was_found_is_said_with_the_number_that_decides():
    able = Line(part="able", of="z", below=0.5)
    rule = Rule(says="", lines=(Line(part="b", of="y", unit="seeds"), Line(part="a", of="x", above=1)), able=(able,))
    numbers = {"x": Estimate(value=1.25, low=0.75, high=2), "y": Cases(3, 3), "z": 0.25}
    missed = "The deciding number is 1.25 [0.75, 2] (x); more than 1 was asked."
    assert rule.describe(numbers) == f"Found: able; b (3 of 3 seeds). Not found: a. {missed}"
    # A count decides by itself.
    assert rule.describe({**numbers, "x": 2.0}) == "Found: able; b (3 of 3 seeds); a."
    some = "Found: able; a. In some cases: b (1 of 3 seeds)."
    assert rule.describe({**numbers, "x": 2.0, "y": Cases(1, 3)}) == some
    unable = "Not found: able. The deciding number is 0.75 (z); less than 0.5 was asked."
    assert rule.describe({**numbers, "z": 0.75}) == unable


SEEDS = Line(part="b", of="y", unit="seeds")
GUARD = Line(part="there is something to lose", of="z", above=0.5)
GUARDED = Line(part="a", of="x", above=1, testable=GUARD)


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        ({"x": 2.0, "y": Cases(3, 3), "z": 0.6}, "reproduced"),
        # At the line, below it, or undefined, the guard is not met: nothing that is asked is whole without its parts.
        ({"x": 2.0, "y": Cases(3, 3), "z": 0.5}, "partly"),
        ({"x": 2.0, "y": Cases(1, 3), "z": 0.5}, "partly"),
        ({"x": 2.0, "y": Cases(0, 3), "z": float("nan")}, "not reproduced"),
        ({"x": 2.0, "y": Cases(0, 0), "z": "never"}, "not testable"),
        ({"x": 2.0, "y": Cases(0, 0), "z": 0.6}, "partly"),
        ({"x": 1.0, "y": Cases(0, 0), "z": 0.6}, "not reproduced"),
        ({"x": float("nan"), "y": Cases(1, 1), "z": 0.6}, "partly"),
    ],
)
def test_a_line_that_cannot_be_tested_is_neither_kept_nor_missed(numbers, verdict):
    assert Rule(says="", lines=(GUARDED, SEEDS)).verdict(numbers) == verdict


CONTROL = Line(part="c", of="c", unit="draws", control=True)


@pytest.mark.parametrize(
    ("a", "b", "control", "verdict", "grade", "decides"),
    [
        (2.0, 3, 2, "reproduced", "reproduced", None),
        (2.0, 1, 2, "partly", "partly, 1 of 2", "b (1 of 3 seeds)"),
        (0.0, 1, 0, "partly", "partly, 0 of 2, 1 control missed", "a"),
        # A control that is missed keeps a claim from holding whole, and one that is kept does not save it.
        (2.0, 3, 1, "partly", "partly, 2 of 2, 1 control missed", "c, a control (1 of 2 draws)"),
        (0.0, 0, 2, "not reproduced", "not reproduced", "a"),
    ],
)
def test_the_grade_says_how_much_and_controls_are_told_apart(a, b, control, verdict, grade, decides):
    rule = Rule(says="", lines=(CONTROL, dataclasses.replace(GUARDED, testable=None), SEEDS))
    numbers = {"x": a, "y": Cases(b, 3), "c": Cases(control, 2)}
    answers = rule.answers(numbers)
    assert rule.verdict(numbers) == verdict
    assert verdicts.grade(verdict, answers) == grade
    assert (verdicts.find_deciding_line(answers) and str(verdicts.find_deciding_line(answers))) == decides
    held = "Found" if control == 2 else "In some cases" if control else "Not found"
    assert f"{held}: c, a control ({control} of 2 draws)" in rule.describe(numbers)
    assert rule.parts(numbers)["c"] == f"{control} of 2 draws"


def test_cases_that_stand_together_hold_all_or_none():
    both = dataclasses.replace(SEEDS, together=True)
    for held, kept, said in ((3, 1, "Found"), (2, 0, "Not found"), (0, 0, "Not found")):
        assert both.kept({"y": Cases(held, 3)}) == kept
        assert Rule(says="", lines=(both,)).describe({"y": Cases(held, 3)}) == f"{said}: b ({held} of 3 seeds)."
    assert Rule(says="", lines=(both,)).verdict({"y": Cases(2, 3)}) == "not reproduced"


def unsaid(name: str):
    """What a claim does not say of how it is judged, or says in another form than the ledger shows."""
    judged = load_claim(name)
    lines = (*judged.rule.able, *judged.rule.lines)
    asked = {
        "is not short": len(judged.short.split()) <= 10,
        "has an empty text": all((judged.claim, judged.paper, judged.rule.says, judged.changes)),
        "does not say when its rule was fixed": judged.rule_fixed in typing.get_args(Fixed),
        "has a history though no rule came later": not judged.history or judged.rule_fixed == "after a first look",
        "tells its history in more than a sentence": judged.history.count(". ") == 0,
        "has an unknown verdict": {judged.rule.whole, *judged.sentences} <= set(VERDICTS),
        "has controls alone": not all(line.control for line in judged.rule.lines),
        "counts a null model as the claim": all(
            line.control
            for line in judged.rule.lines
            if re.search(r"random weights|null model|before training", line.part)
        ),
        "has a line with two edges": not any(x.above is not None and x.below is not None for x in lines),
    }
    return [f"{name} {fault}" for fault, kept in asked.items() if not kept]


def test_every_claim_says_how_it_is_judged():
    wrong = [fault for name in read_entries() for fault in unsaid(name)]
    assert not wrong, "\n".join(wrong)


def test_what_one_counterexample_refutes_is_a_theorem_or_construction():
    theorems = {name for name in read_entries() if load_claim(name).kind == "theorem or construction"}
    assert theorems == {"U25-1", *(f"U25-T{n}" for n in range(2, 8)), "U26-4a", "U26-4b", "G26-1a"}

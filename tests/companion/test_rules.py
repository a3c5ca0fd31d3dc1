"""Every rule on made-up numbers just over and just under each of its lines, and the fields of every row."""

from __future__ import annotations

import dataclasses
import math
import re
import typing
from typing import Any

import pytest

from posym_companion import verdicts
from posym_companion.claims import load_claim, read_entries
from posym_companion.ledger import VERDICTS, Cases, Line, Rule
from posym_companion.ledger.rows import make_row
from posym_companion.verdicts import Fixed, Numbers, seed_range
from posym_core.metrics._stats import Estimate

RULES = {
    f"{name}{kind}": rule
    for name in read_entries()
    for kind, rule in (("", load_claim(name).rule), (", first", load_claim(name).first_rule))
    if rule is not None
}
# Lines lie at quantities up to 850 tokens: so close is just over or under.
BIT = 1e-6


def number(line: Line, kept: bool, *, some: bool = False):
    """What a line looks at, just kept or just missed; of cases some hold or none."""
    if line.counts:
        return Cases(3 if kept else 2 if some else 0, 3)
    edge = line.above if line.above is not None else line.below
    assert edge is not None
    over = (edge + BIT) if (line.above is not None) == kept else (edge - BIT)
    away = over + (1.0 if line.above is not None else -1.0)
    return Estimate(value=(over + away) / 2, low=min(over, away), high=max(over, away))


def made_up(rule: Rule, kept) -> dict:
    """Numbers of which those of the given lines are kept; every line can be tested."""
    lines = (*rule.able, *rule.lines)
    guards = [line.testable for line in lines if line.testable and line.testable not in lines]
    return {line.of: number(line, line in guards or line in kept) for line in (*guards, *lines)}


def outcomes(rule: Rule):
    """Numbers that keep some lines of a rule, what they are, and the verdict that the rule gives them."""
    every = (*rule.able, *rule.lines)
    refuting = any(line.refutes for line in rule.lines)
    yield "all lines kept", made_up(rule, every), rule.whole
    for line in rule.able:
        yield f"unable: {line.part}", made_up(rule, [x for x in every if x != line]), "not testable"
    yield "none kept", made_up(rule, rule.able), "refuted as stated" if refuting else rule.missed
    controls = [line for line in rule.lines if line.control]
    yield (
        "controls kept alone",
        made_up(rule, [*rule.able, *controls]),
        "refuted as stated" if refuting else rule.missed,
    )
    for line in rule.lines:
        last = not [x for x in rule.lines if x != line and not x.control]
        alone = rule.missed if rule.strict or (last and not line.control) else "partly"
        missed = made_up(rule, [x for x in every if x != line])
        yield f"missed: {line.part}", missed, "refuted as stated" if line.refutes else alone
        if line.counts:
            some = alone if line.together else "refuted as stated" if line.refutes else "partly"
            some = rule.missed if rule.strict else some
            yield f"in some cases: {line.part}", {**missed, line.of: number(line, False, some=True)}, some


def test_every_verdict_that_a_rule_allows_is_seen():
    wrong = [f"{name}, {what}: {rule.verdict(numbers)} for {expected}" for name, rule in RULES.items()
             for what, numbers, expected in outcomes(rule) if rule.verdict(numbers) != expected]  # fmt: skip
    assert not wrong, "\n".join(wrong)


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
    assert Rule(says="", lines=(line,), strict=True).verdict(some) == "not reproduced"


BY_CASE = [(f"{name}, {line.part}", line) for name, rule in RULES.items() for line in rule.lines if line.each]


def find_edge(line: Line) -> float | None:
    return line.above if line.above is not None else line.below


def just_beyond(line: Line, edge: float = BIT, mean: float = BIT) -> float | Estimate:
    """A number so far beyond a line's threshold, and with its mean so far beyond that of the mean, if it has one."""
    sign, asked = 1 if line.above is not None else -1, find_edge(line)
    assert asked is not None
    if line.mean is None:
        return asked + sign * edge
    ends = sorted((asked + sign * edge, line.mean + sign))
    return Estimate(value=line.mean + sign * mean, low=ends[0], high=ends[1])


def cases_of(line: Line, values) -> Numbers:
    """One case, ``a``, with the words that the line asks for, in which every quantity is as it is asked, but some."""
    numbers = Numbers()
    for one in (*line.among, *line.each):
        as_asked = True if find_edge(one) is None else just_beyond(one)
        numbers.add(one.of, ", ".join(filter(None, ["a", line.where])), values.get(one.of, as_asked))
    return numbers


@pytest.mark.parametrize(("name", "line"), BY_CASE, ids=[name for name, _ in BY_CASE])
def test_each_threshold_of_a_case_has_two_sides(name, line):
    """Just over it a case holds; at it, just under it, without a number and with an interval across it none does."""
    assert line.read(cases_of(line, {})) == Cases(1, 1)
    assert not line.describe_missed(cases_of(line, {}))
    for one in line.each:
        edge = find_edge(one)
        short: list[Any] = (
            [False] if edge is None else [just_beyond(one, x) for x in (0, -BIT)] + [math.nan, "undefined"]
        )
        if edge is not None:
            sign = 1 if one.above is not None else -1
            short.append(Estimate(value=edge + sign, low=edge - BIT, high=edge + BIT))
        if one.mean is not None:
            short += [just_beyond(one, mean=x) for x in (0, -BIT)]
        for value in short:
            assert line.read(cases_of(line, {one.of: value})) == Cases(0, 1), (one.of, value)
            (missed,) = line.describe_missed(cases_of(line, {one.of: value}))
            assert one.of in missed
    for one in line.among:
        edge = find_edge(one)
        assert line.read(cases_of(line, {one.of: edge if edge is not None else False})) == Cases(0, 0)
    if line.where:
        elsewhere = Numbers()
        for one in (*line.among, *line.each):
            elsewhere.add(one.of, "elsewhere", 1.0)
        assert line.read(elsewhere) == Cases(0, 0)
        assert not line.can_tell(elsewhere)


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


def test_of_many_cases_that_do_not_hold_the_first_are_named_and_the_rest_counted():
    line = Line(part="all", of="all", each=(Line(part="", of="x", above=0),))
    numbers = Numbers()
    for place in range(verdicts.LISTED + 2):
        numbers.add("x", f"{place}", -1.0)
        missed = Rule(says="", lines=(line,)).missed_by(numbers)
        assert missed[-1] == (f"{place}: x -1" if place < verdicts.LISTED else f"and {len(numbers) - 8} more (all)")
        assert len(missed) == min(place, verdicts.LISTED) + 1


def test_a_quantity_that_no_case_has_is_asked_of_none():
    line = Line(part="all", of="all", each=(Line(part="", of="x", above=0),))
    numbers = Numbers()
    numbers.add("x", "one", None)
    assert (line.read(numbers), line.can_tell(numbers), dict(numbers)) == (Cases(0, 0), False, {})
    numbers.add("x", "two", 1.0)
    assert (line.read(numbers), dict(numbers)) == (Cases(1, 1), {"x (two)": 1.0})


def test_parts_say_what_holds():
    rule = Rule(says="", lines=(Line(part="a", of="x", above=1), Line(part="b", of="y", unit="seeds")))
    assert rule.parts({"x": 2.0, "y": Cases(1, 3)}) == {"a": "yes", "b": "1 of 3 seeds"}
    assert rule.parts({"x": 0.0, "y": Cases(3, 3)}) == {"a": "no", "b": "3 of 3 seeds"}
    # A model that cannot tell has neither.
    rule = dataclasses.replace(rule, able=(Line(part="able", of="z", below=0.5),))
    unable = {"x": 2.0, "y": Cases(1, 3), "z": 0.5}
    assert rule.parts(unable) == {"able": "no", "a": "not testable", "b": "not testable"}


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


def unnamed(rule: Rule):
    """Lines that are missed, alone, and are not what the rule says that it misses."""
    every = (*rule.able, *rule.lines)
    if rule.misses(made_up(rule, every)):
        yield "named without a miss"
    for line in every:
        numbers = made_up(rule, [x for x in every if x != line])
        shares = [x for x in every if x.of == line.of]  # lines may look at one number
        if line not in rule.misses(numbers) or any(x not in shares for x in rule.misses(numbers)):
            yield line.part
        said = [case for case in rule.missed_by(numbers) if case.startswith(f"{line.of}: ")]
        if bool(said) == line.counts:
            yield f"{line.part}, in words"


def test_a_missed_line_is_named_and_no_other():
    wrong = [f"{name}: {part}" for name, rule in RULES.items() for part in unnamed(rule)]
    assert not wrong, "\n".join(wrong)


def test_a_missed_line_is_said_with_its_number_and_what_was_asked():
    rule = Rule(says="", lines=(Line(part="a", of="x", above=1), Line(part="c", of="n", above=0.5), SEEDS))
    numbers = {"x": Estimate(value=1.25, low=0.75, high=2), "n": 0, "y": Cases(1, 3)}
    assert rule.missed_by(numbers) == ["x: 1.25 [0.75, 2], more than 1 was asked"]
    assert rule.missed_by({**numbers, "x": 1.5}) == []
    assert rule.missed_by({**numbers, "x": "never in 1 of 2 seeds"}) == [
        "x: never in 1 of 2 seeds, more than 1 was asked"
    ]


SEEDS = Line(part="b", of="y", unit="seeds")
GUARD = Line(part="there is something to lose", of="z", above=0.5)
GUARDED = Line(part="a", of="x", above=1, testable=GUARD)


@pytest.mark.parametrize(
    ("numbers", "verdict", "strict"),
    [
        ({"x": 2.0, "y": Cases(3, 3), "z": 0.6}, "reproduced", "reproduced"),
        # At the line, below it, or undefined, the guard is not met: nothing that is asked is whole without its parts.
        ({"x": 2.0, "y": Cases(3, 3), "z": 0.5}, "partly", "not testable"),
        ({"x": 2.0, "y": Cases(1, 3), "z": 0.5}, "partly", "not reproduced"),
        ({"x": 2.0, "y": Cases(0, 3), "z": float("nan")}, "not reproduced", "not reproduced"),
        ({"x": 2.0, "y": Cases(0, 0), "z": "never"}, "not testable", "not testable"),
        ({"x": 2.0, "y": Cases(0, 0), "z": 0.6}, "partly", "not testable"),
        ({"x": 1.0, "y": Cases(0, 0), "z": 0.6}, "not reproduced", "not reproduced"),
        ({"x": float("nan"), "y": Cases(1, 1), "z": 0.6}, "partly", "not reproduced"),
    ],
)
def test_a_line_that_cannot_be_tested_is_neither_kept_nor_missed(numbers, verdict, strict):
    assert Rule(says="", lines=(GUARDED, SEEDS)).verdict(numbers) == verdict
    assert Rule(says="", lines=(GUARDED, SEEDS), strict=True).verdict(numbers) == strict


def test_what_cannot_be_tested_is_said_with_the_reason():
    rule = Rule(says="", lines=(SEEDS, GUARDED))
    numbers = {"x": 2.0, "y": Cases(3, 3), "z": 0.25}
    assert rule.parts(numbers) == {"b": "3 of 3 seeds", "a": "not testable"}
    why = "Not testable: a (asked only where there is something to lose)."
    assert rule.describe(numbers) == f"Found: b (3 of 3 seeds). {why}"
    assert [*rule.read(numbers)] == ["y", "x", "z"]
    nothing = {**numbers, "y": Cases(0, 0)}
    assert rule.parts(nothing) == {"b": "not testable", "a": "not testable"}
    deciding = "The deciding number is 0.25 (z); more than 0.5 was asked."
    said = "Not testable: b (0 of 0 seeds); a (asked only where there is something to lose). "
    assert rule.describe(nothing) == said + deciding
    assert Rule(says="", lines=(SEEDS,)).describe(nothing) == "Not testable: b (0 of 0 seeds)."


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


def test_lines_that_cannot_be_told_are_lines_still():
    rule = Rule(says="", lines=(SEEDS, GUARDED, CONTROL))
    numbers = {"x": 2.0, "y": Cases(3, 3), "z": 0.25, "c": Cases(0, 0)}
    assert verdicts.grade(rule.verdict(numbers), rule.answers(numbers)) == "partly, 1 of 2"
    assert verdicts.find_deciding_line(rule.answers(numbers)).part == "a"
    unable = dataclasses.replace(rule, able=(Line(part="able", of="z", above=0.5),))
    assert [one.held for one in unable.answers(numbers)] == [None, None, None]
    # Without a line of the claim controls decide nothing.
    assert rule.verdict({"x": 2.0, "y": Cases(0, 0), "z": 0.25, "c": Cases(2, 2)}) == "not testable"


def test_cases_that_stand_together_hold_all_or_none():
    both = dataclasses.replace(SEEDS, together=True)
    for held, kept, said in ((3, 1, "Found"), (2, 0, "Not found"), (0, 0, "Not found")):
        assert both.kept({"y": Cases(held, 3)}) == kept
        assert Rule(says="", lines=(both,)).describe({"y": Cases(held, 3)}) == f"{said}: b ({held} of 3 seeds)."
    assert Rule(says="", lines=(both,)).verdict({"y": Cases(2, 3)}) == "not reproduced"


def test_no_case_is_no_miss():
    assert math.isnan(SEEDS.kept({"y": Cases(0, 0)}))
    assert not SEEDS.can_tell({"y": verdicts.count_cases([])})
    assert SEEDS.kept({"y": Cases(0, 1)}) == 0
    assert SEEDS.kept({"y": Cases(1, 1)}) == 1
    # A theorem without a case is not refuted, and a model of which nothing is known is not able.
    refuted = dataclasses.replace(SEEDS, refutes=True)
    assert Rule(says="", lines=(refuted,)).verdict({"y": Cases(0, 0)}) == "not testable"
    assert Rule(says="", lines=(refuted,)).verdict({"y": Cases(0, 1)}) == "refuted as stated"
    able = Rule(says="", lines=(refuted,), able=(dataclasses.replace(SEEDS, of="x"),))
    assert able.verdict({"y": Cases(1, 1), "x": Cases(0, 0)}) == "not testable"


def unsaid(name: str):
    """What a claim does not say of how it is judged, or says in another form than the ledger shows."""
    judged = load_claim(name)
    used = [judged.rule, *([judged.first_rule] if judged.first_rule else [])]
    lines = [line for rule in used for line in (*rule.able, *rule.lines)]
    guards = [line.testable for line in lines if line.testable]
    asked = {
        "has another id": judged.id == name,
        "is not short": len(judged.short.split()) <= 10,
        "has an empty text": all((judged.claim, judged.paper, judged.rule.says, judged.changes)),
        "does not say when its rules were fixed": (
            {judged.rule_fixed, judged.first_rule_fixed} <= set(typing.get_args(Fixed))
        ),
        # What is a later rule than the first shows what the first gives.
        "has a first rule though none came later": not judged.first_rule or judged.rule_fixed == "after a first look",
        "does not say why its rule changed": bool(judged.first_rule) == bool(judged.changed_because),
        "has an unknown verdict": {verdict for rule in used for verdict in (rule.whole, rule.missed)} <= set(VERDICTS),
        "has controls alone": all(not x.lines[0].control or len({y.control for y in x.lines}) == 2 for x in used),
        "counts a null model as the claim": all(
            line.control
            for line in judged.rule.lines
            if re.search(r"random weights|null model|before training", line.part)
        ),
        "has a line with two edges": not any(x.above is not None and x.below is not None for x in (*lines, *guards)),
    }  # fmt: skip
    return [f"{name} {fault}" for fault, kept in asked.items() if not kept]


def test_every_claim_says_how_it_is_judged():
    wrong = [fault for name in read_entries() for fault in unsaid(name)]
    assert not wrong, "\n".join(wrong)


def test_when_a_rule_was_fixed_is_said():
    of = make_row(load_claim("U25-T2"))
    assert "The rule" not in of.summary
    together = "entered the history together with its first results"
    said = dataclasses.replace(of, rule_fixed="not auditable").summary
    assert f"The rule {together}, so that it cannot be checked which was first." in said
    changed = {"first_rule": "x", "first_rule_verdict": "partly", "changed_because": "y"}
    later = dataclasses.replace(of, rule_fixed="after a first look", **changed)
    for when in ("before the run", "after a first look"):
        told = dataclasses.replace(later, first_rule_fixed=when).summary
        assert f"Under the first rule, written {when}, the verdict is *partly*" in told
        assert together not in told
    later = dataclasses.replace(later, first_rule_fixed="not auditable")
    assert f"Under the first rule, that {together}, the verdict is *partly*" in later.summary


def test_what_one_counterexample_refutes_is_a_theorem_or_construction():
    theorems = {name for name in read_entries() if load_claim(name).kind == "theorem or construction"}
    assert theorems == {"U25-1", "U25-11", *(f"U25-T{n}" for n in range(2, 8)), "U26-4a", "U26-4b", "G26-1a"}
    assert make_row(load_claim("U25-T2")).kind == "theorem or construction"


def test_no_rule_is_weaker_than_another_by_calling_a_part_the_whole():
    """Rules never say *reproduced in kind* of what was run on the paper's own kind of model."""
    own = [name for name in read_entries() if name.startswith("U26") and name not in ("U26-6", "U26-9", "U26-10")]
    assert {load_claim(name).rule.whole for name in own} <= {"reproduced", "improved on"}


def test_a_row_without_a_run_says_what_fills_it(tmp_path):
    for name in read_entries():
        judged = load_claim(name)
        if judged.command:
            found = make_row(judged, tmp_path)
            assert found.verdict == "not run here"
            assert found.note
            assert found.command == judged.command
    assert {field.name for field in dataclasses.fields(found)} >= {
        *("rule", "rule_fixed", "first_rule_verdict", "numbers", "parts", "changes", "fails_in", "command")
    }

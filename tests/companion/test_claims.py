"""The file of claims: entries fit or are refused by name, and other models are asked beside the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from posym_companion import claims
from posym_companion.verdicts import Line, Rule

ENTRY = """
[X-1]
short = "Heads are heads"
paper = "none"
judge = "one_head.judges.canonical_theory:peaks_bend"
changes = "A head that is none."
rule.says = "All heads are."
rule.whole = "reproduced"
rule.lines.heads = "heads that are > 0.5"
"""
RUN = "head_geometry:toys_trace_circles"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file of claims in place of ours."""

    def write(text: str) -> None:
        (tmp_path / "claims.toml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(claims, "FILE", tmp_path / "claims.toml")
        for function in (claims.read_entries, claims.load_claim):
            function.cache_clear()

    yield write
    monkeypatch.undo()
    for function in (claims.read_entries, claims.load_claim):
        function.cache_clear()


def test_every_claim_has_a_judge_that_is_there():
    for name in claims.read_entries():
        found = claims.load_claim(name)
        assert found.id == name
        assert callable(found.measure)


def test_a_claim_is_one_entry(written):
    written(ENTRY)
    found = claims.load_claim("X-1")
    heads = Line(part="heads", of="heads that are", above=0.5)
    assert (found.short, found.rule) == ("Heads are heads", Rule(says="All heads are.", lines=(heads,)))
    assert found.measure.__name__ == "peaks_bend"
    with pytest.raises(ValueError, match=r"^no claim is called U25-1; claims are X-1$"):
        claims.load_claim("U25-1")


def test_an_entry_leaves_out_what_follows(written):
    written(ENTRY)
    found = claims.load_claim("X-1")
    assert (found.claim, found.rule_fixed, found.first_rule_fixed) == (found.short, *["before the run"] * 2)
    assert (found.command, found.rule.whole) == ("", "reproduced")
    run = ENTRY.replace('rule.whole = "reproduced"\n', "").replace("canonical_theory:peaks_bend", RUN)
    written(run)
    assert (claims.load_claim("X-1").command, claims.load_claim("X-1").rule.whole) == (
        "posym run head_geometry",
        "reproduced in kind",
    )
    written(run.replace('heads = "heads that are > 0.5"', "heads.refutes = true"))
    assert claims.load_claim("X-1").rule.whole == "reproduced"
    later = """unit = "models"
    remedies = { "after a first look" = ["prose", "none"], "before the run" = ["lead"] }
    first_rule.says = "Some are."
    first_rule.able."it is big" = "< 1e-05"
    first_rule.lines."all are" = {}
    first_rule.lines.some = { of = "others", unit = "heads", control = true, testable = ["it can", "loss > -2"] }
    [X-2]
    column_of = "X-1"
    judge = "one_head.judges.canonical_theory:peaks_bend"
    """
    written(ENTRY + later)
    found = claims.load_claim("X-1")
    guard = Line(part="it can", of="loss", above=-2)
    some = Line(part="some", of="others", unit="heads", control=True, testable=guard)
    able = Line(part="it is big", of="it is big", below=1e-5, unit="models")
    lines = (Line(part="all are", of="all are", unit="models"), some)
    assert found.first_rule == Rule(says="Some are.", lines=lines, able=(able,), whole="reproduced in kind")
    assert found.rule_fixed == "after a first look"
    remedies = {"none": "after a first look", "lead": "before the run", "prose": "after a first look"}
    assert list(found.remedies.items()) == list(remedies.items())
    (column,) = found.columns
    assert (column.claim, column.rule, column.first_rule) == (found.short, found.rule, found.first_rule)
    assert (column.rule_fixed, column.remedies) == ("after a first look", {})


REWORDS = r"claims.toml, X-1: a first rule rewords what the rule says once, not "
LINE = r'claims.toml, X-1: \'heads\' asks a number, or one and a threshold as in "accuracy > 0.9", not '


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('changes = "A', 'chages = "A', r"claims.toml, X-1: no Claim has chages; its keys are id, short, claim, "),
        ("says", "sais", r"claims.toml, X-1: no Rule has sais; its keys are says, lines, whole, missed, able, strict"),
        (
            'heads = "heads that are > 0.5"',
            "heads.over = 1",
            r"claims.toml, X-1: no Line has over; its keys are part, ",
        ),
        ("are > 0.5", "are >0.5", LINE + "'heads that are >0.5'"),
        ("are > 0.5", "are > half", LINE + "'heads that are > half'"),
        ('"heads that are > 0.5"', "{ above = 0.5 }", LINE + "{'above': 0.5}"),
        ('"heads that are > 0.5"', "0.5", LINE + "0.5"),
        (
            'heads = "heads that are > 0.5"',
            'heads.testable = "it can"',
            r"claims.toml, X-1: testable is a part and its ",
        ),
        (
            "changes =",
            'changed_because = "."\nfirst_rule.says = "."\nfirst_rule.keeps = ["legs"]\nchanges =',
            r"X-1: a first rule keeps parts of the rule, heads; not \['legs'\]",
        ),
        ("changes =", 'first_rule.rewords = [["Some", "No"]]\nchanges =', REWORDS + "'Some'"),
        ("changes =", 'first_rule.rewords = [["a", "o"]]\nchanges =', REWORDS + "'a'"),
        ("are > 0.5", "are > 0.5, mean < 0.6", LINE + "'heads that are > 0.5, mean < 0.6'"),
        (".heads", "", r"claims.toml, X-1: a rule's lines stand by the part that each decides"),
        (
            "changes =",
            'remedies.lead = "first"\nchanges =',
            r"X-1: remedies stand in lists by when .*, and are none, lead",
        ),
        ('paper = "none"', "", r"claims.toml, X-1: .* missing 1 required keyword-only argument: 'paper'"),
        ('rule.says = "All heads are."', "", r"claims.toml, X-1: .* missing 1 required keyword-only argument: 'says'"),
        (":peaks_bend", ":peaks", r"claims.toml, X-1: judge is 'one_head.*:peaks', but module .* 'peaks'"),
        (
            "canonical_theory",
            "theory",
            r"claims.toml, X-1: judge is 'one_head.judges.theory:peaks_bend', but No ",
        ),
    ],
)
def test_an_entry_that_does_not_fit_is_refused(written, old, new, message):
    written(ENTRY.replace(old, new))
    with pytest.raises(ValueError, match=message):
        claims.load_claim("X-1")


def test_lines_that_differ_in_words_stand_once_and_a_first_rule_names_those_that_it_keeps(written):
    once = """rule.lines."{0} are" = { each = "{1} > 0, mean > 0.5", testable = ["some {0}", "{1} > 0"], over = [
  ["heads", "size"], ["planes", "angle"]] }"""
    first = (
        'first_rule.rewords = [["All", "Some"]]\nfirst_rule.keeps = ["planes are"]\nchanged_because = "."\nchanges ='
    )
    written(ENTRY.replace('rule.lines.heads = "heads that are > 0.5"', once).replace("changes =", first))
    claim = claims.load_claim("X-1")
    assert [line.part for line in claim.rule.lines] == ["heads are", "planes are"]
    heads, planes = claim.rule.lines
    assert (heads.each[0].of, heads.each[0].above, heads.each[0].mean) == ("size", 0.0, 0.5)
    assert planes.testable == Line(part="some planes", of="angle", above=0.0)
    assert claim.first_rule is not None
    assert (claim.first_rule.says, claim.first_rule.lines) == ("Some heads are.", (planes,))

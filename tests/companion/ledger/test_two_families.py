"""A claim's rule asked of a second family of language models: what the row's verdict is, and how it says so."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from posym_companion.old_claims import load_claim, read_entries
from posym_companion.ledger.rows import make_row
from posym_companion.results import MissingResultError
from posym_companion.verdicts import (
    SAID,
    VERDICTS,
    Claim,
    Line,
    Measured,
    Numbers,
    Rule,
    combine_families,
)


@pytest.mark.parametrize(
    ("first", "other", "together"),
    [
        ("reproduced in kind", "reproduced in kind", "reproduced in kind"),
        ("reproduced in kind", "partly", "in kind, one family of two"),
        ("not reproduced", "reproduced in kind", "in kind, one family of two"),
        ("partly", "not reproduced", "partly"),
        ("not reproduced", "not reproduced", "not reproduced"),
        ("partly", "not run here", "partly"),
        ("not testable", "reproduced in kind", "reproduced in kind"),
        ("not testable", "not testable", "not testable"),
        ("not run here", "not testable", "not run here"),
        ("not run here", "reproduced in kind", "not run here"),
    ],
)
def test_a_claim_holds_in_kind_in_both_families_or_says_that_it_is_one(first, other, together):
    assert combine_families(first, other) == together
    assert together in VERDICTS
    assert together in SAID


def test_a_row_shows_its_columns_and_counts_their_lines():
    names = {"small decoders": 0.9, "taught models": 0.4}
    head, column = (replace(asked({("first", None): value}), models=name, remedies={}, families=None)
                    for name, value in names.items())  # fmt: skip
    found = make_row(replace(head, columns=[replace(column, id="Xb")]))
    assert (found.verdict, found.verdict_of_column, found.grade) == ("partly", "reproduced in kind", "partly, 1 of 2")
    assert found.decides == "taught models: it is"
    assert [one.verdict for one in found.columns] == ["not reproduced"]
    said = "Asked of small decoders: *reproduced in kind*; taught models: *not reproduced*."
    assert found.summary.endswith(said)
    assert "Asked of" not in make_row(head).summary
    untold = make_row(replace(head, columns=[replace(column, measure=asked({}).measure)]))
    assert (untold.verdict, untold.grade) == ("reproduced in kind", "reproduced in kind")


def asked(values, **families):
    """A claim whose number is, by model and remedy, what ``values`` says, and missing where it says nothing."""

    def measure(folder, remedy=None, model="first"):
        if (model, remedy) not in values:
            raise MissingResultError("result is not there")
        numbers = Numbers()
        numbers.add("x", "", values[model, remedy])
        return Measured(ours=numbers, model=model, evidence=[f"{model} {remedy}"])

    rule = Rule(says="Above.", lines=(Line(part="it is", of="x", above=0.5),), whole="reproduced in kind")
    return Claim(
        id="X",
        short="",
        claim="",
        paper="",
        rule=rule,
        measure=measure,
        changes="",
        remedies={"lead": "before the run"},
        families=families,
    )


@pytest.mark.parametrize(("value", "verdict"), [(0.9, "reproduced in kind"), (0.4, "in kind, one family of two")])
def test_one_judge_is_asked_of_both_families_with_the_same_remedies(value, verdict):
    values = {("first", None): 0.9, ("first", "lead"): 0.2, ("second", None): value, ("second", "lead"): 0.8}
    found = make_row(asked(values, second="before the run"))
    assert (found.verdict, found.verdict_of_model) == (verdict, "reproduced in kind")
    assert found.families is not None
    (second,) = found.families
    assert (second.model, second.rule_fixed, second.evidence) == ("second", "before the run", ["second None"])
    assert (second.numbers, second.remedied[0].numbers) == ({"x": value}, {"x": 0.8})
    assert found.numbers == {"x": 0.9}
    alone = "reproduced in kind" if value > 0.5 else "not reproduced"
    said = "behind eight facts of the same frame: *reproduced in kind*"
    assert found.summary.endswith(f"By family first: *reproduced in kind*; second: *{alone}* ({said}).")
    assert json.loads(json.dumps(asdict(found)))["families"][0]["remedied"][0]["verdict"] == "reproduced in kind"


def test_every_judge_of_two_families_takes_the_model(tmp_path):
    for name in read_entries():
        judged = load_claim(name)
        for model in judged.families or ():
            assert judged.measure is not None
            with pytest.raises(MissingResultError, match=r"smollm2-135m|taught"):
                judged.measure(tmp_path, model=model)

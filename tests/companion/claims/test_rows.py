"""The ledger on this checkout's results, judged once: it says what was accepted, and every row is fit to be read."""

from __future__ import annotations

import re
from pathlib import Path

import accept
import pytest
from execute import read

from posym_companion.claims import CLAIMS, GRADES
from posym_companion.claims.rows import STORED, load_claims, read_rows
from posym_companion.results import find_results_folder


@pytest.fixture(scope="module")
def now():
    """What all claims give on the results of this checkout."""
    return accept.judge_rows()


def test_the_ledger_says_what_was_accepted(now, root: Path):
    assert root / accept.LOCK == STORED
    wrong = [*accept.differences(read(STORED), now)]
    assert not wrong, f"if this is meant, run `make accept` and say why in the commit: {wrong}"


def test_every_claim_has_a_row_with_an_allowed_grade_and_is_fit_to_be_read():
    rows = {row.id: row for row in read_rows()}
    assert list(rows) == list(load_claims())
    assert len(STORED.read_text(encoding="utf-8").splitlines()) <= 2800
    for name, row in rows.items():
        assert row.grade in GRADES
        assert row.short, name
        assert row.quote, name
        assert re.search(r"[A-Z].*\?", row.asks), f"the docstring of {name} asks a question"
        assert list(row.answers) == list(CLAIMS[name].models)
        assert row.headline, name
        for answer in row.answers.values():
            assert answer.grade in GRADES
            assert answer.grade == "undecided" or answer.parts, name
            assert answer.grade != "undecided" or answer.why, name


def test_evidence_is_there_with_its_checksum():
    for row in read_rows():
        for answer in row.answers.values():
            for name, digest in answer.evidence.items():
                description = read(find_results_folder() / f"{name}.json")
                assert description["provenance"]["checksum"].startswith(digest)

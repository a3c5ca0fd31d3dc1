"""The ledger on this checkout's results, judged once: every number as it was accepted, every row fit to be read."""

import re

import accept
import nbformat
import pytest
from bs4 import BeautifulSoup
from execute import read

from posym_companion import results
from posym_companion.old_claims import read_entries
from posym_companion.ledger import draw_wall, ledger, verdict_list
from posym_companion.ledger import rows as ledger_rows


@pytest.fixture(scope="module")
def measured():
    """What is measured of claims on stored results, each once."""
    return accept.stored()


@pytest.fixture(scope="module")
def stored_rows(measured):
    """All claims and their columns by the results of this checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_rows, "_measured", lambda folder, *asked, **model: measured(*asked, **model))
        return [one for row in ledger() for one in (row, *row.columns)]


def test_the_ledger_says_what_was_accepted(measured, root):
    wrong = accept.differences(read(root / accept.LOCK), accept.locked(measured), accept.value_differs)
    said = "\n".join(f"{name}: {difference}" for name, difference in wrong.items())
    assert not wrong, f"if this is meant, run `make accept` and say why in the commit:\n{said}"


def test_the_lock_holds_every_verdict_and_every_number_that_a_rule_looks_at(stored_rows, root):
    lock = read(root / accept.LOCK)
    assert {name.partition(" | ")[0] for name in lock} == set(read_entries())
    for row in stored_rows:
        cases = [(row.id, row), *((f"{row.id} | {one.remedy}", one) for one in row.remedied)]
        for family in row.families or ():
            assert lock[f"{row.id} | {row.model} | verdict"] == row.verdict_of_model
            place = f"{row.id} | {family.model}"
            cases += [(place, family), *((f"{place} | {one.remedy}", one) for one in family.remedied)]
        for place, found in cases:
            assert lock[f"{place} | verdict"] == found.verdict
            names = {*(f"part: {part}" for part in found.parts), *found.ours, *found.numbers}
            assert {f"{place} | {name}" for name in names} <= set(lock)


def test_every_verdict_can_be_read_by_itself(stored_rows):
    for row in stored_rows:
        for sentences in (row.summary, row.sentence):
            assert re.match(r"[A-Z]", sentences), row.id
            assert sentences.endswith("."), row.id
            assert not re.search(r"\. [a-z]", sentences), row.id
        assert not re.search(r"\d+ of \d+\b(?! [a-zA-Z]|\*|, \d controls? missed)", row.summary), row.id
        assert not re.search(r"[{}|:;]", row.sentence) or row.sentence == row.summary, row.id
        assert row.verdict == "not run here" or row.found in row.summary


def test_every_row_has_a_badge_and_those_without_columns_a_tile(stored_rows):
    columns = {one.id for row in stored_rows for one in row.columns}
    wall = BeautifulSoup(draw_wall([row for row in stored_rows if row.id not in columns]), "html.parser")
    tiles = {tile.get_text().split()[0]: tile for tile in wall.select("ul > li > a")}
    badges = BeautifulSoup(verdict_list(stored_rows), "html.parser").select("p > a.posym-badge")
    assert len(badges) == len(stored_rows) == len(tiles) + len(columns)
    for row, badge in zip(stored_rows, badges, strict=True):
        assert badge["href"] == f"../reference/ledger.html#claim-{row.id.lower()}"
        assert badge["title"].endswith(f" {row.sentence}")
        assert row.id in columns or tiles[row.id]["title"] == badge["title"]


def test_every_row_has_a_sentence_that_was_written_of_its_verdict(stored_rows):
    """A verdict that has changed falls back on what the rule says, until somebody has written about it."""
    run = [row for row in stored_rows if row.verdict != "not run here"]
    assert [row.id for row in run if not row.sentence or row.sentence == row.summary] == []


def test_evidence_is_there(stored_rows):
    run = [row for row in stored_rows if row.verdict != "not run here"]
    assert {row.id for row in run} >= {"U25-1", "U25-6", "U25-8a", "U26-1", "U26-4b", "G26-1b"}
    for row in run:
        assert row.numbers
        assert row.evidence
        for evidence in row.evidence:
            place = results.find_results_folder() / f"{evidence}.json"
            assert place.is_file() or (results.find_results_folder().parent / evidence).is_file()


def test_chapters_tag_a_cell_for_every_claim_that_the_ledger_leads_to(stored_rows):
    """A chapter's tags are ``shows-`` and ``live-`` with a claim's id."""
    chapters = [results.find_results_folder().parent / name for row in stored_rows for name in row.evidence]
    chapters = {path for path in chapters if path.is_file()}
    assert len(chapters) > 5
    for path in chapters:
        ids = {row.id.lower() for row in stored_rows if any(path.match(name) for name in row.evidence)}
        tags = {tag for cell in nbformat.read(path, as_version=4).cells for tag in cell.metadata.get("tags", [])}
        assert {tag.removeprefix("shows-") for tag in tags if tag.startswith("shows-")} == ids, path
        # What can be played with is shown too.
        assert {tag.removeprefix("live-") for tag in tags if tag.startswith("live-")} <= ids, path

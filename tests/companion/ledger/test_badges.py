"""Badges and the wall of verdicts, on invented rows: shades, texts, groups and addresses."""

import pytest
from bs4 import BeautifulSoup

from posym_companion.ledger import draw_wall, make_badge, verdict_list
from posym_companion.verdicts import VERDICTS, LineAnswer, Row


def row(name="C-1", verdict="partly", kind="measurement", **more):
    answers = [
        LineAnswer(part="a", held=True),
        LineAnswer(part="b", held=False),
        LineAnswer(part="c", held=False, control=True),
    ]
    fixed = {"claim": "", "paper": "", "rule": "", "rule_fixed": "before the run", "answers": answers, "model": "toy"}
    return Row(id=name, short='A "short" claim', verdict=verdict, kind=kind, sentence="1 < 2 holds.", **fixed | more)


def test_a_badge_says_the_id_and_the_grade_and_its_title_all():
    (badge,) = BeautifulSoup(make_badge(row()), "html.parser").contents
    assert badge.get_text() == "C-1 partly, 1 of 2"
    assert badge["title"] == 'A "short" claim. Partly, 1 of 2, 1 control missed. 1 < 2 holds.'
    assert badge["href"] == "../reference/ledger.html#claim-c-1"
    assert "\n" not in verdict_list([row(), row("B-2")])  # Markdown takes one line for one piece of HTML
    assert BeautifulSoup(verdict_list([row(), row("B-2")]), "html.parser").p.get_text() == (
        "C-1 partly, 1 of 2 B-2 partly, 1 of 2"
    )


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_has_a_shade_whose_meaning_the_wall_says_with_its_count(verdict):
    wall = BeautifulSoup(draw_wall([row(verdict=verdict), row("G26-1", verdict=verdict)]), "html.parser")
    (shade,) = {found for tile in wall.select("li a") for found in tile["class"] if found != "posym-badge"}
    (count,) = wall.select(".posym-legend span")
    assert (shade in count["class"], count.get_text()) == (True, "2")


def test_tiles_are_lists_by_who_claims_and_lead_to_the_ledger_from_the_front_page():
    wall = BeautifulSoup(draw_wall([row("T-1"), row("U26-2"), row("B-3"), row("U25-1")]), "html.parser")
    lists = [[tile.get_text().split()[0] for tile in group.select("li > a")] for group in wall.select("ul")]
    assert lists == [["U25-1"], ["U26-2"], ["T-1", "B-3"]]
    assert wall.select_one("li a")["href"] == "reference/ledger.html#claim-u25-1"
    with pytest.raises(ValueError, match="who claims X-1"):
        draw_wall([row("X-1")])

"""Badges and the wall of verdicts, on invented rows: shades, texts, groups and addresses."""

import pytest
from bs4 import BeautifulSoup

from posym_companion.ledger import draw_wall
from posym_companion.verdicts import VERDICTS


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

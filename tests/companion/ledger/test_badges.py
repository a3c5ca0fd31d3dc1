"""Badges, the wall and the ledger's page on made-up rows and on those that are stored: shades, words, addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from posym_companion.claims import GRADES, OWN, U25, U26
from posym_companion.claims.rows import Answer, Asked, Row, read_rows
from posym_companion.ledger import badges, make_badge, pages, show_at_a_glance, show_counts, show_rows, show_wall


def row(name: str = "U25-2", grade: str = "weaker", paper: str = U25, **more: str) -> Row:
    parts = [Asked(name="more than random weights", asks="control", held=1, told=2, missed={"b": "0.1 < 0.2"})]
    answers = {
        "gemma-3-270m": Answer(grade=grade, headline="r −.85 (paper −.91)", parts=parts, evidence={"a/b": "00ff"})
    }
    words = {"short": 'A "short" claim', "at": "section 4", "quote": "heads", "asks": "Are heads?", "chapter": "a/b"}
    words |= {"fixed": "after a look"} | more
    return Row(id=name, grade=grade, paper=paper, answers=answers, **words)  # pyright: ignore


@pytest.fixture
def stored(monkeypatch):
    """Rows in place of those that are stored."""

    def store(*rows: Row) -> None:
        for module in (badges, pages):
            monkeypatch.setattr(module, "read_rows", lambda *ids: [x for x in rows if not ids or x.id in ids])

    return store


def parse(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def test_a_badge_says_the_id_the_grade_the_number_and_that_the_rule_came_after_a_look():
    (badge,) = parse(make_badge(row())).contents
    assert badge.get_text() == "U25-2 weaker • r −.85 (paper −.91)"  # pyright: ignore
    assert badge["title"] == 'A "short" claim'  # pyright: ignore
    assert badge["href"] == "../reference/ledger.html#claim-u25-2"  # pyright: ignore
    assert "•" not in make_badge(row(fixed="before the run"))


@pytest.mark.parametrize("grade", GRADES)
def test_every_grade_has_a_shade_and_a_mark_of_its_own(grade, stored, root: Path):
    stored(row(grade=grade), row("U26-1", grade, U26), row("X-1", grade, OWN))
    (shade,) = set(parse(make_badge(row(grade=grade))).a["class"]) - {"posym-badge"}  # pyright: ignore
    css = (root / "book" / "_static" / "book.css").read_text(encoding="utf-8")
    assert f".bd-content .{shade} {{ background:" in css
    marks = re.findall(r'^\.(posym-[\w-]+)::before \{ content: "(.)" / "" \}', css.replace("; }", " }"), re.M)
    assert len({mark for _, mark in marks}) == len(marks) == len(GRADES)
    assert shade in dict(marks)
    chips = parse(show_wall().data).select(".posym-grade")
    assert [(chip["class"][-1], chip.get_text()) for chip in chips] == [(shade, f"{grade}: 1")] * 2


def test_the_wall_has_papers_by_grade_in_words_and_the_books_own_apart(stored):
    stored(row(), row("U25-3", "holds"), row("L-1", paper="Another paper"), row("C-1", paper=OWN))
    papers, own = parse(show_wall().data), parse(show_wall(own=True).data)
    assert [x.get_text() for x in papers.select("p")] == [f"{U25}, 2 claims", "Later papers, 1 claims"]
    assert [x.get_text() for x in own.select("p")] == [f"{OWN}, 1 claims"]
    assert [x["href"] for x in papers.select("li a")] == [
        f"reference/ledger.html#claim-{x}" for x in ("u25-3", "u25-2", "l-1")
    ]
    assert papers.select("ul ul li")[0].get_text() == 'A "short" claim r −.85 (paper −.91)'


def test_the_papers_rows_stand_beside_random_weights_and_other_models(stored):
    other = Answer(grade="holds")
    asked = row()
    asked.answers["smollm2-135m"] = other
    stored(asked, row("T-1", "not attributable", OWN))
    (cells,) = show_at_a_glance().rows
    assert cells[1:] == ("1 of 2", "holds", "–", "not attributable")
    assert {x[0]: x[1:-1] for x in show_counts().rows}["**weaker**"] == ("1", "")
    assert len(show_at_a_glance(own=True).rows) == 1


def test_every_stored_row_has_a_badge_a_tile_and_a_place_on_the_page():
    rows = read_rows()
    badged = [parse(cells[0]).a["href"] for own in (False, True) for cells in show_at_a_glance(own=own).rows]  # pyright: ignore
    tiles = [x["href"] for own in (False, True) for x in parse(show_wall(own=own).data).select("li a")]
    titles = dict.fromkeys(row.paper if row.paper in (U25, U26, OWN, badges.G26) else badges.LATER for row in rows)
    page = "".join(repr(show_rows(title)) for title in titles)
    ids = {f"claim-{row.id.lower()}" for row in rows}
    for addresses in (badged, tiles):
        assert len(addresses) == len(ids)
        assert {str(x).partition("#")[2] for x in addresses} == ids
    assert {*re.findall(r'<span id="([\w-]+)">', page)} == ids


def test_chapters_and_proofs_of_stored_rows_are_there(root: Path):
    for one in read_rows():
        for place in filter(None, (one.chapter, one.proof)):
            chapter, _, label = place.partition("#")
            text = (root / "book" / f"{chapter}.ipynb").read_text(encoding="utf-8")
            assert not label or f":label: {label}\\n" in text, (one.id, place)

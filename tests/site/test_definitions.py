"""Definitions beside terms and citations: how the script shows and hides them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>T</title>
</head><body style="padding-top: 80px"><article class="bd-article"><h1>Pure heads</h1>
<p>Two <a class="posym-term" href="glossary.html#term-Pure-head" title="One score near 1.">pure heads</a>.</p>
<p>By <a class="reference internal" href="introduction.html#id6" title="Somebody. A paper.">Somebody, 2026</a>.</p>
<script>{}</script></article></body></html>"""


@pytest.fixture
def opened(tmp_path: Path, root: Path, browser: Any) -> Any:
    """Opens a page with a term and a citation, on a screen that is touched or not."""
    script = (root / "book" / "_static" / "definitions.js").read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(PAGE.replace("{}", script), encoding="utf-8")
    (tmp_path / "glossary.html").write_text("Glossary")

    def open_page(*, touch: bool) -> Any:
        page = browser.new_context(offline=True, has_touch=touch, viewport={"width": 390, "height": 600}).new_page()
        page.goto((tmp_path / "page.html").as_uri())
        return page, page.get_by_role("tooltip"), page.get_by_role("link", name="pure heads")

    return open_page


def test_a_finger_sees_the_meaning_first_and_follows_the_link_then(opened: Any) -> None:
    page, tip, term = opened(touch=True)
    term.tap()
    assert tip.text_content() == "One score near 1."
    assert page.url.endswith("page.html")
    page.get_by_role("heading").tap()
    assert not tip.is_visible()
    term.tap()
    term.tap()
    page.wait_for_url("**/glossary.html#term-Pure-head")


def test_pointer_and_keyboard_see_meanings_and_escape_hides_them(opened: Any) -> None:
    page, tip, term = opened(touch=False)
    assert not tip.is_visible()
    term.hover()
    assert tip.text_content() == "One score near 1."
    assert term.get_attribute("aria-describedby") == tip.get_attribute("id")
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.get_by_role("link", name="Somebody, 2026").focus()
    assert tip.text_content() == "Somebody. A paper."

"""Definitions beside terms and citations: what is marked, and how the script shows and hides it."""

from __future__ import annotations

from pathlib import Path

import definitions
import pytest
from finish_site import edit_pages, plain
from in_browser import chromium

GLOSSARY = """<article class="bd-article"><dl class="simple glossary">
<dt id="term-Angle-frequency">Angle, frequency<a class="headerlink" href="#x" title="Link">#</a></dt><dd><p><span
class="math notranslate nohighlight">\\(\\theta_k\\)</span>, how "far" a plane turns.</p>
</dd>
<dt id="term-Pure-head">Pure head<a class="headerlink" href="#x" title="L">#</a></dt><dd><p>One score near 1.</p></dd>
<dt id="term-Index">Index<a class="headerlink" href="#x" title="Link">#</a></dt><dd><p>A task.</p></dd>
</dl></article>"""
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>T</title>
</head><body style="padding-top: 80px"><nav><p>pure heads</p></nav><article class="bd-article"><h1>Pure heads</h1>
<p>Not in <code>angle</code> <span class="math notranslate">\\(angle\\)</span>, an index or <a href="#">angles</a>, but
two frequencies, pure heads, a pure head, <em>Index</em> and an angle.</p>
<p>Said by <a class="reference internal" href="introduction.html#id6" title="Somebody. A paper.">Somebody, 2026</a>.</p>
</article></body></html>"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "book" / "reference").mkdir(parents=True)
    (tmp_path / "book" / "reference" / "glossary.html").write_text(GLOSSARY, encoding="utf-8")
    (tmp_path / "book" / "page.html").write_text(PAGE, encoding="utf-8")
    terms = definitions.list_terms(GLOSSARY, plain)
    edit_pages(tmp_path, lambda page, name: definitions.add_definitions(page, name, terms))
    return tmp_path


def test_hover_focus_tap_and_escape(site: Path, root: Path) -> None:
    (site / "_static").mkdir()
    script = (root / "book" / "_static" / "definitions.js").read_text(encoding="utf-8")
    assert len(script.encode()) < 2200
    (site / "_static" / "definitions.js").write_text(script, encoding="utf-8")
    with chromium() as browser:
        for touch in (False, True):
            page = browser.new_context(offline=True, has_touch=touch, viewport={"width": 390, "height": 600}).new_page()
            page.goto((site / "book" / "page.html").as_uri())
            tip, term = page.get_by_role("tooltip"), page.get_by_role("link", name="pure heads")
            assert not tip.is_visible()
            if touch:
                term.tap()
                assert tip.text_content() == "One score near 1."
                assert page.url.endswith("page.html")
                page.get_by_role("heading").tap()
                assert not tip.is_visible()
                term.tap()
                term.tap()
                page.wait_for_url("**/glossary.html#term-Pure-head")
                continue
            term.hover()
            assert tip.text_content() == "One score near 1."
            assert term.get_attribute("aria-describedby") == tip.get_attribute("id")
            page.keyboard.press("Escape")
            assert not tip.is_visible()
            page.get_by_role("link", name="Somebody, 2026").focus()
            assert tip.text_content() == "Somebody. A paper."
            page.keyboard.press("Escape")
            assert not tip.is_visible()
            page.keyboard.press("Shift+Tab")
            assert tip.is_visible()
            page.keyboard.press("Tab")
            assert tip.text_content() == "Somebody. A paper."

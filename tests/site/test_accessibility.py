"""What axe-core finds on the built pages, in both colour schemes, and what is left of them without scripts."""

from __future__ import annotations

import pytest
from axe import RULES, violations
from playwright.sync_api import Browser
from test_site import CHAPTERS, PAGES, address, browser, opened, site  # noqa: F401

# The drawn form of a formula is hidden from screen readers and has the colour of its text; thousands of its elements
# would take minutes. Its MathML stays.
WITHOUT_DRAWN_FORMULAS = "() => document.querySelectorAll('mjx-math').forEach(formula => formula.remove())"


@pytest.mark.parametrize("name", [name for name in PAGES if name != "index.html"] or [None])
def test_axe_finds_nothing_serious(browser: Browser, address: str, name: str) -> None:  # noqa: F811
    with opened(browser, address, name) as visit:
        visit.page.evaluate(WITHOUT_DRAWN_FORMULAS)
        assert {scheme: violations(visit.page, scheme) for scheme in RULES} == {"light": [], "dark": []}


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "image-alt"),
        ("<p style='color: #bbb; background: #fff'>Pale words</p>", "color-contrast"),
        (
            "<p style='color: #bbb' hidden>None</p><p style='color: #bbb'>Pale words</p>",
            "color-contrast",
        ),
        ("<p>Words</p><div style='background: #222'><p>Alike, on other ground</p></div>", "color-contrast"),
        ("<p>Words</p><div style='position: absolute; background: #222'>In a box</div>", "color-contrast"),
        ("<input type='range'>", "label"),
        ("<table><tr><td><a href='#'></a></td></tr></table>", "link-name"),
    ],
)
def test_axe_sees_what_is_wrong(browser: Browser, content: str, rule: str) -> None:  # noqa: F811
    page = browser.new_page()
    page.set_content(f"<html lang='en'><title>Page</title><main><h1>Page</h1>{content}</main></html>")
    assert [found.partition(":")[0] for found in violations(page, "light")] == [rule]
    page.close()


@pytest.mark.parametrize("name", CHAPTERS or [None])
def test_pages_can_be_read_without_scripts(browser: Browser, address: str, name: str) -> None:  # noqa: F811
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + name)
    article = page.locator("article")
    assert article.locator("h1").first.is_visible()
    assert len(article.inner_text()) > 200
    # All formulas are set: their sources are nowhere to be seen.
    unset = [text for text in article.locator(".math").all_inner_texts() if "\\(" in text or "\\[" in text]
    assert not unset
    for drawing in article.locator(".posym-drawing[role=img]").all():
        assert len(drawing.get_attribute("aria-label") or "") > 10
    context.close()

"""What axe-core finds on the built pages, in both colour schemes, and what is left of them without scripts."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from test_site import CHAPTERS, PAGES, address, browser, opened, site  # noqa: F401

RULES = {"light": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "dark": ["color-contrast"]}
# The drawn form of a formula is hidden from screen readers and has the colour of its text; thousands of its elements
# would take minutes. Its MathML stays.
WITHOUT_DRAWN_FORMULAS = "() => document.querySelectorAll('mjx-math').forEach(formula => formula.remove())"
# Nearly all of axe's time is contrast, and thousands of texts of a reference have a dozen looks between them. A look is
# all that contrast follows from, of an element and of whatever it stands in. Marked are the first visible text of each
# look and every form control. What is positioned may lie on anything: none has the look of another. Drawings are left
# out: axe cannot tell what a text in them lies on.
MARK_LOOKS = """() => {
    const properties = ['color', 'background-color', 'background-image', 'background-clip', 'opacity', 'font-size',
        'font-weight', 'text-shadow', 'filter', 'mix-blend-mode', '-webkit-text-stroke', 'transform'];
    const known = new Map(), looks = new Map(), marked = new Set();
    for (const element of document.querySelectorAll('*:not(svg *)')) {
        const style = getComputedStyle(element);
        const apart = !['static', 'relative'].includes(style.position);
        const own = apart ? [known.size] : properties.map(name => style.getPropertyValue(name));
        const key = [looks.get(element.parentElement), ...own].join('|');
        if (!known.has(key)) known.set(key, known.size);
        const look = known.get(key);
        looks.set(element, look);
        const text = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
        const first = text && !marked.has(look) && element.checkVisibility({ visibilityProperty: true });
        if (first) marked.add(look);
        element.toggleAttribute('data-marked', first || element.matches('input, select, textarea, button'));
    }
    axe.configure({ rules: [{ id: 'color-contrast', selector: '[data-marked]' }] });
}"""


def violations(page: Page, scheme: str) -> list[str]:
    """The serious and critical violations of a page, each with its rule, the element and the remedy."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => matchMedia(`(prefers-color-scheme: ${scheme})`).matches", arg=scheme)
    page.wait_for_timeout(300)  # colours change gradually
    page.evaluate(Axe().axe_script)
    page.evaluate(MARK_LOOKS)
    # Whether all content stands in landmarks is of moderate impact, and takes long to say.
    options = {"resultTypes": ["violations"], "runOnly": RULES[scheme], "rules": {"region": {"enabled": False}}}
    found: dict[str, Any] = page.evaluate("options => axe.run(options)", options)
    return [
        f"{violation['id']}: {node['html'][:120]} ({node['failureSummary']})"
        for violation in found["violations"]
        if violation["impact"] in {"serious", "critical"}
        for node in violation["nodes"]
    ]


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

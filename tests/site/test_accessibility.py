"""Whether axe-core, which looks at every page in ``test_site``, sees what is wrong; pages without scripts."""

from __future__ import annotations

import pytest
from axe import violations
from playwright.sync_api import Browser
from test_site import address, site  # noqa: F401


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "image-alt"),
        ("<p style='color: #bbb; background: #fff'>Pale words</p>", "color-contrast"),
        ("<p>Words</p><div style='background: #222'><p>Alike, on other ground</p></div>", "color-contrast"),
        ("<p>Many words and a <a href='#' style='text-decoration: none'>link</a></p>", "link-in-text-block"),
        ("<input type='range'>", "label"),
        ("<table><tr><td><a href='#'></a></td></tr></table>", "link-name"),
    ],
)
def test_axe_sees_what_is_wrong(browser: Browser, content: str, rule: str) -> None:
    page = browser.new_page()
    page.set_content(f"<html lang='en'><title>Page</title><main><h1>Page</h1>{content}</main></html>")
    assert [found.partition(":")[0] for found in violations(page, "light")] == [rule]
    page.close()


# A chapter with sliders and formulas, and one page of each other kind.
# Of formulas, which a script sets, the sources are there.
@pytest.mark.parametrize(
    "name",
    ["book/where_and_what/frequencies.html", "book/language_model/language_model.html", "book/package/api/report.html"],
)
def test_pages_can_be_read_without_scripts(browser: Browser, address: str, name: str) -> None:  # noqa: F811
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + name)
    article = page.locator("article")
    assert article.locator("h1").first.is_visible()
    assert len(article.inner_text()) > 200
    context.close()

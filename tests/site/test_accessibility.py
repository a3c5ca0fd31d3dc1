"""Whether axe-core, which looks at every page in ``test_site``, sees what is wrong."""

from __future__ import annotations

import pytest
from axe import violations
from playwright.sync_api import Browser
from test_site import browser, site  # noqa: F401


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
        ("<p>Many words and a <a href='#' style='text-decoration: none'>link</a></p>", "link-in-text-block"),
        ("<input type='range'>", "label"),
        ("<table><tr><td><a href='#'></a></td></tr></table>", "link-name"),
    ],
)
def test_axe_sees_what_is_wrong(browser: Browser, content: str, rule: str) -> None:  # noqa: F811
    page = browser.new_page()
    page.set_content(f"<html lang='en'><title>Page</title><main><h1>Page</h1>{content}</main></html>")
    assert [found.partition(":")[0] for found in violations(page, "light")] == [rule]
    page.close()

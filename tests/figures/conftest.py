"""What tests of figures share: a browser, and pages opened from files with the network cut."""

from __future__ import annotations

import pytest
from in_browser import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens figures from a file with the network cut; says at the end that the page had nothing to complain about."""
    opened = []

    def open_page(figures, *, head="", root="", body="", width=900, theme="light"):
        file = tmp_path / f"page{len(opened)}.html"
        inner = "".join(shown.html for shown in figures)
        file.write_text(
            f'<!doctype html><html {root}><head><meta charset="utf-8">{head}'
            '<meta name="viewport" content="width=device-width">'
            f"</head><body {body}>{inner}</body></html>",
            "utf-8",
        )
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, color_scheme=theme)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: request.url.startswith(("file:", "data:", "blob:")) or complaints.append(request.url),
        )
        page.goto(file.as_uri())
        opened.append((context, complaints))
        return page

    yield open_page
    for context, complaints in opened:
        assert complaints == []
        context.close()

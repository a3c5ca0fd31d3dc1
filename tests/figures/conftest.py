"""What tests of figures share: a browser, and pages opened from files with the network cut."""

from __future__ import annotations

import contextlib

import pytest
from in_browser import opened


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens figures from a file with the network cut; says at the end that the page had nothing to complain about."""
    with contextlib.ExitStack() as pages:

        def open_page(figures, *, head="", root="", body="", theme="light", **options):
            head = f'<meta charset="utf-8">{head}<meta name="viewport" content="width=device-width">'
            inner = "".join(shown.html for shown in figures)
            text = f"<!doctype html><html {root}><head>{head}</head><body {body}>{inner}</body></html>"
            options = {"reduced_motion": "no-preference", "color_scheme": theme, **options}
            return pages.enter_context(opened(browser, text, tmp_path, **options))

        yield open_page

"""Scripts of the figures in headless Chromium: their functions by themselves, and pages opened from files."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from posym_figures import join_module


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser, or a skipped test where there is none and none is required."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("live figures are tested in a browser: install the system package chromium")
        pytest.skip("no system Chromium; install the package chromium to test live figures in a browser")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser; install the extra test")
    with sync.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def functions(browser: Any, *scripts: Any) -> Any:
    """An empty page where everything that these scripts export can be called in ``evaluate``."""
    page = browser.new_page()
    page.add_script_tag(content=join_module(*scripts))
    return page


@contextlib.contextmanager
def opened(
    browser: Any, figure: Any, folder: Any, *, address="", complains: bool = False, **options: Any
) -> Iterator[Any]:
    """A figure, or a page's text, in a page from a file, with the network cut; at the end it has complained, or not."""
    file = folder / f"page{len(list(folder.glob('page*.html')))}.html"
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Page</title>'
    head += "<style>@media (prefers-color-scheme: dark) { body { background: #121417; color: #e6e9ed; } }</style>"
    if not isinstance(figure, str):
        body = f"<main><h1>Page</h1>{figure.html}</main>"
        figure = f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'
    file.write_text(figure, "utf-8")
    size = {"width": options.pop("width", 900), "height": 900}
    context = browser.new_context(viewport=size, offline=True, **{"reduced_motion": "reduce", **options})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    local = ("file:", "blob:", "data:")
    page.on("request", lambda request: request.url.startswith(local) or complaints.append(request.url))
    page.goto(file.as_uri() + address)
    yield page
    assert bool(complaints) == complains, complaints
    context.close()


def move(slider: Any, index: int) -> None:
    """Put a slider at one of its settings, as a hand does."""
    slider.evaluate(
        "(input, index) => { input.value = index; input.dispatchEvent(new Event('input', { bubbles: true })); }", index
    )

"""The built site as a reader meets it: links, pictures, formulas and sliders, in a browser that is cut off.

The tests look at ``_build/html`` and are skipped, with the reason, while it is missing or older than the files it is
made from, or while no Chromium is on the path. In continuous integration (``CI=true``) that is a failure.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urldefrag, urlsplit

import axes
import build_book
import pytest
import yaml
from address import repository_address
from axe import RULES, violations
from bs4 import BeautifulSoup
from finish_site import site_address
from playwright.sync_api import Browser, ElementHandle, Page, Request, Response, Route

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
MOVED = CONFIG["sphinx"]["config"]["html_context"]["moved"]
PAGES = sorted({path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")} - {*MOVED}) if SITE.is_dir() else []
CHAPTERS = [name for name in PAGES if name.startswith("book/")]
FIRST_CHAPTER = "book/introduction.html"
OWN_FACTS = "book/your_facts.html"  # in place of sliders it has fields
# Pages to look things up in, which need no slider.
REFERENCE = {name for name in CHAPTERS if name.startswith(("book/reference/", "book/package/"))}
# Bytes of a page and all that it loads before a reader scrolls, nothing cached and nothing compressed.
LARGEST_PAGE = 2_500_000
NARROW = {"width": 390, "height": 844}
# The innards of all drawings of a figure: markup, and the pixels of canvases.
DRAWN = """figure => [...figure.querySelectorAll('.posym-drawing')].map(drawing => drawing.innerHTML +
    [...drawing.querySelectorAll('canvas'), ...(drawing.matches('canvas') ? [drawing] : [])]
        .map(canvas => canvas.toDataURL()).join()).join()"""


def missing(reason: str, *, required: bool) -> None:
    """Skip a test for want of something; fail it where everything has to be there."""
    if required:
        pytest.fail(f"{reason}, and CI=true requires it")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def site(continuous_integration: bool) -> Path:
    if not SITE.is_dir():
        missing("no site is built; run `make book`", required=continuous_integration)
    if not build_book.site_is_current(ROOT):
        missing("the site was built from other files; run `make book`", required=continuous_integration)
    return SITE


@functools.cache
def read_page(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def addresses(page: BeautifulSoup, *, loaded: bool) -> Iterator[str]:
    """The addresses that a page loads by itself, or those that it links to."""
    if not loaded:
        yield from (str(tag["href"]) for tag in page.select("a[href], area[href]"))
        return
    yield from (str(tag["src"]) for tag in page.select("[src]"))
    yield from (str(tag["data"]) for tag in page.select("object[data]"))
    for tag in page.select("link[href]"):
        if not {"canonical", "next", "prev", "search", "index", "author"} & set(tag.get("rel") or []):
            yield str(tag["href"])


@functools.cache
def targets(path: Path) -> set[str]:
    """The names in a page that an anchor can point to."""
    page = read_page(path)
    return {str(tag.get("id")) for tag in page.select("[id]")} | {
        str(tag.get("name")) for tag in page.select("a[name]")
    }


def sets_figures(page: BeautifulSoup, anchor: str) -> bool:
    """Whether each part of an anchor names a figure of the page and a slider of it, or the explorer's choices."""
    figures = [json.loads(script.get_text()) for script in page.select("figure script.posym-data")]
    known = {data["name"]: {slider["name"] for slider in data["sliders"]} for data in figures}
    if page.select(".posym-explorer"):
        known[""] = {"head", "input", "block", "tau"}
    for part in anchor.split(";"):
        name, colon, state = part.rpartition(":")
        if not known.get(re.sub(r"-\d$", "", name) if colon else name, set()) >= {key for key, _ in parse_qsl(state)}:
            return False
    return "=" in anchor


def is_external(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in {"http", "https", "mailto"}


@pytest.mark.parametrize("loaded", [True, False], ids=["assets", "links"])
@pytest.mark.parametrize("name", PAGES or [None])
def test_addresses_within_the_site_resolve(site: Path, name: str, loaded: bool) -> None:
    broken = []
    for address in addresses(read_page(site / name), loaded=loaded):
        if is_external(address) or address.startswith(("data:", "javascript:")):
            continue
        location, anchor = urldefrag(address)
        location = unquote(urlsplit(location).path)
        target = (site / name).parent.joinpath(location).resolve() if location else site / name
        if target.is_dir():
            target /= "index.html"
        found = target.is_relative_to(site.resolve()) and target.is_file()
        if found and anchor and target.suffix == ".html":
            found = unquote(anchor) in targets(target) or sets_figures(read_page(target), anchor)
        if not found:
            broken.append(address)
    assert not broken


@pytest.mark.parametrize("name", PAGES or [None])
def test_no_markup_is_left_to_read(site: Path, name: str) -> None:
    """A role that Sphinx does not understand, such as an empty one, is printed as it stands and is no warning."""
    texts = read_page(site / name).find_all(string=re.compile(r"\{(cite|prf|eq|ref|doc|numref|term)(:\w+)?\}`"))
    assert not [text for text in texts if not text.find_parents(["code", "pre", "script"])]


NO_PLACES = {"index.html", "search.html"}  # where nobody can be sent


@pytest.mark.parametrize("name", sorted({*PAGES} - NO_PLACES) or [None])
def test_pages_say_where_they_stand(site: Path, name: str) -> None:
    page, top = read_page(site / name), site_address(repository_address(ROOT))
    assert [tag["href"] for tag in page.select('link[rel="canonical"]')] == [top + name]
    assert [tag["content"] for tag in page.select('meta[property="og:url"]')] == [top + name]
    (picture,) = (str(tag["content"]) for tag in page.select('meta[property="og:image"]'))
    assert (site / picture.removeprefix(top)).is_file()


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_pages_that_moved_lead_on(site: Path, old: str, new: str) -> None:
    page, (location, anchor) = read_page(site / old), urldefrag(new)
    (link,) = (str(tag["href"]) for tag in page.select("a[href]"))
    assert (site / old).parent.joinpath(urldefrag(link)[0]).resolve() == (site / location).resolve()
    assert urldefrag(link)[1] == anchor
    assert anchor in targets(site / location)
    assert location in CHAPTERS


@pytest.mark.parametrize("name", CHAPTERS or [None])
def test_pictures_and_drawings_say_what_is_seen(site: Path, name: str) -> None:
    page = read_page(site / name)
    texts = [str(picture.get("alt", "")).strip() for picture in page.select("article img")]
    texts += [str(drawing.get("aria-label", "")) for drawing in page.select("article .posym-drawing[role=img]")]
    # Sphinx puts the file's name where an author gave no text.
    assert not [text for text in texts if len(text) < 10 or text.endswith((".png", ".svg", ".jpg"))]


@pytest.mark.parametrize("name", CHAPTERS or [None])
def test_axes_say_which_way_frequencies_run_and_positions_begin_at_0(site: Path, name: str) -> None:
    drawn = [json.loads(str(one.string)) for one in read_page(site / name).select("script.posym-data")]
    assert [fault for data in drawn for fault in axes.faults(data)] == []


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that closes a page may leave a request half answered."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site, served on this machine only."""
    with QuietServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@dataclass
class Visit:
    """A page opened in a browser that reaches nothing but the site, and what was seen meanwhile."""

    page: Page
    trouble: list[str] = field(default_factory=list)
    asked_elsewhere: list[str] = field(default_factory=list)
    loaded_bytes: int = 0


@contextlib.contextmanager
def opened(browser: Browser, address: str, name: str) -> Iterator[Visit]:
    """Open a page with nothing cached, and wait until its scripts have done their first work."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    visit = Visit(context.new_page())
    page = visit.page

    def refuse(route: Route, request: Request) -> None:
        visit.asked_elsewhere.append(request.url)
        route.abort()

    context.route(re.compile(f"^(?!{re.escape(address)}|data:|blob:)"), refuse)
    page.on("console", lambda message: visit.trouble.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: visit.trouble.append(str(error)))
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    page.goto(address + name)
    page.evaluate("() => window.MathJax && window.MathJax.startup && window.MathJax.startup.promise")
    page.evaluate("() => new Promise(done => requestIdleCallback(done))")
    visit.trouble += [f"{response.status} {response.url}" for response in responses if response.status >= 400]
    visit.loaded_bytes = sum(int(each.headers["content-length"]) for each in responses if each.status == 200)
    yield visit
    context.close()


@pytest.fixture(scope="module")
def visit(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Visit]:
    """One visit a page, shared by the tests of that page."""
    with opened(browser, address, request.param) as visit:
        yield visit


every_page = pytest.mark.parametrize("visit", [name for name in PAGES if name != "index.html"] or [None], indirect=True)
every_chapter = pytest.mark.parametrize("visit", CHAPTERS or [None], indirect=True)


@every_page
def test_page_loads_without_a_network(visit: Visit) -> None:
    assert not visit.asked_elsewhere
    assert not visit.trouble
    assert visit.loaded_bytes < LARGEST_PAGE


# Pages of the interface are made by one program from docstrings: two stand for the others.
AXE = [name for name in PAGES if name != "index.html" and not re.match("book/package/api/(?!profile|report)", name)]


@pytest.mark.parametrize("visit", AXE or [None], indirect=True)
def test_axe_finds_nothing_serious(visit: Visit) -> None:
    come_by(visit.page)
    assert {scheme: violations(visit.page, scheme) for scheme in RULES} == {"light": [], "dark": []}
    visit.page.emulate_media(color_scheme="light")


def test_front_door_leads_to_the_first_chapter(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_url(address + FIRST_CHAPTER)
    assert page.locator("article h1").count() == 1
    page.close()


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, NARROW])
def test_the_front_page_opens_on_a_figure_that_moves(browser: Browser, address: str, size: dict[str, int]) -> None:
    with opened(browser, address, FIRST_CHAPTER) as visit:
        visit.page.set_viewport_size(size)
        figure = visit.page.locator(".posym-figure").first
        assert visit.page.evaluate("scrollY") == 0
        for part in (figure.locator("input[type=range]"), figure.locator(".posym-drawing").first):
            box = part.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] < size["height"]


@every_chapter
def test_formulas_are_set(visit: Visit) -> None:
    name = urlsplit(visit.page.url).path.strip("/")
    assert visit.page.locator("article .math").count() > 0 or name in {FIRST_CHAPTER, OWN_FACTS, *REFERENCE}
    unset = visit.page.evaluate(
        """() => [...document.querySelectorAll('article .math')]
            .filter(formula => !formula.querySelector('mjx-container') || formula.querySelector('mjx-merror'))
            .map(formula => formula.textContent)"""
    )
    assert not unset
    assert visit.page.locator("mjx-merror, [data-mjx-error]").count() == 0


@every_chapter
def test_page_fits_a_phone(visit: Visit) -> None:
    wide = visit.page.viewport_size
    visit.page.set_viewport_size(NARROW)
    width = visit.page.evaluate("() => document.documentElement.scrollWidth")
    visit.page.set_viewport_size(wide)
    assert width <= NARROW["width"]


# Words in sight of which a box that hides or scrolls shows nothing without being scrolled: tables and code may be so.
CLIPPED = """() => [...document.querySelectorAll('article *')].filter(one => {
    if (one.closest('pre, svg, mjx-container, .pst-scrollable-table-container') || !one.checkVisibility()) return false;
    if (![...one.childNodes].some(part => part.nodeType === 3 && part.textContent.trim())) return false;
    const { left, right, width } = one.getBoundingClientRect();
    for (let box = one.parentElement; width > 1 && box.tagName !== 'ARTICLE'; box = box.parentElement) {
        const edge = box.getBoundingClientRect();
        if (getComputedStyle(box).overflowX !== 'visible' && (left >= edge.right || right <= edge.left)) return true;
    }
    return false;
}).map(one => one.textContent.trim())"""


@every_chapter
def test_no_words_are_outside_a_box_that_clips_them(visit: Visit) -> None:
    assert visit.page.evaluate(CLIPPED) == []


def come_by(page: Page) -> None:
    """Scroll by the figures that load their data when a reader comes near."""
    for figure in page.query_selector_all(".posym-figure:has([data-from])"):
        figure.scroll_into_view_if_needed()
    page.wait_for_function("() => [...document.querySelectorAll('[data-from]')].every(data => data.textContent)")


def unfold(page: Page) -> None:
    """Open all folds of a page, as a reader does who wants to see everything."""
    come_by(page)
    page.evaluate("document.querySelectorAll('article details').forEach(fold => { fold.open = true; })")
    # A figure that asks for a guess first shows itself to a reader who makes none.
    page.evaluate("document.querySelectorAll('.posym-guess [type=button]').forEach(button => button.click())")
    page.wait_for_function(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
    )


@every_chapter
def test_sliders_move_their_drawings(visit: Visit) -> None:
    unfold(visit.page)
    dead, moved = dead_sliders(visit.page)
    assert not dead
    # A figure may be drawn without sliders, but where the page's figures have none at all something is lost.
    assert moved or not visit.page.query_selector_all(".posym-figure:not(:has(textarea))")
    assert not visit.trouble


def dead_sliders(page: Page) -> tuple[list[str], int]:
    """Which sliders of a page move nothing, and how many there are."""
    dead, moved = [], 0
    for number, figure in enumerate(page.query_selector_all(".posym-figure")):
        for which, slider in enumerate(figure.query_selector_all("input[type=range]:not(.posym-guess *)")):
            moved += 1
            start = slider.evaluate("slider => slider.value")
            if not moves_by_keyboard(page, figure, slider):
                dead.append(f"slider {which} of figure {number} does not answer the arrow keys")
            # At the end of one slider another may rightly change nothing: a flat head has no temperature.
            put(slider, start)
    return dead, moved


@every_chapter
def test_choices_change_their_drawings(visit: Visit) -> None:
    unfold(visit.page)
    silent = []
    for number, figure in enumerate(visit.page.query_selector_all(".posym-figure")):
        for choice in figure.query_selector_all("select"):
            if not choice.is_visible():  # out of sight is only a choice that is none
                assert choice.evaluate("choice => choice.options.length") < 2
                continue
            start = choice.evaluate("choice => choice.value")
            before = figure.evaluate(DRAWN)
            choice.focus()
            choice.press("ArrowDown")
            if choice.evaluate("choice => choice.value") == start or not changed(visit.page, figure, before):
                silent.append(f"a choice of figure {number} does not answer the arrow keys")
            choice.select_option(value=start)
    assert not silent
    assert not visit.trouble


def put(slider: ElementHandle, value: str) -> None:
    """Set a slider as a script does."""
    slider.evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })); }",
        value,
    )


def changed(page: Page, figure: ElementHandle, before: str) -> bool:
    """Whether the drawing becomes another one within a short while; drawing may wait for the next frame."""
    for _ in range(20):
        if figure.evaluate(DRAWN) != before:
            return True
        page.wait_for_timeout(25)
    return False


def moves_by_keyboard(page: Page, figure: ElementHandle, slider: ElementHandle) -> bool:
    """One step may be too small to see, so more are tried, up to the end on the side where there is room."""
    before = figure.evaluate(DRAWN)
    at_end = slider.evaluate("slider => Number(slider.value) >= Number(slider.max)")
    slider.focus()
    while True:
        value = slider.evaluate("slider => slider.value")
        slider.press("ArrowLeft" if at_end else "ArrowRight")
        if slider.evaluate("slider => slider.value") == value:
            return False
        if changed(page, figure, before):
            return True

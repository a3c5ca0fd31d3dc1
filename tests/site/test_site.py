"""The built site as a reader meets it: links, pictures, formulas and sliders, in a browser that is cut off.

The tests look at ``_build/html`` and are skipped, with the reason, while it is missing or older than the files it is
made from, or while no Chromium is on the path. In continuous integration (``CI=true``) that is a failure.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urldefrag, urlsplit

import axes
import build_book
import numpy as np
import pytest
from address import repository_address
from axe import RULES, violations
from bs4 import BeautifulSoup, Tag
from finish_site import site_address
from moved import MOVED
from PIL import Image
from playwright.sync_api import Browser, ElementHandle, Locator, Page, Request, Response, Route, sync_playwright

from benchmarks import readme_picture

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
PAGES = sorted({path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")} - {*MOVED}) if SITE.is_dir() else []
CHAPTERS = [name for name in PAGES if name.startswith("book/")]
FIRST_CHAPTER = "book/introduction.html"
OWN_FACTS = "book/your_facts.html"  # in place of sliders it has fields
# Pages to look things up in, which need no slider.
REFERENCE = {name for name in CHAPTERS if name.startswith(("book/reference/", "book/package/"))}
# Bytes of a page and all it loads, nothing cached and nothing compressed; one page has the head explorer.
LARGEST_PAGE, HEAVIER = 2_800_000, {"book/language_model/language_model.html": 3_400_000}
NARROW = {"width": 390, "height": 844}
BROWSER_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
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


def is_view(page: BeautifulSoup, anchor: str) -> bool:
    """Whether an anchor asks the page's head explorer for a head that it has, as ``head=5.2&input=repeat`` does."""
    named = re.fullmatch(r"head=(\d+)\.(\d+)(&(input|block|tau)=[\w.-]+)*", anchor)
    heads = {option.get_text() for option in page.select(".posym-explorer select[name=head] option")}
    return (named is not None and f"layer {named[1]}, head {named[2]}" in heads) or sets_figures(page, anchor)


def sets_figures(page: BeautifulSoup, anchor: str) -> bool:
    """Whether each part of an anchor names a slider figure of the page, a slider of it and one of its settings."""
    figures: dict[str, dict[str, list[Any]]] = {}
    titles = Counter[str]()
    for script in page.select("figure script.posym-data"):
        data = json.loads(script.get_text())
        titles[data["name"]] += 1
        name = f"{data['name']}-{titles[data['name']]}".removesuffix("-1")
        figures[name] = {slider["name"]: slider["keys"] for slider in data["sliders"]}

    def known(name: str, key: str, text: str) -> bool:
        number = float(text) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text) else math.nan
        return any(
            setting == text if isinstance(setting, str) else math.isclose(setting, number, rel_tol=1e-3)
            for setting in figures.get(name, {}).get(key, [])
        )

    asked = [part.partition(":")[::2] for part in anchor.split(";")]
    settings = [(name, *setting) for name, state in asked for setting in parse_qsl(state) or [("", "")]]
    return all(known(*setting) for setting in settings)


def is_external(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in {"http", "https", "mailto"}


def test_the_picture_of_the_readme_is_the_slider_of_the_front_page(site: Path) -> None:
    figure = readme_picture.read_figure(site / FIRST_CHAPTER)
    places = readme_picture.list_places(figure)
    with Image.open(readme_picture.PICTURE) as image:
        assert image.n_frames == len(places)
        for at, drawn in zip((0, -1), readme_picture.draw_frames(figure, [places[0], places[-1]]), strict=True):
            image.seek(at % image.n_frames)
            kept = np.asarray(image.convert("RGB"), dtype=float)
            # Fonts and edges may differ a little between versions.
            assert np.abs(np.asarray(drawn, dtype=float) - kept).mean() < 3, "run python -m benchmarks.readme_picture"


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
            found = unquote(anchor) in targets(target) or is_view(read_page(target), anchor)
        if not found:
            broken.append(address)
    assert not broken


@pytest.mark.parametrize("name", PAGES or [None])
def test_no_markup_is_left_to_read(site: Path, name: str) -> None:
    """A role that Sphinx does not understand, such as an empty one, is printed as it stands and is no warning."""
    texts = read_page(site / name).find_all(string=re.compile(r"\{(cite|prf|eq|ref|doc|numref|term)(:\w+)?\}`"))
    assert not [text for text in texts if not text.find_parents(["code", "pre", "script"])]


NO_PLACES = {"404.html", "index.html", "search.html"}  # where nobody can be sent


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


def test_other_books_find_the_project_by_its_name(site: Path) -> None:
    assert (site / "objects.inv").read_bytes().splitlines()[1] == b"# Project: posym"


@pytest.mark.parametrize("name", PAGES or [None])
def test_pages_load_nothing_from_elsewhere(site: Path, name: str) -> None:
    page = read_page(site / name)
    assert not [address for address in addresses(page, loaded=True) if is_external(address)]
    assert not page.select("iframe, embed")


def test_stylesheets_load_nothing_from_elsewhere(site: Path) -> None:
    remote = re.compile(r"""(url\(\s*["']?|@import\s+["'])(https?:)?//""")
    assert not [path.name for path in site.rglob("*.css") if remote.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("name", CHAPTERS or [None])
def test_pictures_and_figures_say_what_is_seen(site: Path, name: str) -> None:
    article = read_page(site / name).select_one("article")
    assert article is not None
    silent = []
    for picture in article.select("img"):
        text = str(picture.get("alt", "")).strip()
        # Sphinx puts the file's name where an author gave no text.
        if len(text) < 10 or text.endswith((".png", ".svg", ".jpg")):
            silent.append(str(picture.get("src")))
    for figure in article.select(".posym-figure"):
        if not accessible_name(figure):
            silent.append(str(figure)[:80])
        silent += [str(slider) for slider in figure.select("input") if not slider_name(figure, slider)]
    assert not silent


@pytest.mark.parametrize("name", CHAPTERS or [None])
def test_pages_are_all_there_before_scripts_run(site: Path, name: str) -> None:
    article = read_page(site / name).select_one("article")
    assert article is not None
    assert article.select_one("h1")
    assert len(article.get_text()) > 200
    for drawing in article.select(".posym-drawing[role=img]"):
        assert len(str(drawing.get("aria-label", ""))) > 10


def accessible_name(figure: Tag) -> str:
    """What a slider figure is called by someone who cannot see it."""
    if figure.get("aria-label"):
        return str(figure["aria-label"])
    caption = figure.select_one("figcaption, [role=img][aria-label]")
    return "" if caption is None else str(caption.get("aria-label") or caption.get_text()).strip()


def slider_name(figure: Tag, slider: Tag) -> str:
    if slider.get("aria-label") or slider.get("aria-labelledby"):
        return str(slider.get("aria-label") or slider.get("aria-labelledby"))
    label = slider.find_parent("label") or figure.find("label", attrs={"for": slider.get("id") or "-"})
    return label.get_text().strip() if isinstance(label, Tag) else ""


@pytest.mark.parametrize("name", CHAPTERS or [None])
def test_axes_say_which_way_frequencies_run_and_positions_begin_at_0(site: Path, name: str) -> None:
    drawn = [json.loads(str(one.string)) for one in read_page(site / name).select("script.posym-data")]
    assert [fault for data in drawn for fault in axes.faults(data)] == []


# One table of all encodings.
ATLAS = "book/encodings/atlas.html"


@pytest.mark.parametrize("name", sorted({*CHAPTERS} - {FIRST_CHAPTER, ATLAS, *REFERENCE}) or [None])
def test_chapters_have_a_slider(site: Path, name: str) -> None:
    assert read_page(site / name).select(".posym-figure input[type=range], .posym-figure textarea")


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


def chromium(required: bool) -> str:
    """Where a Chromium is."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        missing("no Chromium is on the path; run `make browser`", required=required)
    return str(found)


@pytest.fixture(scope="module")
def browser(site: Path, continuous_integration: bool) -> Iterator[Browser]:
    found = chromium(continuous_integration)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=BROWSER_OPTIONS)
        yield browser
        browser.close()


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
    assert visit.loaded_bytes < HEAVIER.get(urlsplit(visit.page.url).path.strip("/"), LARGEST_PAGE)


# Pages of the interface are made by one program from docstrings: two stand for the others.
AXE = [name for name in PAGES if name != "index.html" and not re.match("book/package/api/(?!profile|report)", name)]


@pytest.mark.parametrize("visit", AXE or [None], indirect=True)
def test_axe_finds_nothing_serious(visit: Visit) -> None:
    assert {scheme: violations(visit.page, scheme) for scheme in RULES} == {"light": [], "dark": []}
    visit.page.emulate_media(color_scheme="light")


def test_front_door_leads_to_the_first_chapter(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_url(address + FIRST_CHAPTER)
    assert page.locator("article h1").count() == 1
    page.close()


def test_lost_in_the_middle_and_its_live_figure_are_two_clicks_from_the_front_page(
    browser: Browser, address: str
) -> None:
    with opened(browser, address, FIRST_CHAPTER) as visit:
        page = visit.page
        page.locator("article a[href$='ledger.html#claim-u25-7']").first.click()  # the first
        page.wait_for_url("**/ledger.html#claim-u25-7")
        assert in_view(page.locator("#claim-u25-7"))
        assert page.locator("article a[href*='success_by_frequency.html']").count()
        page.goto(address + "book/one_head/success_by_frequency.html")  # the second
        page.wait_for_load_state("networkidle")
        figure = page.locator(".cell:has(> #live-u25-7) .posym-figure")
        figure.locator(".posym-guess [type=button]").click()  # shows the figure without a guess
        handle = figure.element_handle()
        before = handle.evaluate(DRAWN)
        figure.locator(".posym-sliders input[type=range]").first.press("ArrowRight")
        assert changed(page, handle, before)
        assert not visit.trouble


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


def in_view(element: Locator) -> bool:
    """Whether the upper edge of an element is on the screen, once the page has stopped scrolling."""
    element.page.wait_for_timeout(300)
    return bool(element.evaluate("e => { const y = e.getBoundingClientRect().top; return 0 <= y && y < innerHeight; }"))


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


CLOSED = """() => [...document.querySelectorAll(".admonition.dropdown")].filter((fold) => {
  const open = !fold.classList.contains("toggle-hidden"), title = fold.querySelector(":scope > .admonition-title");
  fold.classList.add("toggle-hidden");
  const [whole, own] = [fold, title].map((x) => x.getBoundingClientRect().height);
  if (open) fold.classList.remove("toggle-hidden");
  return own > 0 && whole > own + 4;
}).map((fold) => fold.querySelector(".admonition-title").textContent)"""


@every_chapter
def test_a_closed_fold_is_its_title_alone(visit: Visit) -> None:
    assert visit.page.evaluate(CLOSED) == []


@every_chapter
def test_both_colour_schemes_are_there(visit: Visit) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        visit.page.emulate_media(color_scheme=scheme)
        visit.page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        colours.add(visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    visit.page.emulate_media(color_scheme="light")
    assert len(colours) == 2


def unfold(page: Page) -> None:
    """Open all folds of a page, as a reader does who wants to see everything."""
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
            if not moves_by_value(page, figure, slider):
                dead.append(f"slider {which} of figure {number} does not answer a new value")
            # At the end of one slider another may rightly change nothing: a flat head has no temperature.
            put(slider, start)
    return dead, moved


@every_chapter
def test_every_series_of_a_figure_has_its_colour(visit: Visit) -> None:
    colourless = visit.page.evaluate(
        """() => [...document.querySelectorAll('.posym-figure [class*=posym-c]')].filter(element =>
            [...element.classList].some(name => /^posym-c\\d$/.test(name))
            && !getComputedStyle(element).getPropertyValue('--paint')).length"""
    )
    assert colourless == 0


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


def moves_by_value(page: Page, figure: ElementHandle, slider: ElementHandle) -> bool:
    """As a script or a mouse does it: the value is set and the event sent; some value must change the drawing."""
    for share in (0.0, 1.0, 0.5):
        before = figure.evaluate(DRAWN)
        slider.evaluate(
            """(slider, share) => {
                slider.value = Number(slider.min) + share * (Number(slider.max) - Number(slider.min));
                slider.dispatchEvent(new Event('input', { bubbles: true }));
            }""",
            share,
        )
        if changed(page, figure, before):
            return True
    return False

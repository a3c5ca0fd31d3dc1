"""Words in sight: what the counter counts, and that pages and the whole path stay readable."""

from __future__ import annotations

from pathlib import Path

import pytest
import words
from playwright.sync_api import Browser
from test_site import browser, site  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
LONGEST_PAGE = 2600
LONGEST_PATH = 38_000
# The paragraphs, items and captions of an article as a browser lays them out, without tables, figures and formulas.
LAID_OUT = """blocks => [...document.querySelectorAll('article')].flatMap(article =>
    [...article.querySelectorAll(blocks)].filter(block => block.checkVisibility()
        && !block.parentElement.closest(blocks) && !block.closest('details, .dropdown, .toggle, table'))
    .map(block => {
        const copy = block.cloneNode(true);
        copy.querySelectorAll('details, .headerlink, table, pre, svg, .math, mjx-container, .posym-minutes, select, '
            + '.posym-badge, .posym-sliders, .posym-drawing, noscript, output, script, style')
            .forEach(part => part.remove());
        return copy.textContent.trim().split(/\\s+/).filter(Boolean).length;
    })).reduce((a, b) => a + b, 0)"""

COUNTED = {
    "<h1>A title<a class='headerlink'>#</a></h1><p>Two words\nand <b>three</b> more.</p>": 7,
    "<ul><li>one</li><li><p>two</p></li></ul><blockquote><p>three</p></blockquote>": 3,
    "<p>end of <span class='math'>a = b</span> it</p><div class='math'><p>c = d</p></div>": 3,
    "<figure><figcaption>Look here</figcaption><noscript><p>Not in sight.</p></noscript></figure>": 2,
    "<pre>x = one + two</pre><div class='highlight'><p>x</p></div><p>end</p>": 1,
    "<table><tr><td><p>a</p></td></tr></table><p>end</p>": 1,
    "<details><summary>Its title</summary><p>This does not count.</p></details><p>end</p>": 1,
    "<div class='admonition dropdown'><p class='admonition-title'>A title</p><p>Nor this.</p></div><p>end</p>": 1,
    "<div class='admonition'><p class='admonition-title'>A title</p><p>This does.</p></div>": 4,
    "<p hidden>Nobody sees it.</p><p class='posym-minutes'>9 minutes to read</p>": 0,
    "<p>As claimed. <a class='posym-badge posym-partly'>C-6<span> partly, 4 of 6</span></a></p>": 2,
    "<dl><dt>term</dt><dd>its meaning</dd></dl>": 2,
    "<p>One two.</p><div class='cell_output'><p>Three <b>more</b> words</p></div>": 5,
}


@pytest.mark.parametrize(("page", "count"), COUNTED.items())
def test_text_in_sight_is_counted(page: str, count: int) -> None:
    assert words.words_in_sight(f"<p>A bar beside it.</p><article>{page}</article>").words == count


def test_a_page_without_an_article_has_no_words() -> None:
    assert words.words_in_sight("<p>Search</p>") == (0, 0)


def test_a_table_takes_twice_the_time_of_prose() -> None:
    prose, table = (words.words_in_sight(f"<article>{text}</article>") for text in (
        f"<p>{'word ' * 400}</p>",
        f"<table><tr><th>{'word ' * 300}</th><td>{'1 ' * 100}</td></tr></table>",
    ))  # fmt: skip
    assert (prose.minutes, table.tabled, table.minutes) == (2, 400, 4)
    assert words.Count(0, 0).minutes == 1


def test_the_reading_path_leaves_out_what_is_looked_up() -> None:
    path, pages = list(words.reading_path(ROOT)), list(words.pages(ROOT))
    assert path == pages[: len(path)]
    assert "book/fifteen_minutes" in path
    assert {name.split("/")[1] for name in pages[len(path) :]} == {"reference", "package"}


@pytest.fixture(scope="module")
def counts(site: Path) -> dict[str, words.Count]:  # noqa: F811
    names = words.reading_path(ROOT)
    return {name: words.words_in_sight((site / f"{name}.html").read_text(encoding="utf-8")) for name in names}


def test_pages_are_short(counts: dict[str, words.Count]) -> None:
    longer = {name: count.words for name, count in counts.items() if count.words > LONGEST_PAGE}
    assert not longer, "fold or merge what is too long"


def test_the_whole_path_is_read_in_an_evening(counts: dict[str, words.Count]) -> None:
    assert sum(count.words for count in counts.values()) <= LONGEST_PATH


@pytest.mark.parametrize("name", ["book/fifteen_minutes", "book/where_and_what/exclusion"])
def test_a_browser_shows_as_many_words(name: str, site: Path, browser: Browser) -> None:  # noqa: F811
    page = browser.new_page()
    page.goto((site / f"{name}.html").as_uri())
    shown = page.evaluate(LAID_OUT, ", ".join(words.BLOCKS))
    page.close()
    counted = words.words_in_sight((site / f"{name}.html").read_text(encoding="utf-8")).words
    assert shown > 500
    assert abs(shown - counted) <= 0.03 * counted

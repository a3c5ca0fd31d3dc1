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

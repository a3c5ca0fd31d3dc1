"""The book as one document: ids and links of its pages, and the link on the front page."""

from __future__ import annotations

import re
from pathlib import Path

import book_pdf
import pytest
from folds import SHOWN, folded
from in_browser import chromium

HEAD = '<link rel="stylesheet" href="{up}_static/book.css" />\n<script src="{up}_static/figure.js" defer></script>'
PAGE = '<head>{head}</head><body><h1>Menu</h1><article class="bd-article">\n<h1>{title}</h1>{text}</article></body>'
FRONT = (
    '<p id="here"><a href="#here">here</a> <a href="part/other.html#there">there</a> <a href="part/other.html">all</a>'
    '<a href="https://example.org/#x">out</a> <a href="elsewhere.html#x">left out</a></p>'
)
OTHER = (
    '<p id="there"><img src="../../_images/a.png"/><a href="../front.html#here">back</a></p>'
    '<figure class="posym-figure"><label for="s">S</label><input id="s"><a href="#s">own</a></figure>'
)
NAMES = ["book/front", "book/part/other"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "book" / "part").mkdir(parents=True)
    for name, up, text in ((NAMES[0], "../", FRONT), (NAMES[1], "../../", OTHER)):
        page = PAGE.format(head=HEAD.format(up=up), title=name, text=text)
        (tmp_path / f"{name}.html").write_text(page, encoding="utf-8")
    return tmp_path


def test_links_lead_to_the_parts_of_the_document(site: Path) -> None:
    text = book_pdf.document(site, NAMES)
    assert re.findall(r'href="([^"]*)"', text) == [
        "_static/book.css",
        "#book-front--here",
        "#book-part-other--there",
        "#book-part-other",
        "https://example.org/#x",
        "book/elsewhere.html",
        "#book-front--here",
        "#s",
    ]
    assert re.findall(r'\sid="([^"]*)"', text) == [
        "book-front", "book-front--here", "book-part-other", "book-part-other--there", "s"
    ]  # fmt: skip
    assert re.findall(r'src="([^"]*)"', text) == ["_static/figure.js", "_images/a.png"]
    assert "Menu" not in text


def test_what_cells_show_folded_is_open(site: Path) -> None:
    folds = [folded("Code", "<pre>a</pre>"), folded("A table", f"{SHOWN}b</div>")]
    page = PAGE.format(head="", title="Front", text="".join(folds))
    (site / "book" / "front.html").write_text(page, encoding="utf-8")
    text = book_pdf.document(site, NAMES[:1])
    assert re.findall(r"<details (.*?)>\s*<summary>(.*?)<", text) == [
        ('class="posym-fold"', "Code"),
        ('open class="posym-fold posym-aside"', "A table"),
    ]


def test_a_page_without_text_is_told(site: Path) -> None:
    (site / "book" / "front.html").write_text("<html></html>", encoding="utf-8")
    with pytest.raises(ValueError, match=r"book/front\.html has no article; build the site with `make book`"):
        book_pdf.document(site, NAMES)


def test_the_front_page_links_the_book_once(site: Path) -> None:
    front = site / "book" / "front.html"
    for _ in range(2):
        book_pdf.link(front)
    text = front.read_text(encoding="utf-8")
    assert text.count(book_pdf.LINK.format(name="book.pdf")) == 1
    assert '<h1>book/front</h1>\n<p class="posym-pdf"><a href="../book.pdf">' in text


def test_chromium_prints_it(site: Path) -> None:
    with chromium() as browser:
        target = book_pdf.print_book(site, NAMES, browser)
    content = target.read_bytes()
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type */Page\b", content)) == 2  # each page of the site begins a new sheet
    assert not (site / "print.html").exists()

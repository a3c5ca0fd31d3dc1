"""The whole book as one PDF: ``make pdf`` prints the built site and links the file from the front page.

All pages but those about single functions follow each other in one document: figures at their start, proofs, solutions
and what cells show folded open, without the code that the pages fold. Chromium prints it; the site must be there.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from closure import ROOT
from playwright.sync_api import Browser, sync_playwright
from words import pages

ARTICLE = re.compile(r'<article class="bd-article">(?P<text>.*?)</article>', re.DOTALL)
STYLE = re.compile(r'<link\b[^>]*rel="stylesheet"[^>]*>')
SCRIPT = re.compile(r'<script src="[^"]*_static/figure\.js[^"]*" defer></script>')
ADDRESS = re.compile(r'(?P<name>\s(?:href|src))="(?P<to>[^"]*)"')
# Figures keep their own ids: their parts name each other.
FIGURE = re.compile(r'(<figure class="posym-figure.*?</figure>)', re.DOTALL)
ID = re.compile(r'(\sid)="(?P<id>[^"]+)"')
LINK = '<p class="posym-pdf"><a href="../{name}">The whole book as a PDF</a></p>'
NAME = "book.pdf"
LEFT_OUT = "book/package/api/"
LONGEST = 300_000  # milliseconds to load all figures
PAPER = """@page { size: A4; margin: 18mm 16mm; }
html { scroll-padding: 0; }
body { background: #fff; font-size: 10.5pt; }
main { max-width: 44rem; margin: 0 auto; }
main > section.posym-page { break-before: page; }
figure, img, tr, .admonition-title, h1, h2, h3 { break-inside: avoid; }
h1, h2, h3 { break-after: avoid; }
.posym-aside .cell_input, .posym-fold:not(.posym-aside),
.headerlink, .posym-keep, .posym-minutes, .posym-pdf, button { display: none; }
.bd-content .pst-scrollable-table-container, .cell_output .output { overflow: visible; max-width: none; }
pre { white-space: pre-wrap; }
"""


def anchor(page: str, part: str = "") -> str:
    """The id, in the document, of a page or of a part of one.

    >>> anchor("book/where_and_what/scores", "the-floor")
    'book-where_and_what-scores--the-floor'
    """
    return page.replace("/", "-") + (f"--{part}" if part else "")


def as_section(name: str, page: str, names: set[str]) -> str:
    """The text of a page as a part of the document, with ids of its own and links that lead to the other parts."""
    found = ARTICLE.search(page)
    if found is None:
        raise ValueError(f"{name}.html has no article; build the site with `make book`")

    def readdressed(match: re.Match[str]) -> str:
        to = urlsplit(match["to"])
        if to.scheme or to.netloc:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), to.path)) if to.path else f"{name}.html"
        if (other := path.removesuffix(".html")) in names:
            return f'{match["name"]}="#{anchor(other, to.fragment)}"'
        return f'{match["name"]}="{path}"'

    parts = FIGURE.split(found["text"])
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = ADDRESS.sub(
                lambda match: match[0] if match["to"].startswith("#") else readdressed(match), part
            )
        else:
            own = ID.sub(lambda match: f'{match[1]}="{anchor(name, match["id"])}"', part)
            parts[place] = ADDRESS.sub(readdressed, own)
    text = "".join(parts).replace(
        '<details class="posym-fold posym-aside">', '<details open class="posym-fold posym-aside">'
    )
    return f'<section class="posym-page" id="{anchor(name)}">{text}</section>'


def document(site: Path, names: list[str]) -> str:
    """The pages of a site as one, with every style sheet that any of them asks for."""
    texts = {name: (site / f"{name}.html").read_text(encoding="utf-8") for name in names}
    heads = dict.fromkeys(
        ADDRESS.sub(lambda match: f'{match["name"]}="{match["to"].lstrip("./")}"', tag)
        for text in texts.values()
        for pattern in (STYLE, SCRIPT)
        for tag in pattern.findall(text)
    )
    links = "\n".join(heads)
    sections = "\n".join(as_section(name, text, set(names)) for name, text in texts.items())
    return (
        '<!DOCTYPE html>\n<html lang="en" data-theme="light" data-mode="light">\n<head>\n<meta charset="utf-8">\n'
        f"<title>Where and What</title>\n{links}\n<style>{PAPER}</style>\n</head>\n"
        f'<body><main class="bd-content bd-article">\n{sections}\n</main></body>\n</html>\n'
    )


def print_book(site: Path, names: list[str], browser: Browser) -> Path:
    """Print the pages of a site to ``book.pdf`` in its folder."""
    combined, target = site / "print.html", site / NAME
    combined.write_text(document(site, names), encoding="utf-8")
    try:
        page = browser.new_page(color_scheme="light", reduced_motion="reduce", viewport={"width": 760, "height": 1000})
        page.goto(combined.as_uri(), timeout=LONGEST)
        page.pdf(path=target, prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
        page.close()
    finally:
        combined.unlink()
    return target


def link(front: Path) -> None:
    """Link the PDF from the front page, once."""
    text, said = front.read_text(encoding="utf-8"), LINK.format(name=NAME)
    if said not in text:
        before, article, rest = text.partition("<article")
        front.write_text(before + article + rest.replace("</h1>", f"</h1>\n{said}", 1), encoding="utf-8")


def main() -> int:
    """Command line: ``python tools/book_pdf.py``."""
    site = ROOT / "_build" / "html"
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not site.is_dir() or chromium is None:
        print("the PDF needs the built site and a Chromium: `make book`, `make browser`", file=sys.stderr)
        return 1
    names = [name for name in pages(ROOT) if not name.startswith(LEFT_OUT)]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        target = print_book(site, names, browser)
        browser.close()
    link(site / f"{names[0]}.html")
    print(f"the book is in {target.relative_to(ROOT)}, {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The last step of a build: pages that are light, and that say who they are to search engines and link previews.

It works on a copy of what Sphinx wrote, so that it always starts from whole pages and whole style sheets.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from definitions import GLOSSARY, add_definitions, list_terms
from folds import fold_cells, merge_folds
from fontTools.subset import Subsetter
from fontTools.ttLib import TTFont
from PIL import Image
from safetensors.numpy import load_file
from scipy.spatial import KDTree
from set_formulas import MATHJAX, set_formulas
from words import reading_path, words_in_sight

from posym_companion.several_hops.hop_figure import list_parcels, write_parcels

# The same style and script stand in every slider figure; on the site they are files, loaded once.
FIGURE_STYLE = re.compile(r'(<figure class="posym-figure">\s*)<style>(?P<text>.*?)</style>\n?', re.DOTALL)
FIGURE_SCRIPT = re.compile(
    r'(<script type="application/json" class="posym-data">[^<]*</script>\s*)<script>(?P<text>.*?)</script>'
    r"\s*(?=</figure>)",
    re.DOTALL,
)
VIEWPORT = re.compile(r'\s*<meta name="viewport"[^>]*>')
# The theme's icons come as a font and, once more, as a script larger than all else on a page.
ICON_SCRIPT = re.compile(r"""\s*<script[^>]*_static/scripts/fontawesome\.js[^>]*></script>""")
# Only the page of search results asks for these: the book does not search while one types.
SEARCH = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>')
# Sphinx writes the arguments of a long signature as a list of definitions that define nothing, within a term.
ARGUMENTS = re.compile(r"<dl>\n(?P<lines>(?:<dd>.*</dd>\n)+)</dl>")
DEFINITION = re.compile("<dd>(.*)</dd>")
# Sphinx wraps each word of code, also where it looks as all other code does; together they weigh more than the words.
CODE_WORD = re.compile(r'<span class="(?:pre|[npw])">([^<]*)</span>')
# What a reference repeats: the full name of what is linked, and a table of all its contents for print.
REPEATED = re.compile(r'(?<=") title="posym_[\w.]+"(?=>)|(?<=<div id="jb-print-toc">).*?</nav>', re.DOTALL)
# The theme's style sheets and icon fonts are made for every site: two thousand icons, and parts that no page here has.
RULE = re.compile(r"(?P<selectors>[^{};]+)\{[^{}]*\}")
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
CLASSES = re.compile(r'\bclass="([^"]*)"')
WORD = re.compile(r"[\w-]+")
# What scripts put together from parts.
COMPOSED = ("posym", "bs-")
ICON = re.compile(r'"(?:\\([ef][0-9a-f]{3})|([\ue000-\uf8ff]))"')
WOFF = re.compile(r'url\([^)]*\.woff2\) format\("woff2"\),')
# docutils calls a bibliography a list, but not its entries items of one.
CITATIONS = '<div role="list" class="citation-list">'
# A cell's tags are classes on its page. Those that say which claim of the ledger the cell shows become anchors.
CELL = re.compile(r'<div class="cell (?P<classes>[^"]*)\bdocutils container">')
SHOWS = re.compile(r"\btag_((?:shows|live)-[a-z0-9-]+)")
# A row of the ledger as a text names it, and as its badge on the ledger's page.
CLAIM = re.compile(r'<a class="posym-claim[^"]*" href="(?P<to>[^"]*(?P<row>#claim-[\w-]+))">.*?</a>')
BADGE = re.compile(r'(<a class="posym-badge [\w-]+" href=")[^"]*(#claim-[\w-]+)(".*?</a>)')
# Pictures have numbers and figures with sliders have none, and folds hide some, so that numbers would seem to jump.
FIGURE_NUMBER = re.compile(r'<span class="caption-number">Fig\. [\d.]+ </span>')
PARAGRAPH = re.compile(r"<article.*?<h1.*?</h1>.*?<p>(?P<text>.*?)</p>", re.DOTALL)
TITLE = re.compile(r"<title>(?P<page>.*?) &#8212; (?P<book>.*?)</title>", re.DOTALL)
DESCRIPTION_LENGTH = 180
# What benchmarks/readme_picture.py draws.
PREVIEW = "heads.gif"
COLOURS = 256


def plain(markup: str) -> str:
    """Return the text of a piece of a page on one line, with formulas almost as their author wrote them."""
    text = html.unescape(re.sub(r"<[^>]+>", "", markup))
    return re.sub(r"\s+", " ", re.sub(r"\\(?:[()\[\]]|mathrm|text\w*)|[{}]", "", text)).strip()


def find_opening(page: str) -> str:
    """Return what a page is about: its first paragraph without formulas, or its first words and an ellipsis."""
    paragraph = PARAGRAPH.search(re.sub(r"<nav.*?</nav>", "", page, flags=re.DOTALL))
    text = plain(paragraph["text"]) if paragraph else ""
    if len(text) <= DESCRIPTION_LENGTH:
        return text
    return text[:DESCRIPTION_LENGTH].rsplit(" ", 1)[0].rstrip(",;:.") + "…"


def describe_page(page: str, name: str, site: str, citation: Mapping[str, Any]) -> str:
    """Say in a page what it is about and where it stands, to search engines, link previews and citation managers.

    Args:
        page: with a title.
        name: of its file, from the top of the site.
        site: the address of the site, with a slash at its end.
        citation: what ``CITATION.cff`` says, which chapters tell citation managers.
    """
    for repeated in VIEWPORT.findall(page)[1:]:
        page = page.replace(repeated, "", 1)
    if not (title := TITLE.search(page)):
        return page
    about, address = html.escape(find_opening(page)), site + name
    properties = {"title": title["page"], "site_name": title["book"], "description": about, "url": address}
    properties = {"type": "article", **properties, "image": f"{site}_static/{PREVIEW}"}
    lines = [f'<link rel="canonical" href="{address}"/>']
    lines += [f'<meta name="description" content="{about}"/>'] * bool(about)
    lines += [f'<meta property="og:{key}" content="{text}"/>' for key, text in properties.items() if text]
    if name.startswith("book/"):
        authors = [who.get("name") or f"{who['family-names']}, {who['given-names']}" for who in citation["authors"]]
        tags = [("title", title["page"]), ("inbook_title", title["book"])]
        tags += [("author", html.escape(author)) for author in authors]
        tags += [("publication_date", f"{citation['date-released']:%Y/%m/%d}"), ("language", "en")]
        tags += [("fulltext_html_url", address)]
        lines += [f'<meta name="citation_{key}" content="{text}"/>' for key, text in tags]
    return page.replace("</title>", "</title>\n    " + "\n    ".join(lines), 1)


def mend_lists(page: str) -> str:
    """Return the page without lists that have no items: arguments of a signature are lines, a bibliography is none."""
    page = page.replace(CITATIONS, '<div class="citation-list">')
    lines = r'<span class="sig-lines">\n\g<lines></span>'
    return ARGUMENTS.sub(lambda found: DEFINITION.sub(r'<span class="sig-line">\1</span>', found.expand(lines)), page)


def anchors(page: str) -> str:
    """Return a page with an anchor at every cell that is tagged with a claim: ``shows-u25-7``, or ``live-u25-7``."""
    return CELL.sub(
        lambda cell: cell[0] + "".join(f'<span id="{name}"></span>' for name in SHOWS.findall(cell["classes"])), page
    )


def edit_pages(site: Path, change: Callable[[str, str], str]) -> None:
    """Write pages of a site anew where ``change``, of a page and its name from the top of the site, gives another."""
    for path in sorted(site.rglob("*.html")):
        page = path.read_text(encoding="utf-8")
        if (new := change(page, path.relative_to(site).as_posix())) != page:
            path.write_text(new, encoding="utf-8")


def read_page(site: Path, name: str) -> str:
    """Return a page of a site, or nothing where there is none."""
    return path.read_text(encoding="utf-8") if (path := site / name).is_file() else ""


def fill_badges(site: Path) -> None:
    """Write the badge of a row, as the ledger's page has it, wherever a text names the row."""
    ledger = read_page(site, "book/reference/ledger.html")
    badges = {row: (start, end) for start, row, end in BADGE.findall(ledger)}

    def filled(found: re.Match[str]) -> str:
        if found["row"] not in badges:
            raise ValueError(f"the ledger's page has no badge for {found['row']}; add one to its table of all rows")
        return f'<span class="posym-badges margin">{found["to"].join(badges[found["row"]])}</span>'

    edit_pages(site, lambda page, _: CLAIM.sub(filled, page))


def drop_rules(site: Path) -> None:
    """Leave out of style sheets the rules for classes that no page and no script names, and of icon fonts what is left.

    A selector stays if all of its classes are named; those within ``:not()`` and the like are not looked at.
    """
    named: set[str] = set()
    for page in site.rglob("*.html"):
        named.update(*map(str.split, CLASSES.findall(page.read_text(encoding="utf-8"))))
    for script in site.rglob("*.js"):
        named.update(WORD.findall(script.read_text(encoding="utf-8")))

    def used(selector: str) -> bool:
        while (plainer := re.sub(r"\([^()]*\)", "", selector)) != selector:
            selector = plainer
        return all(name in named or name.startswith(COMPOSED) for name in CLASS.findall(selector))

    def kept(rule: re.Match[str]) -> str:
        selectors = re.split(r",(?![^(]*\))", rule["selectors"])
        left = ",".join(filter(used, selectors))
        return left + rule[0][len(rule["selectors"]) :] if left else ""

    icons: set[int] = set()
    for sheet in site.rglob("*.css"):
        text = WOFF.sub(
            "", RULE.sub(kept, re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL))
        )
        icons.update(int(code, 16) if code else ord(letter) for code, letter in ICON.findall(text))
        sheet.write_text(text, encoding="utf-8")
    for path in site.rglob("fa-*.ttf"):
        path.with_suffix(".woff2").unlink()  # which the library that makes fonts small can neither read nor write
        with TTFont(path) as font:
            smaller = Subsetter()
            smaller.populate(unicodes=icons)
            smaller.subset(font)
            font.save(path)


def share_figure_files(site: Path) -> None:
    """Write the style and the script of the slider figures to files, and let the pages load them."""
    texts = dict[str, str]()

    def share(page: str, name: str) -> str:
        up = "../" * name.count("/")
        for pattern, file, link in (
            (FIGURE_STYLE, "figure.css", f'<link rel="stylesheet" href="{up}_static/figure.css" />'),
            (FIGURE_SCRIPT, "figure.js", f'<script src="{up}_static/figure.js" defer></script>'),
        ):
            for figure in pattern.finditer(page):
                if texts.setdefault(file, figure["text"]) != figure["text"]:
                    raise ValueError(f"{name} holds another {file} than its neighbours; execute the chapters anew")
            page, count = pattern.subn(r"\1", page)
            page = page.replace("</head>", f"  {link}\n  </head>", 1) if count else page
        return page

    edit_pages(site, share)
    (site / "_static").mkdir(exist_ok=True)
    for file, text in texts.items():
        (site / "_static" / file).write_text(text, encoding="utf-8")


def carry_style(site: Path) -> None:
    """Let the script of the slider figures carry their style, for copies that readers save."""
    style, script = (site / "_static" / f"figure.{ending}" for ending in ("css", "js"))
    if script.exists():
        carried = json.dumps(style.read_text(encoding="utf-8"), ensure_ascii=False)
        text = f"document.currentScript.dataset.style = {carried};\n{script.read_text(encoding='utf-8')}"
        script.write_text(text, encoding="utf-8")


def say_minutes(site: Path, root: Path) -> None:
    """Write under the title of each chapter how long its text takes to read; the two pages before them are short."""
    chapters = {f"{name}.html" for name, source in reading_path(root).items() if source.parent != root / "book"}

    def add_line(page: str, name: str) -> str:
        if name not in chapters:
            return page
        minutes = words_in_sight(page).minutes
        line = f'<p class="posym-minutes">{minutes} minute{"s" if minutes > 1 else ""} to read</p>'
        before, article, text = page.partition("<article")
        return before + article + text.replace("</h1>", f"</h1>\n{line}", 1)

    edit_pages(site, add_line)


def pack_models(site: Path, results: Path) -> None:
    """Write the weights that pages load on a click to where these pages look for them."""
    for page in sorted(site.rglob("*.html")):
        for name, source, address in list_parcels(page.read_text(encoding="utf-8")):
            folder = (page.parent / address).resolve()
            if not (folder / name).is_dir():
                write_parcels(name, load_file(results / f"{source}.safetensors"), folder)


def few_colours(picture: Image.Image) -> Image.Image:
    """Give a picture a palette: every colour, however transparent, becomes the nearest of 256 of the picture's own."""
    pixels = np.asarray(picture.convert("RGBA")).view(np.uint32)[..., 0]
    packed, counts = np.unique(pixels, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    if len(order) > COLOURS:
        # The most frequent colours, which areas have, and as many of the others, which edges and shades have.
        others = np.linspace(COLOURS // 2, len(order) - 1, COLOURS - COLOURS // 2).astype(int)
        order = np.append(order[: COLOURS // 2], order[others])
    colours = packed.view(np.uint8).reshape(-1, 4)
    _, nearest = KDTree(colours[order]).query(colours)
    few = Image.fromarray(nearest.astype(np.uint8)[np.searchsorted(packed, pixels)], "P")
    few.putpalette(colours[order].tobytes(), "RGBA")
    return few


def pack_pictures(site: Path) -> None:
    """Store pictures with as many colours as an eye can tell apart in them, which takes a third of the bytes."""
    for path in site.glob("_images/*.png"):
        with Image.open(path) as picture:
            few = few_colours(picture)
        few.save(path, optimize=True)


def site_address(repository: str) -> str:
    """Return where the pages of a repository on GitHub stand."""
    owner, name = repository.rstrip("/").split("/")[-2:]
    return f"https://{owner}.github.io/{name}/"


def finish(site: Path, root: Path) -> None:
    """Finish the site that Sphinx wrote to ``site`` for the project at ``root``."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    address = site_address(settings["repository"]["url"])
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    for left_over in (*site.glob("_static/scripts/fontawesome.js*"), *site.glob("_static/*webpack-macros.html")):
        left_over.unlink()

    def lighten(page: str, name: str) -> str:
        page = ICON_SCRIPT.sub("", page if name.endswith("search.html") else SEARCH.sub("", page))
        page = FIGURE_NUMBER.sub("", anchors(mend_lists(describe_page(page, name, address, citation))))
        page = CODE_WORD.sub(r"\1", CODE_WORD.sub(r"\1", page))  # one in another
        return REPEATED.sub("", page) if "api" in name.split("/")[-2:-1] else page

    edit_pages(site, lighten)
    fill_badges(site)
    share_figure_files(site)
    edit_pages(site, lambda page, _: merge_folds(fold_cells(page)))
    say_minutes(site, root)
    pack_models(site, root / "results")
    terms = list_terms(read_page(site, GLOSSARY), plain)
    edit_pages(site, lambda page, name: add_definitions(page, name, terms))
    set_formulas(site, MATHJAX)
    drop_rules(site)
    carry_style(site)
    pack_pictures(site)
    missing = Path(__file__).with_name("404.html").read_text(encoding="utf-8")
    (site / "404.html").write_text(missing.format(title=settings["title"], address=address), encoding="utf-8")

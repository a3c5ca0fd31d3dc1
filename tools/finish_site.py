"""The last step of a build: what pages share stands in files, badges are filled in, and terms show what they mean."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import yaml
from definitions import GLOSSARY, add_definitions, list_terms
from safetensors.numpy import load_file

from posym_companion.several_hops.hop_figure import list_parcels, write_parcels

# The same style and script stand in every slider figure; on the site they are files, loaded once.
FIGURE_STYLE = re.compile(r'(<figure class="posym-figure">\s*)<style>(?P<text>.*?)</style>\n?', re.DOTALL)
FIGURE_SCRIPT = re.compile(
    r'(<script type="application/json" class="posym-data">[^<]*</script>\s*)<script>(?P<text>.*?)</script>'
    r"\s*(?=</figure>)",
    re.DOTALL,
)
# The theme's icons come as a font and, once more, as a script larger than all else on a page.
ICON_SCRIPT = re.compile(r"""\s*<script[^>]*_static/scripts/fontawesome\.js[^>]*></script>""")
# Only the page of search results asks for these: the book does not search while one types.
SEARCH = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>')
# Sphinx writes the arguments of a long signature as a list of definitions that define nothing, within a term, and
# docutils calls a bibliography a list, but not its entries items of one.
ARGUMENTS = re.compile(r"<dl>\n(?P<lines>(?:<dd>.*</dd>\n)+)</dl>")
DEFINITION = re.compile("<dd>(.*)</dd>")
CITATIONS = '<div role="list" class="citation-list">'
# A cell's tags are classes on its page. Those that say which claim of the ledger the cell shows become anchors.
CELL = re.compile(r'<div class="cell (?P<classes>[^"]*)\bdocutils container">')
SHOWS = re.compile(r"\btag_((?:shows|live)-[a-z0-9-]+)")
# A row of the ledger as a text names it, and as its badge on the ledger's page.
CLAIM = re.compile(r'<a class="posym-claim[^"]*" href="(?P<to>[^"]*(?P<row>#claim-[\w-]+))">.*?</a>')
BADGE = re.compile(r'(<a class="posym-badge [\w-]+" href=")[^"]*(#claim-[\w-]+)(".*?</a>)')


def plain(markup: str) -> str:
    """Return the text of a piece of a page on one line, with formulas almost as their author wrote them."""
    text = html.unescape(re.sub(r"<[^>]+>", "", markup))
    return re.sub(r"\s+", " ", re.sub(r"\\(?:[()\[\]]|mathrm|text\w*)|[{}]", "", text)).strip()


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
    """Write pages of a site where ``change``, of a page and its name from the top of the site, gives another."""
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


def share_figure_files(site: Path) -> None:
    """Write the style and the script of the slider figures to files, and let the pages load them.

    The script carries the style, too, for copies of figures that readers save.
    """
    texts = dict[str, str]()

    def share(page: str, name: str) -> str:
        up = "../" * name.count("/")
        for pattern, file, link in (
            (FIGURE_STYLE, "figure.css", f'<link rel="stylesheet" href="{up}_static/figure.css" />'),
            (FIGURE_SCRIPT, "figure.js", f'<script src="{up}_static/figure.js" defer></script>'),
        ):
            for figure in pattern.finditer(page):
                if texts.setdefault(file, figure["text"]) != figure["text"]:
                    raise ValueError(f"{name} holds another {file} than its neighbours; execute the chapters again")
            page, count = pattern.subn(r"\1", page)
            page = page.replace("</head>", f"  {link}\n  </head>", 1) if count else page
        return page

    edit_pages(site, share)
    if texts:
        style = json.dumps(texts["figure.css"], ensure_ascii=False)
        texts["figure.js"] = f"document.currentScript.dataset.style = {style};\n{texts['figure.js']}"
    for file, text in texts.items():
        (site / "_static" / file).write_text(text, encoding="utf-8")


def pack_models(site: Path, results: Path) -> None:
    """Write the weights that pages load on a click to where these pages look for them."""
    for page in sorted(site.rglob("*.html")):
        for name, source, address in list_parcels(page.read_text(encoding="utf-8")):
            folder = (page.parent / address).resolve()
            if not (folder / name).is_dir():
                write_parcels(name, load_file(results / f"{source}.safetensors"), folder)


def site_address(repository: str) -> str:
    """Return where the pages of a repository on GitHub stand."""
    owner, name = repository.rstrip("/").split("/")[-2:]
    return f"https://{owner}.github.io/{name}/"


def finish(site: Path, root: Path) -> None:
    """Finish the site that Sphinx wrote to ``site`` for the project at ``root``."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    left_overs = ("scripts/*.js.map", "scripts/fontawesome.js*", "*webpack-macros.html")
    for left_over in {path for name in left_overs for path in site.glob(f"_static/{name}")}:
        left_over.unlink()

    def lighten(page: str, name: str) -> str:
        page = ICON_SCRIPT.sub("", page if name.endswith("search.html") else SEARCH.sub("", page))
        return anchors(mend_lists(page))

    edit_pages(site, lighten)
    fill_badges(site)
    share_figure_files(site)
    pack_models(site, root / "results")
    terms = list_terms(read_page(site, GLOSSARY), plain)
    edit_pages(site, lambda page, name: add_definitions(page, name, terms))
    missing = Path(__file__).with_name("404.html").read_text(encoding="utf-8")
    address = site_address(settings["repository"]["url"])
    (site / "404.html").write_text(missing.format(title=settings["title"], address=address), encoding="utf-8")

"""The last step of a build: what pages share stands in files, terms show what they mean, and old addresses lead on."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import yaml
from definitions import GLOSSARY, add_definitions, list_terms
from moved import write_moved
from safetensors.numpy import load_file

from posym_companion.several_hops.hop_figure import list_parcels, write_parcels

# The same style and script stand in every slider figure; on the site they are files, loaded once.
SHARED = {
    "figure.css": re.compile(r'(<figure class="posym-figure">\s*)<style>(?P<text>.*?)</style>\n?', re.DOTALL),
    "figure.js": re.compile(
        r'(<script type="application/json" class="posym-data">[^<]*</script>\s*)<script>(?P<text>.*?)</script>'
        r"\s*(?=</figure>)",
        re.DOTALL,
    ),
}
LINKS = {"figure.css": '<link rel="stylesheet" href="{}" />', "figure.js": '<script src="{}" defer></script>'}
# The theme's icons come as a font and, once more, as a script larger than all else on a page.
ICON_SCRIPT = re.compile(r"""\s*<script[^>]*_static/scripts/fontawesome\.js[^>]*></script>""")
# Only the page of search results asks for these: the book does not search while one types.
SEARCH = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>')
# docutils calls a bibliography a list, but not its entries items of one.
CITATIONS = '<div role="list" class="citation-list">'
LEFT_OVERS = ("scripts/*.js.map", "scripts/fontawesome.js*", "*webpack-macros.html")
# A cell's tags are classes on its page. Those that say which claim of the ledger the cell shows become anchors.
CELL = re.compile(r'<div class="cell (?P<classes>[^"]*)\bdocutils container">')
SHOWS = re.compile(r"\btag_((?:shows|live)-[a-z0-9-]+)")


def plain(markup: str) -> str:
    """Return the text of a piece of a page on one line, with formulas almost as their author wrote them."""
    text = html.unescape(re.sub(r"<[^>]+>", "", markup))
    return re.sub(r"\s+", " ", re.sub(r"\\(?:[()\[\]]|mathrm|text\w*)|[{}]", "", text)).strip()


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


def share_figure_files(site: Path) -> None:
    """Write the style and the script of the slider figures to files, and let the pages load them.

    The script carries the style, too, for copies of figures that readers save.
    """
    texts = dict[str, str]()

    def share(page: str, name: str) -> str:
        for file, pattern in SHARED.items():
            if found := pattern.search(page):
                texts[file] = found["text"]
                link = LINKS[file].format("../" * name.count("/") + f"_static/{file}")
                page = pattern.sub(r"\1", page).replace("</head>", f"  {link}\n  </head>", 1)
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
    for left_over in {path for name in LEFT_OVERS for path in site.glob(f"_static/{name}")}:
        left_over.unlink()
    terms = list_terms((site / GLOSSARY).read_text(encoding="utf-8"), plain) if (site / GLOSSARY).is_file() else {}

    def finished(page: str, name: str) -> str:
        page = ICON_SCRIPT.sub("", page if name.endswith("search.html") else SEARCH.sub("", page))
        page = page.replace(CITATIONS, '<div class="citation-list">')
        page = page.replace("fab fa-github", "fas fa-code-branch")  # or each page loads a font for this one picture
        return add_definitions(anchors(page), name, terms)

    share_figure_files(site)
    edit_pages(site, finished)
    pack_models(site, root / "results")
    write_moved(site)
    missing = Path(__file__).with_name("404.html").read_text(encoding="utf-8")
    address = site_address(settings["repository"]["url"])
    (site / "404.html").write_text(missing.format(title=settings["title"], address=address), encoding="utf-8")

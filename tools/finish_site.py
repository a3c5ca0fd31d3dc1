"""The last step of a build: what pages share or load late stands in files, and old addresses lead on."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

import yaml
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
# Most of the theme's style sheet is names of icons that no page shows; most of a page's code is colours that are none.
ICON = re.compile(r"\bfa-[\w-]+")
ICONS = re.compile(r'(?:\.fa-[\w-]+:before,?)+\{content:"[^"]*"\}')
COLOURLESS = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
# What an explorer shows is most of its page: a file beside it, which the page asks for when a reader comes near.
EXPLORER = re.compile(r'(<script type="application/json" class="posym-explorer-data")>([^<]+)</script>')
# The head explorer keeps a reader's view behind the #, so that an anchor is handed on where there is one.
MOVED_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Moved</title><meta name="robots" content="noindex">
<script>location.replace(location.hash ? "{page}" + location.hash : "{to}")</script></head>
<body><p>This page has moved: <a href="{to}">go on</a>.</p></body></html>
"""
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)


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


def set_explorers_aside(page: str, path: Path) -> str:
    """Return a page without the data of its explorers, which are written to files beside the page."""

    def set_aside(found: re.Match[str]) -> str:
        name = f"{path.stem}-{found.start()}.js"
        text = f"document.querySelector('[data-from=\"{name}\"]').textContent = {json.dumps(found[2])};\n"
        path.with_name(name).write_text(text, encoding="utf-8")
        return f'{found[1]} data-from="{name}"></script>'

    return EXPLORER.sub(set_aside, page)


def drop_icons(site: Path) -> None:
    """Take the icons that no page and no script names out of the theme's style sheet."""
    files = (*site.rglob("*.html"), *site.glob("_static/scripts/*.js"))
    named = {name for file in files for name in ICON.findall(file.read_text(encoding="utf-8"))}
    for style in site.glob("_static/styles/pydata*.css"):
        kept = ICONS.sub(lambda icon: icon[0] if named & {*ICON.findall(icon[0])} else "", style.read_text("utf-8"))
        style.write_text(kept, encoding="utf-8")


def pack_models(site: Path, results: Path) -> None:
    """Write the weights that pages load on a click to where these pages look for them."""
    for page in sorted(site.rglob("*.html")):
        for name, source, address in list_parcels(page.read_text(encoding="utf-8")):
            folder = (page.parent / address).resolve()
            if not (folder / name).is_dir():
                write_parcels(name, load_file(results / f"{source}.safetensors"), folder)


def write_moved(site: Path, moved: dict[str, str]) -> None:
    """Write a page that leads on to each address at which one stood in an earlier edition."""
    for old, new in moved.items():
        to = posixpath.relpath(new, posixpath.dirname(old))
        (site / old).parent.mkdir(parents=True, exist_ok=True)
        (site / old).write_text(MOVED_PAGE.format(to=to, page=to.partition("#")[0]), encoding="utf-8")


def site_address(repository: str) -> str:
    """Return where the pages of a repository on GitHub stand."""
    owner, name = repository.rstrip("/").split("/")[-2:]
    return f"https://{owner}.github.io/{name}/"


def finish(site: Path, root: Path) -> None:
    """Finish the site that Sphinx wrote to ``site`` for the project at ``root``."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    for left_over in {path for name in LEFT_OVERS for path in site.glob(f"_static/{name}")}:
        left_over.unlink()

    def finished(page: str, name: str) -> str:
        for style in set(STYLE.findall(page)):  # that of the second figure of a kind is that of the first
            first, _, rest = page.partition(style)
            page = first + style + rest.replace(style, "")
        page = ICON_SCRIPT.sub("", page if name.endswith("search.html") else SEARCH.sub("", page))
        page = COLOURLESS.sub(r"\1", page.replace(CITATIONS, '<div class="citation-list">'))
        page = page.replace("fab fa-github", "fas fa-code-branch")  # or each page loads a font for this one picture
        return set_explorers_aside(page, site / name)

    share_figure_files(site)
    edit_pages(site, finished)
    drop_icons(site)
    pack_models(site, root / "results")
    write_moved(site, settings["sphinx"]["config"]["html_context"]["moved"])

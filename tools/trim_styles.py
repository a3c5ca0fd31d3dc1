"""Leave out of style sheets what no page of the site can use, and out of icon fonts the icons that none shows.

A rule goes when its selector asks for a class that stands neither in a page nor, as a word, in any script: a script may
give an element any class that it names, also one whose end it fills in, as in ``posym-c${colour}``. Everything else
stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import tinycss2

CLASS = re.compile(r"\.(-?(?:[A-Za-z_]|\\.)(?:[\w-]|\\.)*)")
# The beginning of a name that a script completes; without a hyphen it may be the beginning of anything.
BEGUN = re.compile(r"([A-Za-z_][\w-]*-[\w-]*)\$\{")
GROUPS = ("media", "supports", "layer", "container")
FONT_SOURCE = re.compile(
    r'src:\s*url\("?(?P<path>[^)]*?/(?P<name>fa-[\w-]+))\.woff2"?\) format\("woff2"\),\s*url\([^)]*\.ttf"?\)[^;}]*'
)
# Icons stand in sheets as escapes or, where a variable holds them, as letters.
ICON = re.compile(r"\\([ef][0-9a-f]{3})\b|([\ue000-\uf8ff])", re.IGNORECASE)


def words(site: Path) -> set[str]:
    """Every name that an element of the site may have as its class, now or after a script has run."""
    found: set[str] = set()
    scripts = [path.read_text(encoding="utf-8") for path in site.rglob("*.js") if path.name != "searchindex.js"]
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for names in re.findall(r"""\bclass=(?:"([^"]*)"|'([^']*)')""", text):
            found.update(" ".join(names).split())
        scripts += re.findall(r"<script(?![^>]*application/json)[^>]*>(.+?)</script>", text, re.DOTALL)
    begun = tuple({name for script in scripts for name in BEGUN.findall(script)})
    for script in scripts:
        found.update(re.findall(r"[\w-]+", script))
    for sheet in site.rglob("*.css"):
        found.update(name for name in CLASS.findall(sheet.read_text(encoding="utf-8")) if name.startswith(begun))
    return found


def trim(sheet: str, known: set[str]) -> str:
    """A style sheet without comments and without the rules that ask for a class which is not ``known``.

    >>> trim(".used, .lost { top: 0 } /* gone */ @media print { .lost { top: 0 } }", {"used"})
    '.used{top: 0}'

    Raises:
        ValueError: if a rule cannot be read.
    """
    return "".join(_rules(tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True), known))


def _rules(rules: Iterable[Any], known: set[str]) -> Iterator[str]:
    for rule in rules:
        if rule.type == "error":
            raise ValueError(f"line {rule.source_line} of a style sheet cannot be read: {rule.message}")
        if rule.type == "at-rule" and rule.content is not None and rule.lower_at_keyword in GROUPS:
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            if kept := "".join(_rules(inner, known)):
                yield f"@{rule.at_keyword} {_text(rule.prelude)}{{{kept}}}"
        elif rule.type == "at-rule":
            yield rule.serialize()
        else:
            selectors = [_text(selector) for selector in _selectors(rule.prelude) if _may_match(selector, known)]
            if selectors and (body := _text(rule.content)):
                yield f"{','.join(selectors)}{{{body}}}"


def _text(tokens: list[Any]) -> str:
    return tinycss2.serialize([token for token in tokens if token.type != "comment"]).strip()


def _selectors(tokens: list[Any]) -> Iterator[list[Any]]:
    selector: list[Any] = []
    for token in tokens:
        if token == ",":
            yield selector
            selector = []
        else:
            selector.append(token)
    yield selector


def _may_match(selector: list[Any], known: set[str]) -> bool:
    """What stands in brackets, alternatives and negations, is no demand."""
    return all(name.value in known for dot, name in pairwise(selector) if dot == "." and name.type == "ident")


def trim_styles(site: Path) -> None:
    """Trim the style sheets and the icon fonts of a finished site."""
    known = words(site)
    sheets = {path: trim(path.read_text(encoding="utf-8"), known) for path in site.rglob("*.css")}
    icons = {chr(int(code, 16)) if code else letter for text in sheets.values() for code, letter in ICON.findall(text)}
    for path, sheet in sheets.items():
        folders = {(path.parent / found["path"]).parent for found in FONT_SOURCE.finditer(sheet)}
        sheet = FONT_SOURCE.sub(r'src:url(\g<path>.woff) format("woff")', sheet)
        for folder in folders:
            trim_fonts(folder, icons)
        path.write_text(sheet, encoding="utf-8")


def trim_fonts(folder: Path, letters: set[str]) -> None:
    """Replace the icon fonts of a folder by fonts with the given letters only, in the form that needs no brotli."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    for path in sorted(folder.glob("fa-*.ttf")):
        font = TTFont(path)
        options = subset.Options(flavor="woff", layout_features=[], notdef_outline=True, hinting=False)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=[ord(letter) for letter in letters])
        subsetter.subset(font)
        subset.save_font(font, str(path.with_suffix(".woff")), options)
    for path in [*folder.glob("fa-*.ttf"), *folder.glob("fa-*.woff2")]:
        path.unlink()

"""Leave out of style sheets what no page of the site can use, and out of icon fonts the icons that none shows.

A rule goes when its selector asks for a class that stands neither in a page nor, as a word, in any script: a script may
give an element any class that it names, also one whose end it fills in, as in ``posym-c${colour}``. Everything else
stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TOKEN = re.compile(
    r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|url\([^)"']*\)|[{};]|\\.|[^{};"'/\\u]+|.""", re.DOTALL
)
CLASS = re.compile(r"\.(-?(?:[A-Za-z_]|\\.)(?:[\w-]|\\.)*)")
# What is asked for elsewhere than here: alternatives and negations are no demands.
LOOSE = re.compile(r""":(?:not|is|where|has|matches|-webkit-any)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\[[^\]]*\]""")
# The beginning of a name that a script completes; without a hyphen it may be the beginning of anything.
BEGUN = re.compile(r"([A-Za-z_][\w-]*-[\w-]*)\$\{")
GROUPS = ("@media", "@supports", "@layer", "@container")
FONT_SOURCE = re.compile(
    r'src:url\((?P<path>[^)]*?/(?P<name>fa-[\w-]+))\.woff2\) format\("woff2"\),url\([^)]*\.ttf\)[^;}]*'
)
ICON = re.compile(r"\\([ef][0-9a-f]{3})\b", re.IGNORECASE)


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
    """
    return "".join(_rules(_statements(sheet), known))


def _statements(sheet: str) -> Iterator[tuple[str, str | None]]:
    """The prelude and the body of each statement of a sheet; a statement without a block has no body."""
    head: list[str] = []
    body: list[str] = []
    depth = 0
    for match in TOKEN.finditer(sheet):
        token = match[0]
        if token.startswith("/*"):
            continue
        if token == "}":
            depth -= 1
            if depth == 0:
                yield "".join(head).strip(), "".join(body).strip()
                head, body = [], []
                continue
            if depth < 0:
                raise ValueError("a style sheet closes more blocks than it opens")
        if token == ";" and depth == 0:
            yield "".join(head).strip(), None
            head = []
        elif token == "{" and depth == 0:
            depth = 1
        else:
            depth += token == "{"
            (body if depth else head).append(token)
    if depth or "".join(head).strip():
        raise ValueError("a style sheet ends within a rule")


def _rules(statements: Iterator[tuple[str, str | None]], known: set[str]) -> Iterator[str]:
    for head, body in statements:
        if body is None:
            yield f"{head};"
        elif head.startswith(GROUPS):
            inner = "".join(_rules(_statements(body), known))
            if inner:
                yield f"{head}{{{inner}}}"
        elif head.startswith("@"):
            yield f"{head}{{{body}}}"
        else:
            kept = ",".join(selector for selector in _selectors(head) if _may_match(selector, known))
            if kept and body:
                yield f"{kept}{{{body}}}"


def _selectors(head: str) -> Iterator[str]:
    depth, start = 0, 0
    for place, letter in enumerate(head):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield head[start:place].strip()
            start = place + 1
    yield head[start:].strip()


def _may_match(selector: str, known: set[str]) -> bool:
    return all(re.sub(r"\\(.)", r"\1", name) in known for name in CLASS.findall(LOOSE.sub("", selector)))


def trim_styles(site: Path) -> None:
    """Trim the style sheets and the icon fonts of a finished site."""
    known = words(site)
    sheets = {path: trim(path.read_text(encoding="utf-8"), known) for path in site.rglob("*.css")}
    icons = {chr(int(code, 16)) for sheet in sheets.values() for code in ICON.findall(sheet)}
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

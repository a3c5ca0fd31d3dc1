"""What a term, a citation or a badge means, where it stands: a late step of a build writes it beside the links.

The glossary and the bibliography are the site's own pages, so a definition is written once. In every page the first
mention of each term in a paragraph becomes a link to its entry; a small script (``book/_static/definitions.js``) shows
what such a link says on hover, focus and tap.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Callable

from posym_figures import write_plain_maths

ENTRY = re.compile(
    r'<dt id="(?P<anchor>term-[^"]+)">(?P<term>.*?)<a class="headerlink".*?</dt>\s*<dd>(?P<text>.*?)</dd>', re.DOTALL
)
# Links of which the site shows the title on focus and tap, too: citations, and badges of the ledger's rows.
TITLED = re.compile(r'(<a class="(?:reference internal" href="[^"]*#id\d+|posym-badge [\w-]+" href="[^"]*)" )title="')
PARAGRAPH = re.compile(r"<p>.*?</p>", re.DOTALL)
# Names of tasks: written small they are other words.
PROPER = {"Index", "Retrieval"}
# Links, code and formulas, in which no term is looked for, then tags, then text.
PIECE = re.compile(r'<(a|code|kbd)\b.*?</\1>|<span class="math\b.*?</span>|<[^>]+>|(?P<text>[^<]+)', re.DOTALL)
GLOSSARY = "book/reference/glossary.html"


def list_terms(glossary: str, plain: Callable[[str], str]) -> dict[str, tuple[str, str]]:
    """Return the names of the glossary's terms, longest first, with the anchor and the text of each."""
    found = {}
    for entry in ENTRY.finditer(glossary):
        text = re.sub(r"\\(?:mathrm|text\w*|operatorname)\b", "", entry["text"])
        said = (entry["anchor"], plain(write_plain_maths(text)))
        names = plain(re.sub(r'<span class="math.*?</span>', "", entry["term"], flags=re.DOTALL)).split(",")
        found |= {name.strip(): said for name in names if name.strip()}
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def pattern_of(name: str) -> str:
    """Return what finds a term at the beginning of a sentence or within one, or several of it.

    >>> bool(re.search(pattern_of("Pure head"), "two pure heads")), bool(re.search(pattern_of("Index"), "an index"))
    (True, False)
    """
    first = name[0] if name in PROPER or not name[0].isalpha() else f"[{name[0].upper()}{name[0].lower()}]"
    return rf"(?<![\w-]){first}{re.escape(name[1:])}(?:e?s)?(?![\w-])"


def mark(page: str, terms: dict[str, tuple[str, str]], address: str) -> str:
    """Return a page with the first mention of each term in it as a link to the glossary at ``address``.

    >>> mark("<p>Two <em>blocks</em>, one block.</p>", {"Block": ("term-Block", "A stretch.")}, "g.html")
    '<p>Two <em><a class="posym-term" href="g.html#term-Block" data-said="A stretch.">blocks</a></em>, one block.</p>'
    """
    entries, seen = list(terms.values()), set[str]()
    any_term = re.compile("|".join(f"(?P<term{at}>{pattern_of(name)})" for at, name in enumerate(terms)) or "(?!)")

    def link(found: re.Match[str]) -> str:
        anchor, said = entries[int(str(found.lastgroup).removeprefix("term"))]
        if anchor in seen:
            return found[0]
        seen.add(anchor)
        return f'<a class="posym-term" href="{address}#{anchor}" data-said="{html.escape(said)}">{found[0]}</a>'

    def marked(paragraph: re.Match[str]) -> str:
        return PIECE.sub(lambda piece: any_term.sub(link, piece[0]) if piece["text"] else piece[0], paragraph[0])

    return PARAGRAPH.sub(marked, page)


def add_definitions(page: str, name: str, terms: dict[str, tuple[str, str]]) -> str:
    """Return the page of this name with definitions beside terms and citations, and with the script if it has any."""
    start, end = page.find("<article"), page.find("</article>")
    article = TITLED.sub(r'\1data-said="', page[start:end])
    if not {"reference", "api"} & set(name.split("/")):
        article = mark(article, terms, posixpath.relpath(GLOSSARY, posixpath.dirname(name)))
    if start < 0 or "data-said=" not in article:
        return page
    script = f'  <script src="{"../" * name.count("/")}_static/definitions.js" defer></script>\n  </head>'
    return (page[:start] + article + page[end:]).replace("</head>", script, 1)

"""One fold a section: its proofs, the code of its figures and tables, and where their numbers come from.

Sphinx puts a bar above every cell whose code is hidden. Here the cells between two pieces of text first share one fold,
under what they show. A cell that shows nothing has no fold of its own: its code joins the next one. The sentences in
which stored results describe themselves, with hashes, leave the text that a cell displays for a fold, too. Then all
folds of a section become parts of one at its end. Solutions, and folds with the class ``stay``, stay where they are.
"""

from __future__ import annotations

import ast
import html
import re
from itertools import count, pairwise

CELL = re.compile(r'<div class="cell [^"]*docutils container">')
ONE_FOLD = "Proofs and code"
HEADING = re.compile(r"<section[^>]*>\s*(?:<span[^>]*></span>\s*)*<h[23]")
END_OF_SECTION = re.compile(r"(?:\s|</section>)*\Z")
# What holds folds that stay: solutions, figures, folds that say so. And folds, by cells or in the chapter's text.
STAYS = r'<(?P<stays>div|details|figure)\b[^>]*class="[^"]*\b(?:solution|exercise|posym-figure|stay)\b[^"]*"[^>]*>'
FOLD = re.compile(rf'{STAYS}|<(?P<tag>details)\b[^>]*>|<(?P<box>div) class="[^"]*\bdropdown\b[^"]*\badmonition\b[^"]*"')
PART = '<p class="posym-part">{}</p>'
SUMMARY = re.compile(r"<details[^>]*>\s*<summary[^>]*>(?P<title>.*?)</summary>", re.DOTALL)
DROPDOWN = re.compile(r'(<div class="(?:[^"]* )?)dropdown ')
STATEMENT = re.compile(r'<span class="caption-number">(?P<name>[^<]*?)\s*</span>')
OF_THIS = re.compile(r"Code of this (figure|table)\Z")
BAR = re.compile(
    r'<details class="admonition hide above-input">\s*<summary[^>]*>\s*<p class="collapsed admonition-title">'
    # A cell may show folds of its own, which end before the bar's does.
    r"(?P<title>.*?)</p>.*?</summary>(?P<inside>(?:<details\b.*?</details>|(?!</?details\b).)*?)\n</details>",
    re.DOTALL,
)
# What a bar says unless the metadata of its cell chose other words (``mystnb.code_prompt_show``).
UNNAMED = {"Show code cell source", "Show code cell content"}
HIDDEN_WHOLE = "tag_hide-cell"
SOURCES = "Where these numbers come from"
SHOWN = '<div class="cell_output docutils container">'
CODE = re.compile(r"<pre>(?P<code>.*?)</pre>", re.DOTALL)
FIGURE = re.compile(r'<figure class="posym-figure|<img\b')
RESULT = r"Result (?P<name>[\w/.-]+): (?P<facts>posym_core [^<>;]*?, sha256 \w{12})"
# A result that is a sentence of its own, and what is left of a paragraph or a list of such sentences.
SENTENCE = re.compile(rf"(?:(?<=>)\s*|(?<=\.)\s+){RESULT}(?:\.|\s*(?=<))")
EMPTY = re.compile(r'<(?P<tag>p|li|ul)(?: class="simple")?>(?:\s|<br ?/?>)*</(?P=tag)>\s*')


def end_of(page: str, start: int, name: str = "div") -> int:
    """Return where the element that begins at ``start`` ends.

    Raises:
        ValueError: if it is never closed.
    """
    depth = 0
    for tag in re.compile(rf"<(/?){name}\b").finditer(page, start):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return page.index(">", tag.start()) + 1
    raise ValueError(f"a {name} of a page is never closed: {page[start : start + 80]}")


def runs_of_cells(page: str) -> list[list[tuple[int, int]]]:
    """Where the cells of a page begin and end, those together that have no text between them."""
    runs: list[list[tuple[int, int]]] = []
    for found in CELL.finditer(page):
        start, end = found.start(), end_of(page, found.start())
        if runs and not page[runs[-1][-1][1] : start].strip():
            runs[-1].append((start, end))
        else:
            runs.append([(start, end)])
    return runs


def only_imports(cell: str) -> bool:
    """Whether a cell shows nothing and its code is nothing but imports."""
    found = None if SHOWN in cell else CODE.search(cell)
    if found is None:
        return False
    tree = ast.parse(html.unescape(re.sub(r"<[^>]+>", "", found["code"])))
    return all(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body)


def folded(title: str, inside: str) -> str:
    """Return a fold."""
    return f'<details class="posym-fold">\n<summary>{title}</summary>\n{inside}\n</details>'


def without_provenance(shown: str) -> tuple[str, list[str]]:
    """What a cell displays without the sentences about stored results, and these; within a sentence a name is left.

    >>> result = "Result a/b: posym_core 0.1.0 (code 0a), CPU, 2026-01-31, 9 s, seed 0, sha256 0123456789ab"
    >>> without_provenance(f"<p>Ten runs. {result}.</p>")[0]
    '<p>Ten runs.</p>'
    """
    found = [f"<code>{name}</code>: {facts}" for name, facts in re.findall(RESULT, shown)]
    shown = re.sub(RESULT, r"Result \g<name>", SENTENCE.sub("", shown))
    while (less := EMPTY.sub("", shown)) != shown:
        shown = less
    return shown, found


def title_of(shown: str) -> str:
    """What the fold of some code says, after what the code shows."""
    if figures := len(FIGURE.findall(shown)):
        return "Code of this figure" if figures == 1 else "Code of these figures"
    return "Code of this table" if "<table" in shown else "Code of these numbers" if SHOWN in shown else "Code"


def fold_cells(page: str) -> str:
    """Return a page with folds of code and of provenance for each run of cells, in place of a bar above each cell."""
    parts, place = list[str](), 0
    waiting, has_bar = list[str](), False
    last_bar = max((bar.start() for bar in BAR.finditer(page)), default=-1)
    for run in runs_of_cells(page):
        parts.append(page[place : run[0][0]])
        place = run[-1][1]
        shown, folds, unnamed, sources = "", list[str](), list[str](), list[str]()
        for start, end in run:
            cell = page[start:end]
            if bar := BAR.search(cell):
                cell = cell.replace(bar[0], "", 1)
                if HIDDEN_WHOLE not in CELL.match(cell)[0]:
                    waiting.append(bar["inside"])
                    has_bar |= not only_imports(bar["inside"])
                else:
                    unnamed.append(bar["inside"])
                    if SHOWN in bar["inside"] or bar["title"] not in UNNAMED:
                        inside = "\n".join(unnamed)
                        title = SOURCES if re.search(RESULT, inside) else title_of(inside)
                        folds.append(folded(title if bar["title"] in UNNAMED else bar["title"], inside))
                        unnamed = []
            elif start < last_bar and only_imports(cell):
                waiting.append(_inside(cell))
                continue
            if "<details" not in cell:
                cell, more = without_provenance(cell)
                sources += more
            if _inside(cell).strip():
                shown += cell + "\n"
        if unnamed:
            folds.append(folded("Code", "\n".join(unnamed)))
        if has_bar and shown:
            folds.insert(0, folded(title_of(shown), "\n".join(waiting)))
            waiting, has_bar = [], False
        if sources:
            items = "\n".join(f"<li>{source}</li>" for source in dict.fromkeys(sources))
            folds.append(folded(SOURCES, f"<ul>\n{items}\n</ul>"))
        parts.append(shown + "".join(f"{fold}\n" for fold in folds))
    if waiting:
        parts.append("\n" + folded("Code", "\n".join(waiting)))
    return "".join([*parts, page[place:]])


def _inside(cell: str) -> str:
    return CELL.sub("", cell, count=1).removesuffix("</div>")


def merge_folds(page: str) -> str:
    """Return a page on which each section, from a heading to the next, has one fold, with all its folds as parts."""
    start, end = page.find("<article"), page.find("</article>")
    cuts = [start, *(heading.start() for heading in HEADING.finditer(page, start, end)), end]
    sections = (_merge(page[cut:after]) for cut, after in pairwise(cuts)) if 0 <= start < end else [page[start:end]]
    return "".join([page[:start], *sections, page[end:]])


def _merge(section: str) -> str:
    left, parts, place = "", list[tuple[str, str]](), 0
    while found := FOLD.search(section, place):
        end = end_of(section, found.start(), found["stays"] or found["tag"] or found["box"])
        left += section[place : end if found["stays"] else found.start()]
        if not found["stays"]:
            statements = STATEMENT.findall(left)
            parts.append(_make_part(section[found.start() : end], statements[-1] if statements else "the statement"))
        place = end
    if not parts:
        return section
    left += section[place:]
    place = len(END_OF_SECTION.sub("", left))
    inside = "\n".join(f"{title and PART.format(title)}{text}" for title, text in _name_parts(parts))
    return f"{left[:place]}\n{folded(ONE_FOLD, inside)}{left[place:]}"


def _make_part(fold: str, statement: str) -> tuple[str, str]:
    """Return the title and the inside of a fold, all that is folded within it opened; a box keeps its own title."""
    if not (summary := SUMMARY.match(fold)):
        title = f"Proof of {statement}" if fold.startswith('<div class="proof ') else ""
        return title, DROPDOWN.sub(r"\1", fold)
    inside = SUMMARY.sub(lambda inner: PART.format(inner["title"]), fold[summary.end() :])
    return summary["title"], inside.replace("</details>", "")


def _name_parts(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return parts with sources and checks joined, sources last; of several figures or tables each has its number."""
    joined = dict[str, str]()
    for title, text in parts:
        kind = OF_THIS.match(title)
        if kind and sum(other == title for other, _ in parts) > 1:
            title = next(name for n in count(1) if (name := f"Code of {kind[1]} {n}") not in joined)
        joined[title or text] = joined.get(title, "") + text
    sources = joined.pop(SOURCES, "")
    named = [("" if title == text else title, text) for title, text in joined.items()]
    return named + [(SOURCES, sources)] * bool(sources)

"""What stands folded under a figure: the code that drew it, and where its numbers come from.

Sphinx puts a bar above every cell whose code is hidden. Here the cells between two pieces of text share one fold, under
what they show. A cell that shows nothing has no fold of its own: its code joins the next one. A cell that is hidden
whole, code and what it shows, is a fold where it stands. The sentences in which stored results describe themselves,
with hashes, leave the text that a cell displays for a fold beside the others.
"""

from __future__ import annotations

import ast
import html
import re

CELL = re.compile(r'<div class="cell [^"]*docutils container">')
DIV = re.compile(r"<(/?)div\b")
BAR = re.compile(
    r'<details class="admonition hide above-input">\s*<summary[^>]*>\s*<p class="collapsed admonition-title">'
    # A cell may show folds of its own, which end before the bar's does.
    r"(?P<title>.*?)</p>.*?</summary>(?P<inside>(?:<details\b.*?</details>|(?!</?details\b).)*?)\n</details>",
    re.DOTALL,
)
# What a bar says unless the metadata of its cell chose other words (``mystnb.code_prompt_show``).
CHECK = "Show code cell content"
UNNAMED = {"Show code cell source", CHECK}
HIDDEN_WHOLE = "tag_hide-cell"
SOURCES = "Where these numbers come from"
SHOWN = '<div class="cell_output docutils container">'
CODE = re.compile(r"<pre>(?P<code>.*?)</pre>", re.DOTALL)
FIGURE = re.compile(r'<figure class="posym-figure|<img\b')
RESULT = r"Result (?P<name>[\w/.-]+): (?P<facts>posym_core [^<>;]*?, sha256 \w{12})"
# A result that is a sentence of its own, and what is left of a paragraph or a list of such sentences.
SENTENCE = re.compile(rf"(?:(?<=>)\s*|(?<=\.)\s+){RESULT}(?:\.|\s*(?=<))")
EMPTY = re.compile(r'<(?P<tag>p|li|ul)(?: class="simple")?>(?:\s|<br ?/?>)*</(?P=tag)>\s*')


def end_of(page: str, start: int) -> int:
    """Where the ``<div>`` that begins at ``start`` ends."""
    depth = 0
    for tag in DIV.finditer(page, start):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return page.index(">", tag.start()) + 1
    raise ValueError(f"a div of a page is never closed: {page[start : start + 80]}")


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
    """A fold under a figure; one that holds more than code and sources is marked as such."""
    kind = "posym-fold posym-aside" if SHOWN in inside else "posym-fold"
    return f'<details class="{kind}">\n<summary>{title}</summary>\n{inside}\n</details>'


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
    return shown, list(dict.fromkeys(found))


def title_of(shown: str) -> str:
    """What the fold of some code says, after what the code shows."""
    if figures := len(FIGURE.findall(shown)):
        return "Code of this figure" if figures == 1 else "Code of these figures"
    return "Code of this table" if "<table" in shown else "Code of these numbers" if SHOWN in shown else "Code"


def title_of_aside(said: str, inside: str) -> str:
    """What the fold of a cell that is hidden whole says: the cell's own words, or else what is in it."""
    if said not in UNNAMED:
        return said
    if FIGURE.search(inside):
        return "A figure and its code"
    if re.search(RESULT, inside):
        return SOURCES
    return "A table and its code" if "<table" in inside else "Check in code"


def fold_cells(page: str) -> str:
    """A page with folds of code and of provenance for each run of cells, in place of a bar above each cell."""
    parts, place = list[str](), 0
    waiting, has_bar, home = list[str](), False, 0
    last_bar = max((bar.start() for bar in BAR.finditer(page)), default=-1)
    for run in runs_of_cells(page):
        parts.append(page[place : run[0][0]])
        place = run[-1][1]
        shown, asides, aside, sources = "", list[str](), list[str](), list[str]()
        for start, end in run:
            cell = page[start:end]
            bar = BAR.search(cell)
            if bar is None and start < last_bar and only_imports(cell):
                waiting.append(CELL.sub("", cell, count=1).removesuffix("</div>"))
                continue
            if bar is not None:
                cell = cell.replace(bar[0], "", 1)
                if HIDDEN_WHOLE in CELL.match(cell)[0]:
                    aside.append(bar["inside"])
                    if SHOWN in bar["inside"] or bar["title"] not in UNNAMED:
                        inside = "\n".join(aside)
                        asides.append(folded(title_of_aside(bar["title"], inside), inside))
                        aside = []
                else:
                    waiting.append(bar["inside"])
                    has_bar |= not only_imports(bar["inside"])
            if "<details" not in cell:
                cell, more = without_provenance(cell)
                sources += more
            if CELL.sub("", cell, count=1).removesuffix("</div>").strip():
                shown += cell + "\n"
        folds = list[str]()
        if has_bar and shown:
            folds.append(folded(title_of(shown), "\n".join(waiting)))
            waiting, has_bar = [], False
        folds += asides
        if aside:
            folds.append(folded(title_of_aside(CHECK, "\n".join(aside)), "\n".join(aside)))
        if sources:
            items = "\n".join(f"<li>{source}</li>" for source in dict.fromkeys(sources))
            folds.append(folded(SOURCES, f"<ul>\n{items}\n</ul>"))
        parts.append(shown + "".join(f"{fold}\n" for fold in folds))
        home = len(parts)
    if waiting:
        parts.insert(home, "\n" + folded("Code", "\n".join(waiting)))
    return "".join([*parts, page[place:]])

"""One fold a section: its proofs, the code of its figures and tables, and where their numbers come from.

Sphinx puts a bar above every cell whose code is hidden. Here the cells between two pieces of text first share one fold,
under what they show. A cell that shows nothing has no fold of its own: its code joins the next one. Then all folds of a
section become parts of one at its end. Solutions, and folds with the class ``stay``, stay where they are.
"""

from __future__ import annotations

import ast
import html
import re
from collections import Counter

CELL = re.compile(r'<div class="cell [^"]*docutils container">')
HIDDEN_WHOLE = "tag_hide-cell"
BAR = re.compile(
    r'<details class="admonition hide above-input">\s*<summary[^>]*>\s*<p class="collapsed admonition-title">'
    r"(?P<title>.*?)</p>.*?</summary>",
    re.DOTALL,
)
# What the bar of a cell that is hidden whole says, unless the cell has another title (``mystnb.code_prompt_show``).
UNNAMED = "Show code cell content"
SHOWN = '<div class="cell_output docutils container">'
CODE = re.compile(r"<pre>(?P<code>.*?)</pre>", re.DOTALL)
FIGURE = re.compile(r'<figure class="posym-figure|<img\b')
RESULT = re.compile(r"Result [\w/.-]+: posym_core [^<>;]*?, sha256 \w{12}")
SOURCES = "Where these numbers come from"
ONE_FOLD = "Proofs and code"

ARTICLE = re.compile(r"<article.*?(?=</article>)", re.DOTALL)
SECTION = re.compile(r"(?=<section[^>]*>\s*(?:<span[^>]*></span>\s*)*<h[23])")
END_OF_SECTION = re.compile(r"(?:\s|</section>)*\Z")
# Folds, of cells or of the chapter's text, and what holds folds that stay.
FOLD = re.compile(
    r'<(?P<tag>div|details|figure)\b(?:(?P<stays>[^>]*class="[^"]*\b(?:solution|exercise|posym-figure|stay)\b)'
    r'|(?<=details)|(?<=div) class="[^"]*\bdropdown\b[^"]*\badmonition\b)'
)
SUMMARY = re.compile(r"<details[^>]*>\s*<summary[^>]*>(?P<title>.*?)</summary>", re.DOTALL)
DROPDOWN = re.compile(r'(<div class="(?:[^"]* )?)dropdown ')
STATEMENT = re.compile(r'<span class="caption-number">([^<]*?)\s*</span>')
PART = r'<p class="posym-part">\g<title></p>'


def find_end(page: str, start: int, name: str = "div") -> int:
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


def list_runs(page: str) -> list[list[tuple[int, int]]]:
    """Return where the cells of a page begin and end, those together that have no text between them."""
    runs: list[list[tuple[int, int]]] = []
    for cell in CELL.finditer(page):
        if not runs or page[runs[-1][-1][1] : cell.start()].strip():
            runs.append([])
        runs[-1].append((cell.start(), find_end(page, cell.start())))
    return runs


def has_only_imports(cell: str) -> bool:
    """Return whether a cell shows nothing and its code is nothing but imports."""
    if SHOWN in cell or not (code := CODE.search(cell)):
        return False
    tree = ast.parse(html.unescape(re.sub(r"<[^>]+>", "", code["code"])))
    return all(isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body)


def make_fold(title: str, *parts: str) -> str:
    """Return a fold."""
    inside = "\n".join(parts)
    return f'<details class="posym-fold">\n<summary>{title}</summary>\n{inside}\n</details>'


def name_code(shown: str) -> str:
    """Return the title of a fold of code, after what the code shows."""
    if figures := len(FIGURE.findall(shown)):
        return "Code of this figure" if figures == 1 else "Code of these figures"
    return "Code of this table" if "<table" in shown else "Code of these numbers" if SHOWN in shown else "Code"


def fold_cells(page: str) -> str:
    """Return a page with folds for each run of cells, in place of a bar above each cell."""
    pieces, place, waiting = list[str](), 0, list[str]()
    last_bar = max((bar.start() for bar in BAR.finditer(page)), default=-1)
    for run in list_runs(page):
        pieces.append(page[place : run[0][0]])
        place = run[-1][1]
        shown, folds, hidden = "", list[str](), list[str]()
        for start, end in run:
            cell = page[start:end]
            if bar := BAR.search(cell):
                end_of_bar = find_end(cell, bar.start(), "details")
                code = cell[bar.end() : end_of_bar].removesuffix("\n</details>")
                cell = cell[: bar.start()] + cell[end_of_bar:]
                if HIDDEN_WHOLE not in cell[: bar.start()]:
                    waiting.append(code)
                else:
                    hidden.append(code)
                    if SHOWN in code or bar["title"] != UNNAMED:
                        inside = "\n".join(hidden)
                        title = SOURCES if RESULT.search(inside) else name_code(inside)
                        folds.append(make_fold(title if bar["title"] == UNNAMED else bar["title"], inside))
                        hidden = []
            elif start < last_bar and has_only_imports(cell):
                waiting.append(_open(cell))
                continue
            if _open(cell).strip():
                shown += cell + "\n"
        if hidden:
            folds.append(make_fold("Code", *hidden))
        if shown and not all(map(has_only_imports, waiting)):
            folds.insert(0, make_fold(name_code(shown), *waiting))
            waiting = []
        pieces += [shown, *(f"{fold}\n" for fold in folds)]
    if waiting:
        pieces.append("\n" + make_fold("Code", *waiting))
    return "".join([*pieces, page[place:]])


def _open(cell: str) -> str:
    return CELL.sub("", cell, count=1).removesuffix("</div>")


def merge_folds(page: str) -> str:
    """Return a page on which each section, from a heading to the next, has one fold, with all its folds as parts."""
    return ARTICLE.sub(lambda article: "".join(map(_merge, SECTION.split(article[0]))), page, count=1)


def _merge(section: str) -> str:
    left, parts, place = "", list[tuple[str, str]](), 0
    while fold := FOLD.search(section, place):
        end = find_end(section, fold.start(), fold["tag"])
        left += section[place : end if fold["stays"] else fold.start()]
        if not fold["stays"]:
            parts.append(_make_part(section[fold.start() : end], left))
        place = end
    if not parts:
        return section
    left += section[place:]
    place = len(END_OF_SECTION.sub("", left))
    return f"{left[:place]}\n{make_fold(ONE_FOLD, *_join_parts(parts))}{left[place:]}"


def _make_part(fold: str, before: str) -> tuple[str, str]:
    """Return the title and the inside of a fold, all that is folded within it opened; a box keeps its own title."""
    if summary := SUMMARY.match(fold):
        return summary["title"], SUMMARY.sub(PART, fold[summary.end() :]).replace("</details>", "")
    statement = STATEMENT.findall(before)[-1:] or ["the statement"]
    return f"Proof of {statement[0]}" if fold.startswith('<div class="proof ') else "", DROPDOWN.sub(r"\1", fold)


def _join_parts(parts: list[tuple[str, str]]) -> list[str]:
    """Return parts under their titles, those of one title joined, sources last; figures and tables have numbers."""
    titles, numbers = [title for title, _ in parts], Counter[str]()
    joined = dict[str, str]()
    for title, text in parts:
        if title.startswith("Code of this ") and titles.count(title) > 1:
            numbers[title] += 1
            title = f"{title.replace('this ', '')} {numbers[title]}"
        joined[title or text] = joined.get(title, "") + text
    if SOURCES in joined:
        joined[SOURCES] = joined.pop(SOURCES)
    return [text if title == text else f'<p class="posym-part">{title}</p>{text}' for title, text in joined.items()]

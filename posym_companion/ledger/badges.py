"""How rows of the ledger are shown elsewhere: a badge for each of a few, and a wall of tiles for all.

A badge is a link with a row's id and grade. What is claimed and what was found is its ``title``, which the site shows
on hover and focus. A mark and a shade stand for the grade, so that none hangs on a colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from posym_companion.verdicts import Row, Verdict

# The shade of a verdict, and what the wall calls it. A theorem that is reproduced is proved.
_SHADES: Mapping[Verdict, str] = {
    "reproduced": "held",
    "reproduced in kind": "held",
    "in kind, one family of two": "partly",
    "partly": "partly",
    "not reproduced": "failed",
    "refuted as stated": "failed",
    "not testable": "open",
    "not run here": "open",
}
_MEANINGS: Mapping[str, str] = {
    "proved": "proved",
    "held": "hold, on other models than the paper's",
    "partly": "hold in part",
    "failed": "fail",
    "open": "are untested",
}
# Who claims what: the beginnings of ids and a heading of the wall.
_CLAIMANTS: Mapping[tuple[str, ...], str] = {
    ("U25",): "<em>Decoupling Positional and Symbolic Attention</em>",
    ("U26",): "<em>Positional versus Symbolic Attention Heads</em>",
    ("G26",): "<em>Deconstructing Positional Information</em>",
    ("L",): "Later papers",
    ("T", "B", "C"): "This book, which also asks the first paper's claims of models that solve the task (T)",
}


def make_badge(row: Row, ledger: str = "../reference/ledger.html") -> str:
    """Return a row's id and grade, or a column's, as a link to the ledger: HTML in which Markdown changes nothing."""
    told = escape(f"{row.short}. {row.grade[:1].upper()}{row.grade[1:]}. {row.sentence}")
    grade = ", ".join(row.grade.split(", ")[:2])  # how many controls are missed is told in the title alone
    return (
        f'<a class="posym-badge posym-{_shade(row)}" href="{ledger}#claim-{row.id.lower()}" title="{told}">'
        f"{row.id}<span> {escape(grade)}</span></a>"
    )


def verdict_list(rows: Iterable[Row]) -> str:
    """Return a paragraph of badges, with addresses from a folder of the book."""
    return f'<p class="posym-badges margin">{" ".join(map(make_badge, rows))}</p>'


def show_verdicts(*ids: str) -> Any:
    """Return the badges of these claims, to be shown by a cell of a chapter."""
    from IPython.display import HTML

    from posym_companion.ledger.rows import ledger

    return HTML(verdict_list(ledger(*ids)))


def draw_wall(rows: Sequence[Row]) -> str:
    """Return a tile for each row, grouped by who claims it, as lists in HTML with addresses from the front page."""
    groups: dict[str, list[Row]] = {title: [] for title in _CLAIMANTS.values()}
    titles = {start: title for starts, title in _CLAIMANTS.items() for start in starts}
    for row in rows:
        if (start := row.id.partition("-")[0]) not in titles:
            raise ValueError(f"who claims {row.id}? An id begins with one of {', '.join(titles)}, see _CLAIMANTS")
        groups[titles[start]].append(row)
    counts = Counter(map(_shade, rows))
    legend = (
        f'<span class="posym-badge posym-{shade}">{counts[shade]}</span> {meaning}'
        for shade, meaning in _MEANINGS.items()
        if counts[shade]
    )
    lines = [f'<div class="posym-wall"><p class="posym-legend">{", ".join(legend)}</p>']
    for title, group in groups.items():
        tiles = (f"<li>{make_badge(row, 'reference/ledger.html')}</li>" for row in group)
        lines += [f"<p>{title}</p><ul>{''.join(tiles)}</ul>"] if group else []
    return "\n".join([*lines, "</div>"])


def _shade(row: Row) -> str:
    proved = row.verdict == "reproduced" and row.kind == "theorem or construction"
    return "proved" if proved else _SHADES[row.verdict]

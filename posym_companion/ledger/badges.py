"""How rows of the ledger are shown elsewhere: a badge for each of a few, and a wall in words for all.

A badge is a link with a row's id, its grade and the number that decides it. A mark and a shade stand for the grade, so
that none hangs on a colour; a dot says that the rule was fixed after a look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from posym_companion.claims import G26, GRADES, OWN, U25, U26
from posym_companion.claims.rows import Row, read_rows

LATER = "Later papers"


def slug(grade: str) -> str:
    """Return the name of a grade's shade: its first word, or the first two of *not attributable*."""
    return grade.replace("not ", "not-").split()[0]


def make_badge(row: Row, ledger: str = "../reference/ledger.html") -> str:
    """Return a row's id, grade and decisive number as a link to the ledger: HTML in which Markdown changes nothing."""
    dot = " •" if row.fixed == "after a look" else ""
    return (
        f'<a class="posym-badge posym-{slug(row.grade)}" href="{ledger}#claim-{row.id.lower()}" '
        f'title="{escape(row.short)}">'
        f"{row.id}<span> {row.grade}{dot}</span> <small>{escape(row.headline)}</small></a>"
    )


def show_verdicts(*ids: str) -> Any:
    """Return the badges of these claims, to be shown by a cell of a chapter; an unknown id raises KeyError."""
    from IPython.display import HTML

    ledger = f"{'' if Path.cwd().name == 'book' else '../'}reference/ledger.html"  # a chapter runs in its folder
    badges = " ".join(make_badge(row, ledger) for row in read_rows(*ids))
    return HTML(f'<p class="posym-badges margin">{badges}</p>')


def group_rows(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return rows by paper, later papers together and the book's own last; groups without rows are left out."""
    groups: dict[str, list[Row]] = {title: [] for title in (U25, U26, G26, LATER, OWN)}
    for row in rows:
        groups[row.paper if row.paper in groups else LATER].append(row)
    return {title: group for title, group in groups.items() if group}


def count_grades(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many rows have each grade, in the order of grades."""
    counts = Counter(row.grade for row in rows)
    return {grade: counts[grade] for grade in GRADES if counts[grade]}


def write_group(title: str, rows: list[Row]) -> str:
    """Return a paper's claims by grade, each in words with the number that decides it, as HTML."""
    lines = [f"<p><em>{title}</em>, {len(rows)} claims</p><ul>"]
    for grade, count in count_grades(rows).items():
        lines.append(f'<li><span class="posym-grade posym-{slug(grade)}">{grade}: {count}</span><ul>')
        for row in rows:
            if row.grade == grade:
                number = "" if row.grade == "proved" else f" <small>{escape(row.headline)}</small>"
                address = f"reference/ledger.html#claim-{row.id.lower()}"
                lines.append(f'<li><a href="{address}" title="{row.id}">{escape(row.short)}</a>{number}</li>')
        lines.append("</ul></li>")
    return "".join([*lines, "</ul>"])


def show_wall(*, own: bool = False) -> Any:
    """Return the papers' claims by paper and grade, or the book's own, for the front page."""
    from IPython.display import HTML

    groups = {title: rows for title, rows in group_rows(read_rows()).items() if (title == OWN) == own}
    return HTML(f'<div class="posym-wall">{"".join(write_group(*each) for each in groups.items())}</div>')

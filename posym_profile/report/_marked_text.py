r"""Prompts as people write them: text whose blocks are marked, and rows of a table for a template of such text.

Two square brackets stand around each block. At the end two angle brackets may stand around the words that the model is
to choose from, the right one first::

    [[Ann likes red.]] [[Bob likes blue.]] Bob likes <<blue|red>>

The space in front of ``<<`` belongs to each of these words, as it would stand between the text and the word that
follows. A backslash in front of a mark makes it plain text: ``\[[``, ``\]]``, ``\<<``, ``\>>``, and ``\|`` within angle
brackets. Anywhere else a backslash is itself, and so are angle brackets that are not at the end.

A file of text has one prompt a line, and empty lines are skipped. If some line consists of ``---`` alone, prompts are
what stands between such lines and may have several lines. White space at the ends of a prompt is not read.

A template is such text with ``{column}`` for what a row has in that column, and ``{{`` or ``}}`` for a plain brace.
What a row has is plain text, also where it looks like a mark.
"""

from __future__ import annotations

import csv
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

# The last brackets of a run close a block, so that "[[a[0]]]" holds "a[0]".
MARK = re.compile(r"\\(\[\[|\]\]|<<|>>)|(\[\[)|(\]\](?!\]))")
ANSWERS = re.compile(r"(?<!\\)(?<!<)<<(?P<words>(?:(?!(?<!\\)(?<!<)<<).)*?)(?<!\\)>>\Z", re.DOTALL)
BAR = re.compile(r"(?<!\\)\|")
SEPARATOR = "---"
EXAMPLE = "[[Ann likes red.]] [[Bob likes blue.]] Bob likes"

# "text", "block" or "answer", and what is written there.
Piece = tuple[str, str]


def parse_marked_prompt(text: str) -> dict[str, Any]:
    """A marked text as a line of JSON Lines has it: ``text``, ``blocks``, and ``answers`` if there are any.

    Raises:
        ValueError: if marks do not fit.

    >>> parse_marked_prompt("[[Ann likes red.]] [[Bob likes blue.]] Bob likes <<blue|red>>")["answers"]
    [' blue', ' red']
    """
    return _put_together(_pieces(text))


def parse_marked_prompts(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The prompts of a file of marked text, each with the number of its first line."""
    lines = [line.rstrip("\r\n") for line in lines]
    if SEPARATOR not in (line.strip() for line in lines):
        yield from ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
        return
    held: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, SEPARATOR], start=1):
        if line.strip() != SEPARATOR:
            held += [(number, line)] if held or line.strip() else []
        elif held:
            yield held[0][0], "\n".join(line for _, line in held)
            held = []


class RowTemplate:
    """A template, and the columns that it needs.

    Raises:
        ValueError: if it is no template: marks or braces do not fit, or it names no column.
    """

    def __init__(self, template: str) -> None:
        self._pieces = _pieces(template)
        self.columns: dict[str, None] = {}
        for _, written in self._pieces:
            try:
                parts = list(string.Formatter().parse(written))
            except ValueError as error:
                raise ValueError(f"braces of the template do not fit: {error}; write {{{{ for a plain brace") from None
            for _, name, form, conversion in parts:
                if name is None:
                    continue
                if not name or form or conversion:
                    raise ValueError(
                        "the template takes columns by their names alone, as {name}; got "
                        f"{{{name}{'!' + conversion if conversion else ''}{':' + form if form else ''}}}"
                    )
                self.columns[name] = None
        if not self.columns:
            raise ValueError(
                "the template names no column, so all prompts would be the same; write {name} where a row's word goes"
            )

    def fill(self, row: Mapping[str, str]) -> dict[str, Any]:
        """The prompt of a row, as :func:`parse_marked_prompt` has it."""
        return _put_together([(kind, self._fill(written, row)) for kind, written in self._pieces])

    @staticmethod
    def _fill(written: str, row: Mapping[str, str]) -> str:
        # Not str.format, for which a column called "a.b" would be an attribute.
        parts = string.Formatter().parse(written)
        return "".join(plain + ("" if name is None else row[name]) for plain, name, _, _ in parts)


def read_rows(lines: Iterable[str], template: str) -> Iterator[tuple[int, Callable[[], dict[str, Any]]]]:
    """The number of each row's last line in a table with a header, and what makes the row's prompt or refuses it.

    A column ``id`` names the prompts. White space around what stands between two commas is not read.

    Raises:
        ValueError: if the header does not have what the template names.
    """
    wording = RowTemplate(template)
    reader = csv.reader(lines, skipinitialspace=True, strict=True)
    names = [name.strip() for name in next(_rows(reader), [])]
    if missing := [name for name in wording.columns if name not in names]:
        raise ValueError(
            f"the template names the column {missing[0]!r}, but the columns are "
            f"{', '.join(map(repr, names)) or 'none'}; name columns in the first row, with commas between them"
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two columns are called {twice[0]!r}; rename one")
    for values in _rows(reader):
        yield reader.line_num, partial(_row_prompt, wording, names, values)


def _row_prompt(wording: RowTemplate, names: list[str], values: list[str]) -> dict[str, Any]:
    if len(values) != len(names):
        raise ValueError(
            f"the row has {len(values)} values for {len(names)} columns; put quotes around a value with a comma"
        )
    row = dict(zip(names, map(str.strip, values), strict=True))
    if empty := [name for name in wording.columns if not row[name]]:
        raise ValueError(f"column {empty[0]!r} is empty, and the template needs it; fill it or remove the row")
    return wording.fill(row) | ({"id": row["id"]} if row.get("id") else {})


def _rows(reader: Any) -> Iterator[list[str]]:
    """Rows that are not empty; what the reader refuses as an error of values."""
    try:
        yield from (row for row in reader if any(map(str.strip, row)))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is no row of a table: {error}; mend its quotes") from None


def _pieces(text: str) -> list[Piece]:
    """Text in and between blocks, and answers, all without marks."""
    text = text.strip()
    answers: list[Piece] = []
    if found := ANSWERS.search(text):
        before = text[: found.start()]
        gap = before[len(before.rstrip()) :]
        text = before.rstrip()
        words = [re.sub(r"\\(\||<<|>>)", r"\1", word).strip() for word in BAR.split(found["words"])]
        if not all(words) or len(words) < 2:
            raise ValueError(
                "<<...>> at the end must hold at least two words with | between, the right one first, as <<blue|red>>; "
                f"got {found[0]}"
            )
        answers = [("answer", gap + word) for word in words]
    pieces: list[Piece] = []
    kind, written, opened = "text", "", 0
    for mark in MARK.finditer(text):
        escaped, opens, closes = mark.groups()
        written += text[opened : mark.start()] + (escaped or "")
        opened = mark.end()
        if escaped:
            continue
        if (kind == "block") == bool(opens):
            what = "[[ begins a block within a block" if opens else "]] ends a block that [[ has not begun"
            raise ValueError(
                f"{what}, at character {mark.start()}: {_around(text, mark.start())}; put a backslash in front of "
                f"what is plain text: \\{opens or closes}"
            )
        pieces.append((kind, written))
        kind, written = ("block" if opens else "text"), ""
    if kind == "block":
        raise ValueError(
            f"a block is not ended: {shorten('[[' + written + text[opened:])}; put ]] behind it, or write \\[["
        )
    return [*pieces, (kind, written + text[opened:]), *answers]


def _put_together(pieces: Iterable[Piece]) -> dict[str, Any]:
    text, blocks, answers = "", [], []
    for kind, written in pieces:
        if kind == "answer":
            answers.append(written)
            continue
        if kind == "block":
            blocks.append([len(text), len(text) + len(written)])
        text += written
    if not blocks:
        raise ValueError(
            f"no block is marked in {shorten(text)}; put [[ and ]] around each part that is to be swapped: {EXAMPLE}"
        )
    return {"text": text, "blocks": blocks, **({"answers": answers} if answers else {})}


def _around(text: str, place: int) -> str:
    return repr(text[max(0, place - 15) : place + 15])


def shorten(value: Any) -> str:
    """A value as Python writes it, cut off if it is long."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

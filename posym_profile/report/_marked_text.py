r"""Prompts as people write them: text whose blocks are marked.

Two square brackets stand around each block. At the end two angle brackets may stand around the words that the model is
to choose from, the right one first::

    [[Ann likes red.]] [[Bob likes blue.]] Bob likes <<blue|red>>

The space in front of ``<<`` belongs to each of these words, as it would stand between the text and the word that
follows. A backslash in front of a mark makes it plain text: ``\[[``, ``\]]``, ``\<<``, ``\>>``, and ``\|`` within angle
brackets. Anywhere else a backslash is itself, and so are angle brackets that are not at the end.

A file of text has one prompt a line, and empty lines are skipped. If some line consists of ``---`` alone, prompts are
what stands between such lines and may have several lines. White space at the ends of a prompt is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
    """Parse a marked text to what a line of JSON Lines has: ``text``, ``blocks``, and ``answers`` if there are any.

    >>> parse_marked_prompt("[[Ann likes red.]] [[Bob likes blue.]] Bob likes <<blue|red>>")["answers"]
    [' blue', ' red']
    """
    return _join_pieces(_split_text(text))


def parse_marked_prompts(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the prompts of a file of marked text, each with the number of its first line."""
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


def _split_text(text: str) -> list[Piece]:
    """Split into text in and between blocks, and answers, all without marks."""
    text = text.strip()
    answers: list[Piece] = []
    if match := ANSWERS.search(text):
        before = text[: match.start()]
        gap = before[len(before.rstrip()) :]
        text = before.rstrip()
        words = [re.sub(r"\\(\||<<|>>)", r"\1", word).strip() for word in BAR.split(match["words"])]
        if not all(words) or len(words) < 2:
            raise ValueError(
                "<<...>> at the end must hold at least two words with | between, the right one first, as <<blue|red>>; "
                f"got {match[0]}"
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


def _join_pieces(pieces: Iterable[Piece]) -> dict[str, Any]:
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
    """Write a value as Python does, cut off if it is long."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

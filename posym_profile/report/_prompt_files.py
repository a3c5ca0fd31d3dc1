"""Read prompts from files: marked text or token ids, as the end of the file's name says.

A ``.txt`` file has a prompt a line. Two square brackets stand around each block. At the end two angle brackets may
stand around the words that the model is to choose from, the right one first::

    [[Ann likes red.]] [[Bob likes blue.]] Bob likes <<blue|red>>

The space in front of ``<<`` belongs to each of these words, as it would stand between the text and the word that
follows. Any other file has an object of JSON a line, with token ids; blocks are counted in tokens from ``start``, and
``blocks`` may be left out for as many as fit::

    {"input_ids": [2, 17, 5, 9, 17, 5, 8, 17], "start": 1, "block_length": 3, "blocks": 2, "answer_ids": [9, 8]}

``answer_ids`` are tokens that the model is to choose from, and ``target`` says which of them is right, from 0 on; by
default the first. Either all prompts of a file have answers or none. An ``"id"`` (text or number) is what a prompt is
called, by default the number of its line. Blocks stand one after the other, have equally many tokens and leave at least
the last token, the query, behind them. Prompts may differ in length and in their blocks. Empty lines are skipped.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch

from posym_core.metrics import BlockLayout
from posym_profile.prompts._drafts import Prompts, PromptTokens

KNOWN = {"input_ids", "start", "block_length", "blocks", "answer_ids", "target", "id"}
FORM = (
    'write {"input_ids": [...], "start": ..., "block_length": ..., "blocks": ...}, one a line; text with [[blocks]] '
    "goes into a file that is called .txt"
)
EXAMPLE = "[[Ann likes red.]] [[Bob likes blue.]] Bob likes"
# The last brackets of a run close a block, so that "[[a[0]]]" holds "a[0]".
MARKS = re.compile(r"(\[\[|\]\](?!\]))")


class PromptFileError(ValueError):
    """A line of a prompt file cannot be used; the message says which, why and what to do."""


def read_prompts(path: Path | str, tokenizer: Any) -> list[Prompts]:
    """Read a prompt file; prompts of one shape stand together.

    Args:
        path: a ``.txt`` file of marked text, or a file of token ids, in UTF-8.
        tokenizer: of the model in question.

    Raises:
        PromptFileError: if a prompt cannot be used, or there is none; with file, line, rule and way out.

    >>> (prompts,) = read_prompts("prompts.txt", tokenizer)  # doctest: +SKIP
    >>> scores = profile(model, prompts)  # doctest: +SKIP
    """
    path = Path(path)
    read = _read_marked if path.suffix.casefold() == ".txt" else _read_ids
    rows: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(_read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = {"id": number, "target": 0, "answer_ids": []} | read(line, tokenizer) | {"line": number}
            if (name := str(row["id"])) in rows:
                raise ValueError(f"'id' {name!r} is that of line {rows[name]['line']} already; give it another")
            first = next(iter(rows.values()), row)
            if bool(row["answer_ids"]) != bool(first["answer_ids"]):
                raise ValueError(
                    f"all prompts must have answers or none, unlike this one and that of line {first['line']}"
                )
        except (ValueError, TypeError, RecursionError) as error:
            raise PromptFileError(f"{path}, line {number}: {error}") from error
        rows[name] = row
    if not rows:
        form = FORM if read is _read_ids else f"write one a line, with [[ and ]] around its blocks: {EXAMPLE}"
        raise PromptFileError(f"{path} holds no prompt; {form}")
    return _join_rows(rows)


def read_marked_text(text: str, tokenizer: Any) -> Prompts:
    """Read one prompt of marked text, as a line of a ``.txt`` file."""
    (prompts,) = _join_rows({"prompt": {"target": 0, **_read_marked(text, tokenizer)}})
    return prompts


def _join_rows(rows: dict[str, dict[str, Any]]) -> list[Prompts]:
    """Join the prompts of each shape, by their names."""
    shapes: dict[tuple[int, ...], list[str]] = {}
    for name, row in rows.items():
        layout = row["start"], row["block_length"], row["blocks"]
        shapes.setdefault((len(row["input_ids"]), *layout, len(row["answer_ids"])), []).append(name)
    return [
        Prompts(
            input_ids=torch.tensor([rows[name]["input_ids"] for name in names]),
            **dict(zip(("start", "block_length", "blocks"), layout, strict=True)),
            answer_ids=torch.tensor([rows[name]["answer_ids"] for name in names], dtype=torch.int64),
            target=torch.tensor([rows[name]["target"] for name in names]),
            texts=[],
            names=names,
        )
        for (_, *layout, _), names in shapes.items()
    ]


def _read_lines(path: Path) -> list[str]:
    content = path.read_bytes()
    try:
        return io.StringIO(content.decode("utf-8-sig"), newline="").readlines()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise PromptFileError(f"{path}, line {number}: this line is not UTF-8; save the file in UTF-8") from None


def _read_ids(line: str, tokenizer: Any) -> dict[str, Any]:
    """Read a line of token ids."""
    try:
        fields = json.loads(line, object_pairs_hook=_make_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"a line must be one JSON object, but {error.msg} at column {error.colno}; {FORM}") from None
    if not isinstance(fields, dict) or "input_ids" not in fields:
        raise ValueError(f"a line must be a JSON object with 'input_ids'; {FORM}")
    if unknown := sorted(fields.keys() - KNOWN):
        raise ValueError(f"unknown {', '.join(map(repr, unknown))}; remove it (known: {', '.join(sorted(KNOWN))})")
    name, target, answers = fields.get("id", 0), fields.get("target", 0), fields.get("answer_ids", [])
    if type(name) not in (str, int) or not str(name).isprintable():
        raise ValueError(f"'id' must be text that can be printed, or a whole number; got {shorten(name)}")
    for what, least in (("input_ids", 3), ("answer_ids", 2)):
        ids = fields.get(what, [0] * least)
        if not isinstance(ids, list) or len(ids) < least or not all(type(token) is int for token in ids):
            raise ValueError(f"{what!r} must be a list of at least {least} whole numbers; got {shorten(ids)}")
        if wrong := [token for token in ids if not 0 <= token < len(tokenizer)]:
            raise ValueError(f"{what!r} must lie between 0 and {len(tokenizer) - 1} for this model; got {wrong[0]}")
    if len(set(answers)) < len(answers):
        raise ValueError(f"'answer_ids' must be different tokens; got {shorten(answers)}")
    if type(target) is not int or not 0 <= target < max(1, len(answers)):
        raise ValueError(f"'target' must be a place in 'answer_ids', of which there are {len(answers)}; got {target!r}")
    layout: dict[str, Any] = {name: fields.get(name) for name in ("start", "block_length", "blocks")}
    return fields | {"blocks": BlockLayout(**layout).fit(len(fields["input_ids"])).blocks}


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, or raise if a name stands twice in it, of which the last would count."""
    if len(fields := dict(pairs)) < len(pairs):
        raise ValueError(f"a name stands twice among {shorten([name for name, _ in pairs])}; leave one out")
    return fields


def parse_marked_text(text: str) -> tuple[str, list[tuple[int, int]], list[str]]:
    """Return the text without marks, where its blocks begin and end, and the answers.

    >>> parse_marked_text("[[Ann likes red.]] [[Bob likes blue.]] Bob likes <<blue|red>>")
    ('Ann likes red. Bob likes blue. Bob likes', [(0, 14), (15, 30)], [' blue', ' red'])
    """
    text, answers = _split_answers(text.strip())
    pieces = MARKS.split(text)
    marks, texts = pieces[1::2], pieces[::2]
    if not marks:
        raise ValueError(
            f"no block is marked in {shorten(text)}; put [[ and ]] around each part that is to be swapped: {EXAMPLE}"
        )
    expected = ["[[", "]]"] * -(-len(marks) // 2)
    if marks != expected:
        wrong = next((i for i, mark in enumerate(marks) if mark != expected[i]), len(marks) - 1)
        place = sum(map(len, pieces[: 2 * wrong + 1]))
        around = text[max(0, place - 15) : place + 15]
        raise ValueError(f"each [[ must be followed by its own ]], but not at character {place}: {around!r}")
    ends = [0, *accumulate(map(len, texts))]
    return "".join(texts), [(ends[i], ends[i + 1]) for i in range(1, len(texts), 2)], answers


def _split_answers(text: str) -> tuple[str, list[str]]:
    """Split the words to choose from off the end of a text."""
    before, mark, words = text.rpartition("<<")
    if not (mark and text.endswith(">>")):
        return text, []
    answers = [word.strip() for word in words.removesuffix(">>").split("|")]
    if len(answers) < 2 or not all(answers) or before.endswith("<") or answers[-1].endswith(">"):
        raise ValueError(
            "<<...>> at the end must hold at least two words with | between, the right one first, as <<blue|red>>; "
            f"got {mark}{words}"
        )
    gap = before[len(before.rstrip()) :]
    return before.rstrip(), [gap + answer for answer in answers]


def _read_marked(line: str, tokenizer: Any) -> dict[str, Any]:
    """Return the tokens of a marked text, and where its blocks stand among them."""
    text, spans, answers = parse_marked_text(line)
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} does not say which characters its tokens stand for; pass token ids instead"
        )
    if len(spans) < 2:
        raise ValueError(f"at least two blocks are needed to swap; got {len(spans)}")
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, beginning = encoded["input_ids"], PromptTokens(tokenizer).beginning
    owners = _find_owners(text, encoded["offset_mapping"], spans)
    counts = [owners.count(place) for place in range(len(spans))]
    if len(set(counts)) > 1 or not counts[0]:
        both = counts.index(min(counts)), counts.index(max(counts))
        words = " and ".join(f"block {place} {text[slice(*spans[place])]!r}" for place in both)
        raise ValueError(
            f"blocks must have equally many tokens, at least 1, but with this tokenizer {words} have "
            f"{min(counts)} and {max(counts)}; reword the text, or move the ends of the blocks"
        )
    first, length = owners.index(0), counts[0]
    inside = owners[first : first + length * len(spans)]
    if inside != sorted(place for place in owners if place is not None):
        raise ValueError("blocks must stand one after the other, but there is text between two; add it to one of them")
    if first + len(inside) == len(owners):
        raise ValueError("the last token is the query, and must stand behind all blocks; add the words that ask")
    return {
        "input_ids": [*beginning, *ids],
        "start": len(beginning) + first,
        "block_length": length,
        "blocks": len(spans),
        "answer_ids": _find_answers(text, ids, answers, tokenizer),
    }


def _find_owners(text: str, offsets: Sequence[Sequence[int]], spans: list[tuple[int, int]]) -> list[int | None]:
    """Return the block that each token is in; white space at its ends does not count, which tokenizers treat apart."""
    blocks: list[int | None] = [None] * len(text)
    for place, (low, high) in enumerate(spans):
        blocks[low:high] = [place] * (high - low)
    owners = []
    for first, last in offsets:
        piece = text[first:last]
        bare = blocks[last - len(piece.lstrip()) : first + len(piece.rstrip())]
        of_token = {*(bare or blocks[first : max(last, first + 1)])}
        if len(of_token) > 1:
            raise ValueError(
                f"an end of a block cuts the token {piece!r} at characters {first} to {last}; let it end where a token "
                "does"
            )
        owners += of_token or [None]
    return owners


def _find_answers(text: str, ids: list[int], answers: Sequence[str], tokenizer: Any) -> list[int]:
    """Return the one token that each answer adds to a text of these tokens."""
    found: list[int] = []
    for answer in answers:
        *before, token = tokenizer(text + answer, add_special_tokens=False)["input_ids"]
        if before != ids:
            raise ValueError(f"an answer must add one token to the text, but with this tokenizer {answer!r} does not")
        if token in found:
            raise ValueError(f"answers must be different tokens with this tokenizer, but {answer!r} is as one before")
        found.append(token)
    return found


def shorten(value: Any) -> str:
    """Write a value as Python does, cut off if it is long."""
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

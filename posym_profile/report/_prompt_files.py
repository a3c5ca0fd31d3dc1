"""Read prompts from files: marked text or token ids, as the end of the file's name says.

``.txt`` is text with marked blocks, as ``_marked_text`` describes it. Any other file has an object of JSON a line, with
token ids; blocks are counted in tokens from ``start``, and ``blocks`` may be left out for as many as fit::

    {"input_ids": [2, 17, 5, 9, 17, 5, 8, 17], "start": 1, "block_length": 3, "blocks": 2, "answer_ids": [9, 8]}

``answer_ids`` are tokens that the model is to choose from, and ``target`` says which of them is right, from 0 on; by
default the first. Either all prompts of a file have answers or none. An ``"id"`` (text or number) is what a prompt is
called, by default the number of its line. Blocks stand one after the other, have equally many tokens and leave at least
the last token, the query, behind them. Prompts may differ in length and in their blocks. Empty lines are skipped.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from posym_core.metrics import BlockLayout
from posym_profile.prompts._drafts import Prompts, find_beginning
from posym_profile.report._marked_text import EXAMPLE, parse_marked_prompt, parse_marked_prompts, shorten

KNOWN = {"input_ids", "start", "block_length", "blocks", "answer_ids", "target", "id"}
FORM = (
    'write {"input_ids": [...], "start": ..., "block_length": ..., "blocks": ...}, one a line; text with [[blocks]] '
    "goes into a file that is called .txt"
)
MARKED = f"write one a line, with [[ and ]] around its blocks: {EXAMPLE}"


class PromptFileError(ValueError):
    """A line of a prompt file cannot be used; the message says which, why and what to do."""


@dataclass(frozen=True, kw_only=True)
class BlockedPrompt:
    """One prompt as token ids, with blocks that may be swapped.

    Attributes:
        input_ids: the last one is the query.
        start: first token of the first block.
        block_length: tokens per block.
        blocks: number of blocks.
        id: what the tables call it.
        answer_ids: tokens to choose an answer from; empty for none.
        target: which of them is right.
    """

    input_ids: tuple[int, ...]
    start: int
    block_length: int
    blocks: int
    id: str
    answer_ids: tuple[int, ...] = ()
    target: int = 0

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """Return what prompts must share to be measured in one batch."""
        return len(self.input_ids), self.start, self.block_length, self.blocks, len(self.answer_ids)

    @property
    def layout(self) -> dict[str, int]:
        """Return ``start``, ``block_length`` and ``blocks``, as everything that looks at blocks takes them."""
        return {"start": self.start, "block_length": self.block_length, "blocks": self.blocks}

    def to_line(self) -> str:
        """Write the prompt as a line of a prompt file."""
        answers = {"answer_ids": self.answer_ids, "target": self.target} if self.answer_ids else {}
        return json.dumps({"id": self.id, "input_ids": self.input_ids, **self.layout, **answers})

    @classmethod
    def from_line(cls, line: str) -> BlockedPrompt:
        """Read the prompt of a line that :meth:`to_line` wrote."""
        fields = json.loads(line)
        lists = {name: tuple(fields.get(name, ())) for name in ("input_ids", "answer_ids")}
        return cls(**{**fields, **lists})


def group_prompts(prompts: Sequence[BlockedPrompt], members: Sequence[Any] = ()) -> dict[tuple, list[Any]]:
    """Group prompts, or what stands for each of them, by :attr:`BlockedPrompt.shape`."""
    shapes: dict[tuple, list[Any]] = {}
    for prompt, member in zip(prompts, members or prompts, strict=True):
        shapes.setdefault(prompt.shape, []).append(member)
    return shapes


def split_prompts(prompts: Prompts) -> list[BlockedPrompt]:
    """Split the prompts of a task into single ones."""
    answers = prompts.answer_ids.tolist()
    return [
        BlockedPrompt(
            input_ids=tuple(ids),
            **prompts.layout,
            id=str(number),
            answer_ids=tuple(answers[number]),
            target=int(prompts.target[number]),
        )
        for number, ids in enumerate(prompts.input_ids.tolist())
    ]


def join_prompts(prompts: Sequence[BlockedPrompt]) -> Prompts:
    """Join prompts of one :attr:`BlockedPrompt.shape` to a batch."""
    shapes = sorted(group_prompts(prompts))
    if len(shapes) != 1:
        raise ValueError(
            "a batch needs a prompt, and its prompts must be equally long, with equally many blocks and answers at "
            f"the same places; got {len(prompts)} prompts of {len(shapes)} shapes (tokens, start, block_length, "
            f"blocks, answers): {shorten(shapes)}. Join those of one shape, or profile the file from the command line"
        )
    return Prompts(
        input_ids=torch.tensor([prompt.input_ids for prompt in prompts]),
        **prompts[0].layout,
        answer_ids=torch.tensor([prompt.answer_ids for prompt in prompts], dtype=torch.int64),
        target=torch.tensor([prompt.target for prompt in prompts]),
        texts=[],
    )


def read_prompts(path: Path | str, tokenizer: Any) -> list[BlockedPrompt]:
    """Read a prompt file.

    Args:
        path: in UTF-8, see the module's docstring.
        tokenizer: of the model in question.

    Raises:
        PromptFileError: if a prompt cannot be used, or there is none; with file, line, rule and way out.
    """
    prompts: list[BlockedPrompt] = []
    for number, fields in read_fields(path):
        with _name_line(path, number):
            prompt = _from_text(fields, tokenizer) if "text" in fields else _from_ids(fields, len(tokenizer))
        prompts.append(BlockedPrompt(**prompt, id=str(fields["id"]), target=fields.get("target", 0)))
    return prompts


def read_marked_text(text: str, tokenizer: Any, *, id: str) -> BlockedPrompt:
    """Read one prompt of marked text, as a line of a ``.txt`` file."""
    return BlockedPrompt(**_from_text(parse_marked_prompt(text), tokenizer), id=id)


def read_fields(path: Path | str) -> list[tuple[int, dict[str, Any]]]:
    """Read a prompt file as far as it can be checked without a tokenizer: numbers of lines, and what stands there."""
    path = Path(path)
    prompts: list[tuple[int, dict[str, Any]]] = []
    lines: dict[str, int] = {}
    marked = path.suffix.casefold() == ".txt"
    for number, line in parse_marked_prompts(_read_lines(path)) if marked else enumerate(_read_lines(path), start=1):
        if not line.strip():
            continue
        with _name_line(path, number):
            fields = {"id": number, **(parse_marked_prompt(line) if marked else _read_ids(line))}
            if (first := lines.setdefault(str(fields["id"]), number)) != number:
                raise ValueError(f"'id' {str(fields['id'])!r} is that of line {first} already; give it another")
            if prompts and _has_answers(fields) != _has_answers(prompts[0][1]):
                raise ValueError(
                    f"it has {'answers' if _has_answers(fields) else 'no answers'}, unlike the prompt of line "
                    f"{prompts[0][0]}, and either all prompts of a file have answers or none; add or remove them"
                )
        prompts.append((number, fields))
    if not prompts:
        raise PromptFileError(f"{path} holds no prompt; {MARKED if marked else FORM}")
    return prompts


def write_prompts(prompts: Iterable[BlockedPrompt]) -> bytes:
    """Write prompts as the content of a prompt file, with token ids."""
    return "".join(prompt.to_line() + "\n" for prompt in prompts).encode()


@contextlib.contextmanager
def _name_line(path: Path | str, number: int) -> Iterator[None]:
    """Say of what cannot be used within the block in which line it stands."""
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise PromptFileError(f"{path}, line {number}: {error}") from error


def _read_lines(path: Path) -> list[str]:
    content = path.read_bytes()
    try:
        return io.StringIO(content.decode("utf-8-sig"), newline="").readlines()
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise PromptFileError(f"{path}, line {number}: this line is not UTF-8; save the file in UTF-8") from None


def _has_answers(fields: Mapping[str, Any]) -> bool:
    return "answers" in fields or "answer_ids" in fields


def _read_ids(line: str) -> dict[str, Any]:
    """Read a line of token ids, and raise if it breaks a rule that no tokenizer is needed for."""
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"a line must be one JSON object, but {error.msg} at column {error.colno}; {FORM}") from None
    if not isinstance(fields, dict) or "input_ids" not in fields:
        raise ValueError(f"a line must be a JSON object with 'input_ids'; {FORM}")
    if unknown := sorted(fields.keys() - KNOWN):
        raise ValueError(f"unknown {', '.join(map(repr, unknown))}; remove it (known: {', '.join(sorted(KNOWN))})")
    if missing := [name for name in ("start", "block_length") if name not in fields]:
        raise ValueError(f"{missing[0]!r} is missing; blocks of token ids begin at 'start' and have 'block_length'")
    if type(fields.get("id", 0)) not in (str, int) or not str(fields.get("id", 0)).isprintable():
        raise ValueError(f"'id' must be text that can be printed, or a whole number; got {shorten(fields['id'])}")
    for name, least in (("input_ids", 3), ("answer_ids", 2)):
        ids = fields.get(name, [0] * least)
        if not isinstance(ids, list) or len(ids) < least or not all(type(token) is int for token in ids):
            raise ValueError(f"{name!r} must be a list of at least {least} whole numbers; got {shorten(ids)}")
    answers, target = fields.get("answer_ids", []), fields.get("target", 0)
    if len(set(answers)) < len(answers):
        raise ValueError(f"'answer_ids' must be different tokens; got {shorten(answers)}")
    if type(target) is not int or not 0 <= target < max(1, len(answers)):
        raise ValueError(f"'target' must be a place in 'answer_ids', of which there are {len(answers)}; got {target!r}")
    _fit_blocks(fields)
    return fields


def _fit_blocks(fields: Mapping[str, Any]) -> BlockLayout:
    blocks: dict[str, Any] = {name: fields.get(name) for name in ("start", "block_length", "blocks")}
    return BlockLayout(**blocks).fit(len(fields["input_ids"]))


def _from_ids(fields: Mapping[str, Any], known: int) -> dict[str, Any]:
    for name in ("input_ids", "answer_ids"):
        if wrong := [token for token in fields.get(name, ()) if not 0 <= token < known]:
            raise ValueError(f"{name!r} must lie between 0 and {known - 1} for this model; got {wrong[0]}")
    return {
        **{name: fields[name] for name in ("start", "block_length")},
        "blocks": _fit_blocks(fields).blocks,
        "input_ids": tuple(fields["input_ids"]),
        "answer_ids": tuple(fields.get("answer_ids", ())),
    }


def _from_text(fields: Mapping[str, Any], tokenizer: Any) -> dict[str, Any]:
    """Return the tokens of a marked text, and where its blocks stand among them."""
    text, spans = fields["text"], fields["blocks"]
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} does not say which characters its tokens stand for; pass token ids instead"
        )
    if len(spans) < 2:
        raise ValueError(f"at least two blocks are needed to swap; got {len(spans)}")
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    beginning = find_beginning(tokenizer)
    owners = [_find_owner(text, tuple(offset), spans) for offset in offsets]
    counts = [owners.count(place) for place in range(len(spans))]
    if len(set(counts)) != 1 or counts[0] == 0:
        unequal = [counts.index(min(counts)), counts.index(max(counts))]
        pieces = {
            place: [text[slice(*offset)] for offset, owner in zip(offsets, owners, strict=True) if owner == place]
            for place in unequal
        }
        both = " and ".join(f"block {place} is {' '.join(map(repr, tokens))}" for place, tokens in pieces.items())
        raise ValueError(
            f"blocks must have equally many tokens, at least 1; got {shorten(counts)} with this tokenizer: {both}. "
            "Reword the text, or move the ends of the blocks"
        )
    first = owners.index(0)
    inside = owners[first : first + counts[0] * len(spans)]
    if inside != [place for place in range(len(spans)) for _ in range(counts[0])]:
        raise ValueError("blocks must stand one after the other, but there is text between two; add it to one of them")
    if first + len(inside) == len(owners):
        raise ValueError(
            f"the text ends with block {len(spans) - 1}, but its last token is the query and stands behind all blocks; "
            "add the words that ask"
        )
    return {
        "input_ids": (*beginning, *ids),
        "start": len(beginning) + first,
        "block_length": counts[0],
        "blocks": len(spans),
        "answer_ids": _find_answers(text, ids, fields.get("answers", []), tokenizer),
    }


def _find_answers(text: str, ids: list[int], answers: Sequence[str], tokenizer: Any) -> tuple[int, ...]:
    """Return the one token that each answer adds to a text of these tokens."""
    tokens: dict[int, str] = {}
    for answer in answers:
        whole = tokenizer(text + answer, add_special_tokens=False)["input_ids"]
        added = whole[len(ids) :]
        if whole[: len(ids)] != ids or len(added) != 1:
            effect = f"adds {len(added)}" if whole[: len(ids)] == ids else "changes those before it"
            raise ValueError(
                f"an answer must add one token to the text, but with this tokenizer {answer!r} {effect}; pass another "
                "word, or leave the answers of all prompts out"
            )
        if added[0] in tokens:
            raise ValueError(
                f"answers must be different tokens, but with this tokenizer {tokens[added[0]]!r} and {answer!r} are "
                "the same; leave one out"
            )
        tokens[added[0]] = answer
    return tuple(tokens)


def _find_owner(text: str, offset: tuple[int, int], spans: list[list[int]]) -> int | None:
    """Return the block that a token belongs to; white space at its ends does not count: tokenizers treat it apart."""
    first, last = offset
    piece = text[first:last]
    if piece.strip():
        first, last = first + len(piece) - len(piece.lstrip()), last - len(piece) + len(piece.rstrip())
    for place, (low, high) in enumerate(spans):
        if first < high and low < last:
            if low <= first and last <= high:
                return place
            raise ValueError(
                f"block {place}, [{low}, {high}], cuts the token {text[offset[0] : offset[1]]!r} at characters "
                f"{offset[0]} to {offset[1]}; let it end where a token does"
            )
    return None

"""Read prompts from files: marked text or JSON Lines, as the end of the file's name says.

``.txt`` is text with marked blocks, as ``_marked_text`` describes it. Any other file is JSON Lines, an object a line of
one of two kinds. With text, blocks are spans of characters, from the first to before the last, and the tokenizer's mark
of beginning is put in front::

    {"text": "Ann likes red. Bob likes blue. Bob likes", "blocks": [[0, 14], [14, 30]], "answers": [" blue", " red"]}

With token ids, blocks are counted in tokens from ``start``; ``blocks`` may be left out for as many as fit::

    {"input_ids": [2, 17, 5, 9, 17, 5, 8, 17], "start": 1, "block_length": 3, "blocks": 2, "answer_ids": [9, 8]}

``answers`` are what may follow the text, each one token of its own behind it, spaces and all; ``answer_ids`` are such
tokens. ``target`` says which of them is right, from 0 on; by default the first. Either all prompts of a file have
answers or none. Both kinds may have an ``"id"`` of their own (text or number, for the tables; by default the line's
number) and a ``"comment"``, which is ignored. Blocks stand one after the other, have equally many tokens and leave at
least the last token, the query, behind them. Prompts may differ in length and in their blocks. Empty lines are skipped.
"""

from __future__ import annotations

import codecs
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

KINDS = {
    "text": {"text", "blocks", "answers", "target", "id", "comment"},
    "input_ids": {"input_ids", "start", "block_length", "blocks", "answer_ids", "target", "id", "comment"},
}
FORM = (
    'write {"text": ..., "blocks": [[first character, character after the last], ...]} or {"input_ids": [...], '
    '"start": ..., "block_length": ..., "blocks": ...}, one a line; text with [[blocks]] goes into a file that is '
    "called .txt"
)
MARKED = f"write one a line, with [[ and ]] around its blocks: {EXAMPLE}"
NOT_UTF_8 = "this line is not UTF-8; save the file in UTF-8"
# Characters that are read as tokens at a time while a text may be too long: a tokenizer takes some 170 bytes for each.
PIECE = 20_000


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


def read_prompts(path: Path | str, tokenizer: Any, *, positions: int | None = None) -> list[BlockedPrompt]:
    """Read a prompt file.

    Args:
        path: in UTF-8, see the module's docstring.
        tokenizer: of the model in question.
        positions: tokens that the model was made for; a longer prompt is refused. By default none is.

    Raises:
        PromptFileError: if a prompt cannot be used, or there is none; with file, line, rule and way out.
    """
    prompts: list[BlockedPrompt] = []
    for number, fields in read_fields(path):
        with _name_line(path, number):
            if "text" in fields:
                prompt = _from_text(fields, tokenizer, positions)
            else:
                prompt = _from_ids(fields, len(tokenizer), positions)
        prompts.append(BlockedPrompt(**prompt, id=str(fields["id"]), target=fields.get("target", 0)))
    return prompts


def read_marked_text(text: str, tokenizer: Any, *, id: str) -> BlockedPrompt:
    """Read one prompt of marked text, as a line of a ``.txt`` file."""
    fields = {"id": id, **parse_marked_prompt(text)}
    _check_text(fields)
    return BlockedPrompt(**_from_text(fields, tokenizer), id=id)


def read_fields(path: Path | str) -> list[tuple[int, dict[str, Any]]]:
    """Read a prompt file as far as it can be checked without a tokenizer.

    Returns:
        The number of each prompt's line, and the prompt as an object of JSON Lines, with an ``id``.
    """
    path = Path(path)
    prompts: list[tuple[int, dict[str, Any]]] = []
    lines: dict[str, int] = {}
    marked = path.suffix.casefold() == ".txt"
    parse, read_lines = (parse_marked_prompt, _read_marked_prompts) if marked else (_json_fields, _read_json_lines)
    for number, line in read_lines(path):
        with _name_line(path, number):
            fields = {"id": number, **parse(line)}
            (_check_text if "text" in fields else _check_ids)(fields)
            if (first := lines.setdefault(str(fields["id"]), number)) != number:
                raise ValueError(
                    f"'id' {str(fields['id'])!r} is that of line {first} already, and ids tell prompts apart in the "
                    "tables; give it another"
                )
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


def _read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            if raw.strip():
                yield number, raw


def _read_marked_prompts(path: Path) -> Iterator[tuple[int, Any]]:
    content = path.read_bytes()
    try:
        lines = io.StringIO(content.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise PromptFileError(f"{path}, line {number}: {NOT_UTF_8}") from None
    yield from parse_marked_prompts(lines)


def _json_fields(raw: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of {NOT_UTF_8}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"a line must be one JSON object, but {error.msg} at column {error.colno}; {FORM}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"a line must be a JSON object; got {type(fields).__name__}; {FORM}")
    kinds = [kind for kind in KINDS if kind in fields]
    if len(kinds) != 1:
        raise ValueError(f"a prompt has either 'text' or 'input_ids'; got {', '.join(fields) or 'neither'}; {FORM}")
    unknown = sorted(fields.keys() - KINDS[kinds[0]])
    if unknown:
        allowed = ", ".join(sorted(KINDS[kinds[0]]))
        raise ValueError(f"unknown {', '.join(map(repr, unknown))} beside {kinds[0]!r}; remove it (known: {allowed})")
    return fields


def _has_answers(fields: Mapping[str, Any]) -> bool:
    return "answers" in fields or "answer_ids" in fields


def _check_shared(fields: Mapping[str, Any], name: str, kind: type) -> None:
    """Refuse a wrong id, or wrong answers, which are of a kind and stand under a name."""
    if type(fields["id"]) not in (str, int):
        raise ValueError(f"'id' must be text or a whole number; got {fields['id']!r}")
    answers, target = fields.get(name), fields.get("target", 0)
    if answers is None:
        if "target" in fields:
            raise ValueError(f"'target' says which of {name!r} is right, and there are none; add them or remove it")
        return
    what = "texts" if kind is str else "whole numbers"
    fits = isinstance(answers, list) and all(type(answer) is kind for answer in answers)
    if not fits or len(answers) < 2 or len(set(answers)) != len(answers) or "" in answers:
        raise ValueError(f"{name!r} must be a list of at least two different {what}; got {shorten(answers)}")
    if type(target) is not int or not 0 <= target < len(answers):
        raise ValueError(f"'target' must be a place in {name!r}, from 0 to {len(answers) - 1}; got {shorten(target)}")


def _check_ids(fields: Mapping[str, Any]) -> None:
    ids = fields["input_ids"]
    if not isinstance(ids, list) or len(ids) < 3 or not all(type(token) is int for token in ids):
        raise ValueError(f"'input_ids' must be a list of at least 3 whole numbers; got {shorten(ids)}")
    missing = [name for name in ("start", "block_length") if name not in fields]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing; blocks of token ids begin at 'start' and have 'block_length'")
    _check_shared(fields, "answer_ids", int)
    _swaps(fields)


def _check_text(fields: Mapping[str, Any]) -> None:
    text = fields["text"]
    if not isinstance(text, str):
        raise ValueError(f"'text' must be text; got {shorten(text)}")
    _check_spans(fields.get("blocks", []), len(text))
    _check_shared(fields, "answers", str)


def _swaps(fields: Mapping[str, Any]) -> BlockLayout:
    blocks: dict[str, Any] = {name: fields.get(name) for name in ("start", "block_length", "blocks")}
    return BlockLayout(**blocks).fit(len(fields["input_ids"]))


def _from_ids(fields: Mapping[str, Any], known: int, positions: int | None) -> dict[str, Any]:
    _require_positions(len(fields["input_ids"]), positions)
    for name in ("input_ids", "answer_ids"):
        if wrong := [token for token in fields.get(name, ()) if not 0 <= token < known]:
            raise ValueError(f"{name!r} must lie between 0 and {known - 1} for this model; got {wrong[0]}")
    return {
        **{name: fields[name] for name in ("start", "block_length")},
        "blocks": _swaps(fields).blocks,
        "input_ids": tuple(fields["input_ids"]),
        "answer_ids": tuple(fields.get("answer_ids", ())),
    }


def _require_positions(tokens: int, positions: int | None, *, characters: int = 0) -> None:
    """Refuse a prompt of more tokens than a model has positions; of ``characters`` more than were read."""
    if positions is not None and tokens > positions:
        many = f"more than {tokens:,} (it has {characters:,} characters)" if characters else f"{tokens:,}"
        raise ValueError(
            f"a prompt may have as many tokens as the model has positions (max_position_embeddings), {positions:,}; it "
            f"has {many}. Shorten it or make it several prompts; posym_profile.profile measures token ids of any length"
        )


def _require_short(text: str, tokenizer: Any, positions: int | None) -> None:
    """Refuse a text of more than twice as many tokens as a model has positions, before it is read as a whole."""
    if positions is None or len(text) <= PIECE:
        return
    tokens = 0
    for first in range(0, len(text), PIECE):
        # A word that is cut in two may be a token more.
        tokens += len(tokenizer(text[first : first + PIECE], add_special_tokens=False)["input_ids"]) - 1
        if tokens > 2 * positions:
            _require_positions(tokens, positions, characters=len(text))


def _from_text(fields: Mapping[str, Any], tokenizer: Any, positions: int | None = None) -> dict[str, Any]:
    text, spans = fields["text"], fields["blocks"]
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} does not say which characters its tokens stand for; pass 'input_ids' with "
            "'start' and 'block_length' instead of 'text'"
        )
    _require_short(text, tokenizer, positions)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    beginning = find_beginning(tokenizer)
    _require_positions(len(beginning) + len(ids), positions)
    owners = [_owner(text, tuple(offset), spans) for offset in offsets]
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
        "answer_ids": _answer_ids(text, ids, fields.get("answers", []), tokenizer),
    }


def _answer_ids(text: str, ids: list[int], answers: Sequence[str], tokenizer: Any) -> tuple[int, ...]:
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
        if (other := tokens.setdefault(added[0], answer)) != answer:
            raise ValueError(
                f"answers must be different tokens, but with this tokenizer {other!r} and {answer!r} are the same; "
                "leave one out"
            )
    return tuple(tokens)


def _check_spans(spans: Any, length: int) -> None:
    pairs = isinstance(spans, list) and all(isinstance(span, list) and len(span) == 2 for span in spans)
    if not pairs or not all(type(end) is int for span in spans for end in span):
        raise ValueError(
            f"'blocks' must be a list of [first character, character after the last]; got {shorten(spans)}"
        )
    if len(spans) < 2:
        raise ValueError(f"at least two blocks are needed to swap; got {len(spans)}")
    before = 0
    for place, (first, last) in enumerate(spans):
        if not before <= first < last <= length:
            raise ValueError(
                f"block {place} is [{first}, {last}], but blocks must be in order, not overlap, hold a character and "
                f"end within the text's {length} characters; correct its ends"
            )
        before = last


def _owner(text: str, offset: tuple[int, int], spans: list[list[int]]) -> int | None:
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

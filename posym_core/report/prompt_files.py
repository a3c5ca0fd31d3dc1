"""Prompts in files: JSON Lines, one prompt with its blocks a line.

A line is a JSON object of one of two kinds. With text, blocks are spans of characters, from the first to before the
last, and the tokenizer's mark of beginning is put in front:

    {"text": "Ann likes red. Bob likes blue. Bob likes", "blocks": [[0, 14], [14, 30]]}

With token ids, blocks are counted in tokens from ``start``; ``blocks`` may be left out for as many as fit:

    {"input_ids": [2, 17, 5, 9, 17, 5, 8, 17], "start": 1, "block_length": 3, "blocks": 2}

Both may have an ``"id"`` of their own (text or number, for the tables; by default the line's number) and a
``"comment"``, which is ignored. Blocks stand one after the other, have equally many tokens and leave at least the last
token, the query, behind them. Prompts may differ in length and in their blocks. Empty lines are skipped.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from posym_core.metrics.blocks import Swaps
from posym_core.tasks.prompts import Prompts

KINDS = {
    "text": {"text", "blocks", "id", "comment"},
    "input_ids": {"input_ids", "start", "block_length", "blocks", "id", "comment"},
}
FORM = (
    'write {"text": ..., "blocks": [[first character, character after the last], ...]} or {"input_ids": [...], '
    '"start": ..., "block_length": ..., "blocks": ...}'
)


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
        """What prompts must share to be measured in one batch."""
        return len(self.input_ids), self.start, self.block_length, self.blocks, len(self.answer_ids)

    def as_line(self) -> str:
        """The prompt as a line of a prompt file."""
        names = ("id", "input_ids", "start", "block_length", "blocks")
        return json.dumps({name: getattr(self, name) for name in names})


def task_prompts(prompts: Prompts) -> list[BlockedPrompt]:
    """The prompts of a task, one by one."""
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


def joined(prompts: Sequence[BlockedPrompt]) -> Prompts:
    """Prompts of one :attr:`BlockedPrompt.shape` as a batch."""
    first = prompts[0]
    return Prompts(
        input_ids=torch.tensor([prompt.input_ids for prompt in prompts]),
        start=first.start,
        block_length=first.block_length,
        blocks=first.blocks,
        answer_ids=torch.tensor([prompt.answer_ids for prompt in prompts], dtype=torch.int64),
        target=torch.tensor([prompt.target for prompt in prompts]),
        texts=[],
    )


def read_prompts(path: Path | str, tokenizer: Any, *, vocabulary: int | None = None) -> list[BlockedPrompt]:
    """Read a prompt file.

    Args:
        path: JSON Lines in UTF-8, see the module's docstring.
        tokenizer: of the model in question; needed for lines with text.
        vocabulary: number of tokens the model knows; by default the tokenizer's.

    Raises:
        PromptFileError: if a line cannot be used, or there is none; with file, line, rule and way out.
        OSError: if the file cannot be read.
    """
    path = Path(path)
    known = vocabulary or len(tokenizer)
    prompts: list[BlockedPrompt] = []
    lines: dict[str, int] = {}
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw.strip():
                continue
            try:
                fields = _fields(raw)
                prompt = _from_text(fields, tokenizer) if "text" in fields else _from_ids(fields, known)
                prompts.append(BlockedPrompt(**prompt, id=_name(fields, number)))
                if (first := lines.setdefault(prompts[-1].id, number)) != number:
                    raise ValueError(
                        f"'id' {prompts[-1].id!r} is that of line {first} already, and ids tell prompts apart in the "
                        "tables; give it another"
                    )
            except (ValueError, TypeError, RecursionError) as error:
                raise PromptFileError(f"{path}, line {number}: {error}") from error
    if not prompts:
        raise PromptFileError(f"{path} holds no prompt; {FORM}, one a line")
    return prompts


def write_prompts(prompts: Iterable[BlockedPrompt]) -> bytes:
    """Prompts as the content of a prompt file, with token ids."""
    return "".join(prompt.as_line() + "\n" for prompt in prompts).encode()


def _fields(raw: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} of this line is not UTF-8; save the file in UTF-8") from None
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


def _name(fields: dict[str, Any], number: int) -> str:
    name = fields.get("id", number)
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise ValueError(f"'id' must be text or a whole number; got {name!r}")
    return str(name)


def _from_ids(fields: dict[str, Any], known: int) -> dict[str, Any]:
    ids = fields["input_ids"]
    if not isinstance(ids, list) or len(ids) < 3 or not all(type(token) is int for token in ids):
        raise ValueError(f"'input_ids' must be a list of at least 3 whole numbers; got {_short(ids)}")
    wrong = [token for token in ids if not 0 <= token < known]
    if wrong:
        raise ValueError(f"'input_ids' must lie between 0 and {known - 1} for this model; got {wrong[0]}")
    missing = [name for name in ("start", "block_length") if name not in fields]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing; blocks of token ids begin at 'start' and have 'block_length'")
    blocks: dict[str, Any] = {name: fields.get(name) for name in ("start", "block_length", "blocks")}
    return {"input_ids": tuple(ids), **blocks, "blocks": Swaps(**blocks).fitted(len(ids)).blocks}


def _from_text(fields: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    text, spans = fields["text"], fields.get("blocks", [])
    if not isinstance(text, str):
        raise ValueError(f"'text' must be text; got {_short(text)}")
    _check_spans(spans, len(text))
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} does not say which characters its tokens stand for; pass 'input_ids' with "
            "'start' and 'block_length' instead of 'text'"
        )
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    owners = [_owner(text, tuple(offset), spans) for offset in encoded["offset_mapping"]]
    mark = getattr(tokenizer, "bos_token_id", None)
    beginning = [] if mark is None else [mark]
    counts = [owners.count(place) for place in range(len(spans))]
    if len(set(counts)) != 1 or counts[0] == 0:
        raise ValueError(
            f"blocks must have equally many tokens, at least 1; got {_short(counts)} with this tokenizer. Reword the "
            "text, or move the ends of the blocks"
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
    start = len(beginning) + first
    ids = (*beginning, *encoded["input_ids"])
    blocks = {"start": start, "block_length": counts[0], "blocks": len(spans)}
    Swaps(**blocks).fitted(len(ids))
    return {"input_ids": ids, **blocks}


def _check_spans(spans: Any, length: int) -> None:
    pairs = isinstance(spans, list) and all(isinstance(span, list) and len(span) == 2 for span in spans)
    if not pairs or not all(type(end) is int for span in spans for end in span):
        raise ValueError(f"'blocks' must be a list of [first character, character after the last]; got {_short(spans)}")
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
    """The block that a token belongs to; white space at its ends does not count, as tokenizers treat it differently."""
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


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."

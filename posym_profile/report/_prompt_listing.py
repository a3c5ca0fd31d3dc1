"""What a profile would measure, told before anything is: each prompt's blocks, as the tokens that a model reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posym_core._checks import require_counts
from posym_core.store import write_atomically
from posym_profile.language_models._loading import load_tokenizer
from posym_profile.prompts._drafts import ANCHOR
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, read_fields, write_fields, write_prompts
from posym_profile.scores._visibility import format_count

# Of a longer row, so many tokens are shown at either end.
TOKENS_SHOWN = 12


def list_prompts(
    settings: ProfileSettings, *, show: int = 3, out: Path | str | None = None, force: bool = False
) -> list[str]:
    """Lines that tell what a profile of these settings would measure; also writes the prompts as JSON Lines.

    Args:
        settings: of which the model's tokenizer and the prompts matter.
        show: how many prompts are told in full.
        out: file for the prompts, which can be the input of a profile. Prompts that came as text stay text, with the
            spans of their blocks; those of a task are token ids of this model.
        force: write over a file that is there.

    Raises:
        ValueError: if a setting is out of range, or a prompt is refused; nothing is written then.
        FileExistsError: if there is a file already, and not ``force``.
    """
    require_counts(show=(show, 0))
    path = None if out is None else Path(out)
    if path is not None:
        if path.suffix.casefold() in (".txt", ".csv"):
            raise ValueError(f"JSON Lines are written, and {path} would be read as something else; call it .jsonl")
        if path.exists() and not force:
            raise FileExistsError(f"{path} is there already; pass another --out, or --force to write over it")
        if not path.parent.is_dir():
            raise FileNotFoundError(
                f"there is no folder {path.parent} to write {path.name} in; make it, or pass another"
            )
    tokenizer = load_tokenizer(settings.model)
    prompts = settings.prompts_for(tokenizer)
    lengths = sorted({len(prompt.input_ids) for prompt in prompts})
    between = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"
    lines = [line for prompt in prompts[:show] for line in _told(prompt, tokenizer)]
    lines.append(
        f"{format_count(len(prompts), 'prompt')} of {between} tokens"
        + (f", the first {show} shown" if 0 < show < len(prompts) else "")
    )
    if path is not None:
        drawn = settings.input is None
        fields = [] if drawn else [said for _, said in read_fields(str(settings.input), template=settings.template)]
        write_atomically(path, write_prompts(prompts) if drawn else write_fields(fields))
        lines[-1] += f": {path}"
    return lines


def _told(prompt: BlockedPrompt, tokenizer: Any) -> list[str]:
    """A prompt's blocks, what stands before and behind them, and its answers, a row each."""
    shown = _token_texts(tokenizer, prompt.input_ids)
    ends = [prompt.start + place * prompt.block_length for place in range(prompt.blocks + 1)]
    blocks = [shown[first:last] for first, last in itertools.pairwise(ends)]
    rows = {
        "before": shown[: prompt.start],
        **{f"block {place}": block for place, block in enumerate(blocks)},
        "behind": shown[ends[-1] :],
    }
    answers = _token_texts(tokenizer, prompt.answer_ids)
    if answers:
        answers[prompt.target] += " (right)"
        rows["answers"] = answers
    width = max(map(len, rows))
    return [
        f"{prompt.id}: {format_count(len(shown), 'token')}; {format_count(prompt.blocks, 'block')} of "
        f"{format_count(prompt.block_length, 'token')} from token {prompt.start}; the last token is the query",
        *(f"  {name:<{width}}  {' '.join(_shortened(row))}" for name, row in rows.items() if row),
        "",
    ]


def _shortened(row: Sequence[str]) -> list[str]:
    left_out = len(row) - 2 * TOKENS_SHOWN
    if left_out <= 1:
        return list(row)
    return [*row[:TOKENS_SHOWN], f"... {left_out} more ...", *row[-TOKENS_SHOWN:]]


def _token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Each token as text behind other text, in quotes: some tokenizers leave out the space of a first one."""
    anchor = tokenizer(ANCHOR, add_special_tokens=False)["input_ids"]
    before = tokenizer.decode(anchor)
    found = [tokenizer.decode([*anchor, token]) for token in ids]
    return [repr(text.removeprefix(before)) for text in found]

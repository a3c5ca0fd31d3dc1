"""Count and put in words what a query of a prompt does not see, and prompts that a model was not made for.

A sliding window hides places, not contents. What a swap puts into a hidden place gets no attention, so attention stays
where it was whatever a head looks for: its scores say positional, by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from posym_profile.language_models._model_summary import get_text_config

POSITIONAL = (
    "What is swapped into a hidden block gets no attention, whatever a head looks for, so that heads of these layers "
    "come out as positional"
)


class HiddenBlocksWarning(UserWarning):
    """Blocks were scored that a query of some layers does not see, which makes heads positional."""


class LongPromptWarning(UserWarning):
    """Prompts are longer than the model was made for."""


def describe_hidden_blocks(
    visible: Sequence[Sequence[int]], blocks: Sequence[int], consequence: str, *, last: bool = True
) -> str | None:
    """Say in which layers blocks are not seen whole, and the consequence; None if all are seen.

    ``visible`` is ``[prompt, layer]``; unless the ``last`` token is asked alone, it has a row for each query of each
    prompt.
    """
    columns = enumerate(zip(*visible, strict=True))
    hidden = [layer for layer, counts in columns if any(seen < n for seen, n in zip(counts, blocks, strict=True))]
    if not hidden:
        return None
    who = "the last token does not" if last else "queries do not"
    why = "a sliding window, say" if last else "some stand behind them, or beyond a sliding window"
    return f"{who} see all blocks whole in {format_runs(hidden, 'layer')} ({why}). {consequence}"


def describe_long_prompts(beyond: Sequence[int]) -> str | None:
    """Say how many prompts are longer than the model was made for; None if none is."""
    longer = [tokens for tokens in beyond if tokens > 0]
    if not longer:
        return None
    return (
        f"{len(longer)} of {format_count(len(beyond), 'prompt')} {'is' if len(longer) == 1 else 'are'} longer than the "
        f"model's max_position_embeddings, by up to {format_count(max(longer), 'token')}: at such positions the model "
        "was not trained; pass shorter prompts"
    )


def format_count(number: int, thing: str) -> str:
    """Write a number with what it counts.

    >>> format_count(1, "prompt"), format_count(1200, "prompt")
    ('1 prompt', '1,200 prompts')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def shorten_name(model: str) -> str:
    """Return the last part of a model's name or path.

    >>> shorten_name("models/tiny/"), shorten_name("/")
    ('tiny', '/')
    """
    return model.rstrip("/").rpartition("/")[2] or model


def format_runs(numbers: Sequence[int], thing: str = "") -> str:
    """Write ascending numbers as runs: ``layers 0 to 4, 6``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"{thing}{'s' if len(numbers) > 1 else ''} {shown}" if thing else shown


def count_tokens_beyond(model: nn.Module, lengths: Sequence[int]) -> list[int]:
    """Count the tokens that prompts have beyond the model's :func:`find_position_limit`."""
    limit = find_position_limit(getattr(model, "config", None))
    return [0 if limit is None else max(0, length - limit) for length in lengths]


def find_position_limit(config: Any) -> int | None:
    """Find ``max_position_embeddings`` of a configuration; None if it has none, or angles grow with the prompt."""
    config = get_text_config(config)
    limit, rope = getattr(config, "max_position_embeddings", None), getattr(config, "rope_parameters", None) or {}
    kinds = {part.get("rope_type") for part in (rope, *rope.values()) if isinstance(part, dict)}
    return limit if isinstance(limit, int) and "dynamic" not in kinds else None

"""Count and put in words what a query of a prompt does not see.

A sliding window hides places, not contents. What a swap puts into a hidden place gets no attention, so attention stays
where it was whatever a head looks for: its scores say positional, by construction.
"""

from __future__ import annotations

from collections.abc import Sequence

POSITIONAL = (
    "What is swapped into a hidden block gets no attention, whatever a head looks for, so that heads of these layers "
    "come out as positional"
)


class HiddenBlocksWarning(UserWarning):
    """Blocks were scored that a query of some layers does not see, which makes heads positional."""


def describe_hidden_blocks(visible: Sequence[Sequence[int]], blocks: Sequence[int], consequence: str) -> str | None:
    """Say in which layers blocks are not seen whole, and the consequence; None if all are seen.

    ``visible`` is ``[prompt, layer]``, with a row for each query of each prompt where several are asked for.
    """
    columns = enumerate(zip(*visible, strict=True))
    hidden = [layer for layer, counts in columns if any(seen < n for seen, n in zip(counts, blocks, strict=True))]
    if not hidden:
        return None
    layers = f"layer{'s' if len(hidden) > 1 else ''} {', '.join(map(str, hidden))}"
    return f"queries do not see all blocks whole in {layers} (because of a sliding window, say). {consequence}"


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

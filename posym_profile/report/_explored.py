"""Draw the head explorer of one's own model and prompts.

The file, ``explorer.html``, asks no host and opens from a folder. It shows every head on the plane of its two scores,
at other temperatures and block lengths, and of a chosen head its attention to every token of every prompt in it, the
shares of its logits' variance, its rotation planes and its ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from posym_core._checks import require_positive
from posym_figures import ExplorerFigure, HeadInput, format_tau, head_explorer
from posym_profile.capture._wrappers import unwrap
from posym_profile.prompts._drafts import Prompts
from posym_profile.report._measuring import ProfileSettings
from posym_profile.report._prompt_files import read_marked_text
from posym_profile.scores._head_views import Cuts, average_views, make_head_views
from posym_profile.scores._visibility import format_count, shorten_name

NAME = "explorer.html"
PROMPTS = 16
"""Prompts of an explorer at most, and :data:`TOKENS`, what these have in all unless one alone has more."""
TOKENS = 2_000
FILE_LIMIT = 24_000_000
"""Bytes of numbers that the file may hold: what a phone opens in a few seconds."""
TAUS = tuple(float(f"{10 ** (power / 2):.0e}") for power in range(-10, 1))
"""Temperatures that the slider steps, beside that of the profile."""
LENGTHS = 5
"""Block lengths at most, and :data:`BLOCKS`, blocks of a cut that is not the prompts' own: their pairs are scored."""
BLOCKS = 128
CAPTION = (
    "Every head of {model}. Two blocks of keys are swapped: a head is positional as far as its attention stays at its "
    "places (to the right) and symbolic as far as it goes with the contents (upwards). Choose a head on the plane, on "
    "the map (arrow keys move there) or in the list. Crosses are 95% intervals over prompts, the dotted trail shows "
    "where the head goes when the temperature alone changes. The prompt is shaded by the attention of its last token; "
    "point at a token, or tap it, for its share."
)
ALT = (
    "Heads in a unit square, positional score to the right, symbolic score upwards; beside them one head with its "
    "scores, shares, attention, planes and ranks."
)


def explore(model: Any, tokenizer: Any, text: str, *, tau: float = 1e-4) -> ExplorerFigure:
    """Show the head explorer of one prompt.

    >>> model, tokenizer = load_model()  # doctest: +SKIP
    >>> explore(model, tokenizer, "[[Ann likes red.]] [[Bob likes blue.]] Bob likes")  # doctest: +SKIP

    Args:
        model: see :func:`posym_profile.profile`.
        tokenizer: of the model, a fast one.
        text: with ``[[`` and ``]]`` around blocks of equally many tokens.
        tau: temperature of the weights over pairs of blocks that is shown first.

    Returns:
        A figure that displays itself; ``save`` writes it as a page that asks no host.
    """
    require_positive("tau", tau)
    plain = unwrap(model)
    prompts = [read_marked_text(text, tokenizer)]
    return draw_explorer(model, tokenizer, prompts, name=type(plain).__name__, source="of your own", tau=float(tau))


def make_explorer_page(
    settings: ProfileSettings, prompts: Sequence[Prompts], model: Any, tokenizer: Any
) -> dict[str, bytes]:
    """Measure prompts of a profile again, at other temperatures and block lengths, and return the page by its name."""
    name = shorten_name(settings.model)
    source = f"the task {settings.task}" if settings.task else f"the file {Path(str(settings.input)).name}"
    same: dict[str, Any] = {"tau": settings.tau, "visible_only": settings.visible_only}
    figure = draw_explorer(model, tokenizer, choose_explored(prompts), name=name, source=f"from {source}", **same)
    return {NAME: figure.page(f"Head explorer of {name}").encode()}


def choose_explored(prompts: Sequence[Prompts]) -> list[Prompts]:
    """Choose as many prompts as a page has room for, at least one; those of the most common shape come first."""
    chosen: list[Prompts] = []
    number, tokens = PROMPTS, TOKENS
    for of_shape in sorted(prompts, key=len, reverse=True):
        length = of_shape.input_ids.shape[1]
        some = of_shape[: min(number, max(tokens // length, 0 if chosen else 1))]
        chosen += [some] if len(some) else []
        number, tokens = number - len(some), tokens - len(some) * length
    return chosen


def list_block_lengths(prompts: Prompts) -> list[int]:
    """List the tokens a block for the slider: those of the prompts, 1, and halves and doubles that come out even."""
    block_length, blocks = prompts.block_length, prompts.blocks
    span = block_length * blocks
    halves = [block_length // part for part in (2, 4) if block_length % part == 0]
    doubles = [block_length * times for times in range(2, blocks // 2 + 1) if blocks % times == 0]
    others = [1, *doubles[:2], *halves, *doubles[2:]]
    fine = [length for length in dict.fromkeys(others) if length != block_length and span // length <= BLOCKS]
    return sorted([block_length, *fine[: LENGTHS - 1]])


def draw_explorer(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompts],
    *,
    name: str,
    source: str,
    tau: float,
    visible_only: bool = False,
) -> ExplorerFigure:
    """Draw the explorer of these prompts, of which those of one shape are one input."""
    taus, inputs = sorted({*TAUS, tau}), []
    for place, of_shape in enumerate(prompts):
        cuts = Cuts(
            of_shape.start,
            of_shape.block_length * of_shape.blocks,
            lengths=list_block_lengths(of_shape),
            taus=taus,
            shown=(of_shape.block_length, tau),
            visible_only=visible_only,
        )
        arrays = average_views(make_head_views(model, of_shape.input_ids, cuts))
        inputs.append(_make_input(f"shape{place}", of_shape, arrays, cuts, source, tokenizer))
    first, length = inputs[0], prompts[0].block_length
    on_blocks = first.arrays["attention"][..., first.start : first.start + first.span].sum(-1)
    layer, head = np.unravel_index(int(np.nan_to_num(on_blocks).argmax()), on_blocks.shape)
    return head_explorer(
        inputs,
        taus=taus,
        angles=first.arrays["angles"],
        caption=CAPTION.format(model=name),
        alt=ALT,
        length=length,
        tau=tau,
        head=(int(layer), int(head)),
        plane_note=f"{format_count(length, 'token')} a block, τ = {format_tau(tau)}",
        limit=FILE_LIMIT,
    )


def _make_input(
    name: str, prompts: Prompts, arrays: Mapping[str, Any], cuts: Cuts, source: str, tokenizer: Any
) -> HeadInput:
    """Return an input of the explorer; a prompt is called by its name and how it ends."""
    tokens = [decode_tokens(ids, tokenizer) for ids in prompts.input_ids.tolist()]
    whole = [" ".join("".join(texts).split()) for texts in tokens]
    ends = [text if len(text) <= 48 else f"… {text[-48:]}" for text in whole]
    blocks = f"{format_count(prompts.blocks, 'block')} of {format_count(prompts.block_length, 'token')}"
    kind = f"{format_count(len(prompts), 'prompt')} of {format_count(prompts.input_ids.shape[1], 'token')}"
    return HeadInput(
        name,
        f"{kind}, {blocks}",
        note=f"{kind} {source}: {blocks} from token {cuts.start} on.",
        tokens=tokens,
        start=cuts.start,
        span=cuts.span,
        lengths=cuts.lengths,
        arrays=arrays,
        labels=[f"{label}: {end}" for label, end in zip(prompts.names, ends, strict=True)],
    )


def decode_tokens(input_ids: Sequence[int], tokenizer: Any) -> list[str]:
    """Return what each token adds to the text, with spaces that a tokenizer leaves out at the beginning of a text."""

    def text(ids: Sequence[int]) -> str:
        return tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)

    added = [text(input_ids[:1])]
    for before, token in pairwise(input_ids):
        start, both = text([before]), text([before, token])
        # Where the two are parts of one letter, neither is the beginning of what they are together.
        added.append(both[len(start) :] if both.startswith(start) else text([token]))
    return added

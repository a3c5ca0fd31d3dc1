"""Make the head explorer of one's own model and prompts.

The file, ``explorer.html``, asks no host and opens from a folder. It shows every head on the plane of its two scores,
at other temperatures and block lengths, and of a chosen head its attention to every token of every prompt in it, the
shares of its logits' variance, its rotation planes and its ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from posym_core._checks import require_count, require_positive
from posym_figures import ExplorerFigure, HeadInput, count_packed_bytes, format_tau, head_explorer, select_layers
from posym_profile.capture._wrappers import unwrap
from posym_profile.language_models._loading import load_config
from posym_profile.language_models._model_summary import get_text_config
from posym_profile.report._measuring import choose_pass_size
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, group_prompts, join_prompts, read_marked_text
from posym_profile.scores._head_views import Cuts, average_views, make_head_views
from posym_profile.scores._visibility import format_count, shorten_name

NAME = "explorer.html"
PROMPTS = 16
"""Prompts of an explorer unless another number is asked for."""
FILE_LIMIT = 24_000_000
"""Bytes of numbers that the file may hold: what a phone opens in a few seconds."""
TAUS = tuple(float(f"{10 ** (power / 2):.0e}") for power in range(-10, 1))
"""Temperatures that the slider steps, beside that of the profile."""
LENGTHS = 5
"""Block lengths at most, and :data:`BLOCKS`, blocks of a cut that is not the prompts' own: their pairs are scored."""
BLOCKS = 128
# On the page a token's text takes about this many bytes.
TEXT = 12
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


@dataclass(frozen=True, kw_only=True)
class Explorer:
    """The explorer that is written with a profile.

    Attributes:
        prompts: the first so many are in it, one by one and in all means; those of one shape together.
        layers: which layers are in it; by default all.
    """

    prompts: int = PROMPTS
    layers: Sequence[int] | None = None

    def __post_init__(self) -> None:
        require_count("explorer_prompts", self.prompts, 1)
        layers = self.layers
        if layers is not None and (not layers or len(set(layers)) < len(layers) or min(layers) < 0):
            raise ValueError(f"layers of the explorer must be different numbers from 0 on; got {list(layers)}")

    def check(self, settings: ProfileSettings, prompts: Sequence[BlockedPrompt]) -> None:
        """Raise if the numbers of these prompts are more than a file may hold."""
        _require_room(load_config(settings.model), prompts[: self.prompts], settings.tau, self.layers)

    def make_pages(
        self, settings: ProfileSettings, prompts: Sequence[BlockedPrompt], model: Any, tokenizer: Any
    ) -> dict[str, bytes]:
        """Measure the prompts again, at other temperatures and block lengths, and return the page by its name."""
        name = shorten_name(settings.model)
        shown = _Explored(
            model=model,
            tokenizer=tokenizer,
            name=name,
            tau=settings.tau,
            visible_only=settings.visible_only,
            batch_size=settings.batch_size,
            layers=self.layers,
        )
        source = (
            f"from the task {settings.task}" if settings.task else f"from the file {Path(str(settings.input)).name}"
        )
        return {NAME: shown.draw(prompts[: self.prompts], source).page(f"Head explorer of {name}").encode()}


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
    shown = _Explored(model=model, tokenizer=tokenizer, name=type(unwrap(model)).__name__, tau=float(tau))
    prompt = read_marked_text(text, tokenizer, id="prompt")
    _require_room(getattr(unwrap(model), "config", None), [prompt], tau, None)
    return shown.draw([prompt], "of your own")


def list_block_lengths(block_length: int, blocks: int) -> list[int]:
    """List the tokens a block for the slider: those of the prompts, 1, and halves and doubles that come out even.

    >>> list_block_lengths(4, 16), list_block_lengths(7, 10), list_block_lengths(1, 64)
    ([1, 2, 4, 8, 16], [1, 7, 14, 35], [1, 2, 4, 8, 16])
    """
    span = block_length * blocks
    halves = [block_length // part for part in (2, 4) if block_length % part == 0]
    doubles = [block_length * times for times in range(2, blocks // 2 + 1) if blocks % times == 0]
    others = [1, *doubles[:2], *halves, *doubles[2:]]
    fine = [length for length in dict.fromkeys(others) if length != block_length and span // length <= BLOCKS]
    return sorted([block_length, *fine[: LENGTHS - 1]])


@dataclass(frozen=True, kw_only=True)
class _Explored:
    """Makes explorers of one model; options as of :class:`ProfileSettings`."""

    model: Any
    tokenizer: Any
    name: str
    tau: float
    visible_only: bool = False
    batch_size: int | None = None
    layers: Sequence[int] | None = None

    def draw(self, prompts: Sequence[BlockedPrompt], source: str) -> ExplorerFigure:
        """Draw the explorer of these prompts; those of one shape are one input, the most common shape first."""
        groups = sorted(group_prompts(prompts).values(), key=len, reverse=True)
        views = [self.measure(group) for group in groups]
        angles = views[0]["angles"]
        layers = list(range(len(angles))) if self.layers is None else list(self.layers)
        _require_layers(layers, len(angles))
        inputs = [
            self.make_input(group, select_layers(arrays, layers), source, place)
            for place, (group, arrays) in enumerate(zip(groups, views, strict=True))
        ]
        first, shown = inputs[0], groups[0][0].block_length
        on_blocks = first.arrays["attention"][..., first.start : first.start + first.span].sum(-1)
        head = np.unravel_index(int(np.nan_to_num(on_blocks).argmax()), on_blocks.shape)
        return head_explorer(
            inputs,
            taus=self.taus,
            angles=angles[layers],
            caption=CAPTION.format(model=self.name),
            alt=ALT,
            length=shown,
            tau=self.tau,
            head=(int(head[0]), int(head[1])),
            layers=layers,
            plane_note=f"{format_count(shown, 'token')} a block, τ = {format_tau(self.tau)}",
            limit=FILE_LIMIT,
        )

    @property
    def taus(self) -> list[float]:
        return sorted({*TAUS, self.tau})

    def measure(self, prompts: Sequence[BlockedPrompt]) -> dict[str, np.ndarray]:
        """Measure prompts of one shape."""
        first = prompts[0]
        cuts = Cuts(
            first.start,
            first.block_length * first.blocks,
            lengths=list_block_lengths(first.block_length, first.blocks),
            taus=self.taus,
            shown=(first.block_length, self.tau),
            visible_only=self.visible_only,
        )
        length = len(first.input_ids)
        size = choose_pass_size(length, self.batch_size)
        return average_views(make_head_views(self.model, join_prompts(prompts).input_ids, cuts, batch_size=size))

    def make_input(
        self, prompts: Sequence[BlockedPrompt], arrays: Mapping[str, Any], source: str, place: int
    ) -> HeadInput:
        """Make an input of the explorer."""
        first = prompts[0]
        span = first.block_length * first.blocks
        texts = [decode_tokens(prompt.input_ids, self.tokenizer) for prompt in prompts]
        blocks = f"{format_count(first.blocks, 'block')} of {format_count(first.block_length, 'token')}"
        kind = f"{format_count(len(prompts), 'prompt')} of {format_count(len(first.input_ids), 'token')}"
        return HeadInput(
            f"shape{place}",
            f"{kind}, {blocks}",
            note=f"{kind} {source}: {blocks} from token {first.start} on.",
            tokens=texts,
            start=first.start,
            span=span,
            lengths=list_block_lengths(first.block_length, first.blocks),
            arrays=arrays,
            labels=[_label(prompt, text) for prompt, text in zip(prompts, texts, strict=True)],
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


def _label(prompt: BlockedPrompt, texts: Sequence[str]) -> str:
    """Write what a prompt is chosen by: its id, and how it ends."""
    whole = " ".join("".join(texts).split())
    return f"{prompt.id}: {whole if len(whole) <= 48 else '… ' + whole[-48:]}"


def estimate_size(
    config: Any, prompts: Sequence[BlockedPrompt], tau: float, layers: Sequence[int] | None = None
) -> int:
    """Estimate the bytes of an explorer's numbers from a model's configuration; 0 if that does not tell its sizes."""
    text = get_text_config(config)
    number, heads = (getattr(text, name, None) for name in ("num_hidden_layers", "num_attention_heads"))
    if not isinstance(number, int) or not isinstance(heads, int):
        return 0
    dim = getattr(text, "head_dim", None) or getattr(text, "hidden_size", 0) // heads
    sizes = {"taus": len({*TAUS, tau}), "layers": number if layers is None else len(layers), "heads": heads}
    total = 0
    for group in group_prompts(prompts).values():
        first, tokens = group[0], len(group[0].input_ids)
        lengths = len(list_block_lengths(first.block_length, first.blocks))
        total += count_packed_bytes(**sizes, planes=dim // 2, lengths=lengths, tokens=tokens, prompts=len(group))
        total += TEXT * tokens * len(group)
    return total


def _require_layers(layers: Sequence[int], number: int) -> None:
    if max(layers) >= number:
        raise ValueError(
            f"layers of the explorer must be below {number}, which attend in this model; got {max(layers)}"
        )


def _require_room(config: Any, prompts: Sequence[BlockedPrompt], tau: float, layers: Sequence[int] | None) -> None:
    """Refuse prompts whose numbers, with this model's heads, are more than a file may hold."""
    number = getattr(get_text_config(config), "num_hidden_layers", None)
    if layers is not None and isinstance(number, int):
        _require_layers(layers, number)
    size = estimate_size(config, prompts, tau, layers)
    if size <= FILE_LIMIT:
        return
    fits = [n for n in range(1, len(prompts)) if estimate_size(config, prompts[:n], tau, layers) <= FILE_LIMIT]
    fewer = f"fewer prompts (--explorer-prompts {fits[-1]}), " if fits else ""
    longest = max(len(prompt.input_ids) for prompt in prompts)
    raise ValueError(
        f"an explorer may hold {FILE_LIMIT / 1e6:.0f} MB of numbers, but those of "
        f"{format_count(len(prompts), 'prompt')} of up to {format_count(longest, 'token')} would be {size / 1e6:.0f} "
        f"MB with this model's heads; pass {fewer}shorter prompts, or fewer layers (--explorer-layers 0-7)"
    )

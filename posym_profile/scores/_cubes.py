"""Tell what the heads of a language model follow when keys change places: symbol, origin or place.

See ``cube_parts`` for the three; the scores of :func:`posym_profile.profile` cannot tell the
first two apart.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posym_core._checks import require_count
from posym_core.metrics import (
    BlockLayout,
    arrange_cube,
    check_read,
    compute_block_logits,
    draw_latin_square,
    measure_prompt_variance,
    normalize_parts,
    permute_blocks,
    split_variance,
)
from posym_profile.capture._capturing import check_input_ids
from posym_profile.capture._wrappers import unwrap
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import NUMBERS_HELD, map_layers
from posym_profile.scores._visibility import HiddenBlocksWarning, describe_hidden_blocks


@dataclass(frozen=True, kw_only=True, repr=False)
class KeyAnova:
    """Three-way analysis of variance of every head's logits by a key's symbol, origin and place; on the CPU.

    Attributes:
        logits: of each symbol at each place when its key was computed at each origin; soft-capped, float64. ``-inf`` at
            places whose keys a layer's last token does not see at all, NaN for heads that a layer does not have.
        orders: which symbol stood at each place of each prompt, the rows of a Latin square. Symbols are numbered as
            the blocks of the given prompt.
        seen: places that a layer's last token sees whole; the parts are over these.
        parts: variance of the logits that goes with each of the seven parts, by name, ``[layer, head]``: ``symbol``,
            ``origin``, ``place``, ``symbol_origin``, ``symbol_place``, ``origin_place``, ``all_three``. NaN where
            nothing varies beyond rounding.
        prompts: variance between the prompts' means, a part of ``symbol_origin``.
    """

    logits: Float[Tensor, "layer head symbol origin place"]
    orders: Int[Tensor, "prompt place"]
    seen: Bool[Tensor, "layer place"]
    parts: Mapping[str, Float[Tensor, "layer head"]]
    prompts: Float[Tensor, "layer head"]

    def __repr__(self) -> str:
        layers, heads, blocks = self.logits.shape[:3]
        return f"KeyAnova({layers} layers of {heads} heads, {blocks} blocks; parts {', '.join(self.parts)})"

    @functools.cached_property
    def shares(self) -> dict[str, Float[Tensor, "layer head"]]:
        """Return the seven parts as shares of the whole variance: non-negative, with the sum 1."""
        return normalize_parts(self.parts)

    @functools.cached_property
    def symbolic_shares(self) -> dict[str, Float[Tensor, "layer head"]]:
        """Return ``symbol``, ``origin`` and ``symbol_origin`` as shares of the symbolic part of a single prompt.

        The symbolic part of a prompt is the variance of the row means of its cross-logit matrix. Its mean over the
        prompts of the square is the sum of the three without what differs between the prompts.
        """
        apart = {**self.parts, "symbol_origin": (self.parts["symbol_origin"] - self.prompts).clamp_min(0)}
        return normalize_parts(apart, ("symbol", "origin", "symbol_origin"))


def origin_cube(
    model: nn.Module,
    input_ids: Int[Tensor, " token"],
    *,
    start: int,
    block_length: int,
    blocks: int | None = None,
    seed: int = 0,
    read: int | None = None,
    progress: bool = False,
    batch_size: int | None = None,
) -> KeyAnova:
    """Take symbol and origin of what heads read apart: one prompt, its blocks in the orders of a random Latin square.

    From the second layer on a key is a hidden state that was computed at its place, so a swap of keys moves what the
    block says and where it was said. In as many prompts as there are blocks every block stands at every place once;
    each prompt's cross-logits are known in closed form. The score's own question, place against content, is that of
    Urrutia et al. (2026a, section 4); the cube is this project's.

    Args:
        model: see :func:`posym_profile.profile`.
        input_ids: one prompt, ``[token]`` or ``[1, token]``.
        start, block_length, blocks, progress: see :func:`posym_profile.profile`; the model runs once a block.
        seed: of the Latin square.
        read: offset of the one key of a block whose logit counts; by default the log-sum-exp over the block's keys.
        batch_size: prompts per forward pass; by default about 4,096 tokens.

    Returns:
        A :class:`KeyAnova`.

    Raises:
        UnsupportedModelError: if the model is not a decoder with rotary encoding that can be captured.

    Warns:
        HiddenBlocksWarning: if a layer does not see all blocks whole; its parts are over the places that it sees.

    >>> result = origin_cube(model, prompts.input_ids[0], **prompts.layout)  # doctest: +SKIP
    >>> result.shares["symbol"][layer, head], result.shares["origin"][layer, head]  # doctest: +SKIP
    """
    model = unwrap(model)
    prompt = check_input_ids(input_ids, least=3)
    if len(prompt) != 1:
        raise ValueError(f"origin_cube permutes the blocks of one prompt; got {len(prompt)}. Call it once for each")
    swaps = BlockLayout(start=start, block_length=block_length, blocks=blocks).fit(prompt.shape[1])
    check_read(read, block_length)
    require_count("seed", seed, 0)
    orders = draw_latin_square(swaps.number, torch.Generator().manual_seed(seed))
    measured = map_layers(
        model,
        permute_blocks(prompt[0].cpu(), orders, start=start, block_length=block_length),
        functools.partial(measure_cube_logits, swaps=swaps, read=read),
        progress=progress,
        batch_size=batch_size,
        hold=NUMBERS_HELD,
    )
    seen = measured["seen"][0, :, 0].bool()
    consequence = "Parts are over the places seen whole; pass a shorter prompt"
    if warning := describe_hidden_blocks([seen.sum(-1).tolist()], [swaps.number], consequence):
        warnings.warn(warning, HiddenBlocksWarning, stacklevel=2)
    return make_key_anova(measured["logits"].transpose(0, 1), orders, seen, rounding=torch.finfo(torch.float32).eps)


def make_key_anova(
    logits: Float[Tensor, "layer prompt head content place"],
    orders: Int[Tensor, "prompt place"],
    seen: Bool[Tensor, "layer place"],
    *,
    rounding: float = torch.finfo(torch.float64).eps,
) -> KeyAnova:
    """Analyze the block logits of a Latin square of prompts, see :func:`posym_core.metrics.compute_block_logits`.

    ``orders`` and ``seen`` as in :class:`KeyAnova`, ``rounding`` as in :func:`posym_core.metrics.split_variance`.
    """
    cube = arrange_cube(logits.double().transpose(0, 1), orders)
    parts = split_variance(cube, seen[:, None], rounding=rounding)
    prompts = measure_prompt_variance(cube, orders, seen[:, None])
    return KeyAnova(logits=cube, orders=orders, seen=seen, parts=parts, prompts=prompts)


def measure_cube_logits(
    heads: LayerHeads, swaps: BlockLayout, *, read: int | None = None
) -> dict[str, Float[Tensor, "prompt key_head group *rest"]]:
    """Measure of a layer, in :func:`posym_profile.scores.map_layers`, what :func:`make_key_anova` needs.

    Args:
        heads: of a layer, on reordered prompts.
        swaps: which blocks, fitted to the prompts.
        read: see :func:`origin_cube`.

    Returns:
        ``logits`` ``[prompt, key_head, group, content, place]``, and ``seen`` ``[prompt, key_head, group, place]``,
        which places the last token sees whole.
    """
    seen = heads.find_seen_blocks(swaps)[:, None, None].expand(*heads.query.shape[:3], -1)
    return {"logits": compute_block_logits(heads, swaps, read=read), "seen": seen}

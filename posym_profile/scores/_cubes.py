"""Tell what the heads of a language model follow when keys change places: symbol, origin or place.

See ``cube_parts`` for the three; the scores of :func:`posym_profile.profile` cannot tell the
first two apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posym_core._checks import require_count
from posym_core.metrics import (
    AXES,
    PARTS,
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
from posym_profile.prompts._drafts import Prompts
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import NUMBERS_HELD, map_layers
from posym_profile.scores._profiling import describe_prompts, read_layout
from posym_profile.scores._visibility import HiddenBlocksWarning, describe_hidden_blocks

if TYPE_CHECKING:
    from xarray import Dataset


def origin_cube(
    model: nn.Module,
    prompts: Prompts | Int[Tensor, "prompt token"] | Int[Tensor, " token"],
    *,
    start: int | None = None,
    block_length: int | None = None,
    blocks: int | None = None,
    seed: int = 0,
    read: int | None = None,
    logits: bool = False,
    progress: bool = False,
    batch_size: int | None = None,
) -> Dataset:
    """Take symbol and origin of what heads read apart: each prompt, its blocks in the orders of a random Latin square.

    From the second layer on a key is a hidden state that was computed at its place, so a swap of keys moves what the
    block says and where it was said. In as many texts as there are blocks every block stands at every place once;
    each text's cross-logits are known in closed form. The score's own question, place against content, is that of
    Urrutia et al. (2026a, section 4); the cube is this project's.

    Args:
        model, prompts, start, block_length, blocks: see :func:`posym_profile.profile`; for each prompt the model runs
            once a block.
        seed: of the Latin square, which is the same for all prompts.
        read: offset of the one key of a block whose logit counts; by default the log-sum-exp over the block's keys.
        logits: also keep the cube itself, 8 bytes times the cube of the number of blocks for each head and prompt.
        progress: show a progress bar for each prompt.
        batch_size: texts per forward pass; by default about 4,096 tokens.

    Returns:
        An :class:`xarray.Dataset` with the dimensions ``prompt``, ``layer`` and ``head``. NaN for heads that a layer
        does not have, and where nothing varies beyond rounding.

        * ``symbol_share``, ``origin_share``, ``place_share``, and of their interactions ``symbol_origin_share``,
          ``symbol_place_share``, ``origin_place_share`` and ``all_three_share``: what part of the variance of a head's
          logits goes with each. None is negative, and their sum is 1.
        * ``symbolic_part_symbol``, ``symbolic_part_origin``: the shares of symbol and origin in the symbolic part of a
          single prompt, the variance of the row means of its cross-logit matrix; their interaction has the rest.
        * ``variance`` ``[..., part]``: the seven parts themselves, and ``prompt_variance`` between the means of the
          square's texts, which belongs to no single prompt.
        * ``seen`` ``[prompt, layer, place]``: places that a layer's last token sees whole; all parts are over these.
        * ``orders`` ``[prompt, order, place]``: which block stood at each place of each text, the rows of the square.
        * with ``logits``: ``logits`` ``[prompt, layer, head, symbol, origin, place]``, those of each symbol at each
          place when its key was computed at each origin; soft-capped, ``-inf`` at places that a layer's last token
          does not see at all.

    Raises:
        UnsupportedModelError: if the model is not a decoder with rotary encoding that can be captured.

    Warns:
        HiddenBlocksWarning: if a layer does not see all blocks whole; its parts are over the places that it sees.

    >>> cube = origin_cube(model, prompts[:1])  # doctest: +SKIP
    >>> cube.symbol_share[0, layer, head], cube.origin_share[0, layer, head]  # doctest: +SKIP
    >>> top_heads(scores.merge(cube), 5, by="origin_share")  # doctest: +SKIP
    """
    model = unwrap(model)
    input_ids, layout = read_layout(prompts, start, block_length, blocks)
    texts = check_input_ids(input_ids, least=3).cpu()
    swaps = layout.fit(texts.shape[1])
    check_read(read, swaps.block_length)
    require_count("seed", seed, 0)
    orders = draw_latin_square(swaps.number, torch.Generator().manual_seed(seed))
    of_texts: list[dict[str, Tensor]] = []
    for text in texts:
        reads, passes = {"logits": read}, {"progress": progress, "batch_size": batch_size}
        cubes, seen = measure_square(model, text, orders, swaps, reads, **passes)
        parts = split_cube(cubes["logits"], orders, seen)
        of_texts.append({**parts, "seen": seen, "orders": orders, **(cubes if logits else {})})
    measured = {name: torch.stack([of_text[name] for of_text in of_texts]) for name in of_texts[0]}
    consequence = "Parts are over the places seen whole; pass a shorter prompt"
    if warning := describe_hidden_blocks(measured["seen"].sum(-1).tolist(), [swaps.number] * len(texts), consequence):
        warnings.warn(warning, HiddenBlocksWarning, stacklevel=2)
    described = describe_prompts(tabulate_cubes(measured), model, [texts.shape[1]] * len(texts))
    return described.assign_attrs(seed=seed, read=str(read))


def measure_square(
    model: nn.Module,
    text: Int[Tensor, " token"],
    orders: Int[Tensor, "order place"],
    swaps: BlockLayout,
    reads: Mapping[str, int | None],
    **passes: Any,
) -> tuple[dict[str, Float[Tensor, "layer head symbol origin place"]], Bool[Tensor, "layer place"]]:
    """Return cubes of a text whose blocks stand in these orders, by what is read of a block, and which places are seen.

    ``reads`` as in :func:`posym_profile.origin_cube`, by name; ``passes`` as :func:`posym_profile.scores.map_layers`
    takes them.
    """

    def measure(heads: LayerHeads) -> dict[str, Tensor]:
        seen = heads.find_seen_blocks(swaps)[:, None, None].expand(*heads.query.shape[:3], -1)
        return {"seen": seen, **{name: compute_block_logits(heads, swaps, read=read) for name, read in reads.items()}}

    texts = permute_blocks(text, orders, start=swaps.start, block_length=swaps.block_length)
    measured = map_layers(model, texts, measure, hold=NUMBERS_HELD, **passes)
    seen = measured.pop("seen")[0, :, 0].bool()
    return {name: arrange_cube(x, orders) for name, x in measured.items()}, seen


def split_cube(
    cube: Float[Tensor, "layer head symbol origin place"],
    orders: Int[Tensor, "order place"],
    seen: Bool[Tensor, "layer place"],
) -> dict[str, Float[Tensor, "layer head"]]:
    """Return the seven parts of the variance of cubes, and the variance between the texts' means as ``"prompts"``."""
    parts = split_variance(cube, seen[:, None], rounding=torch.finfo(torch.float32).eps)
    return {**parts, "prompts": measure_prompt_variance(cube, orders, seen[:, None])}


def tabulate_cubes(measured: Mapping[str, Float[Tensor, "prompt layer *rest"]]) -> Dataset:
    """Return a table of the parts of cubes, their shares, and the cubes where they are kept."""
    import xarray

    heads = ("prompt", "layer", "head")
    apart = {**measured, "symbol_origin": (measured["symbol_origin"] - measured["prompts"]).clamp_min(0)}
    symbolic = normalize_parts(apart, ("symbol", "origin", "symbol_origin"))
    numbers = {f"{name}_share": share for name, share in normalize_parts(measured).items()}
    numbers |= {f"symbolic_part_{name}": symbolic[name] for name in ("symbol", "origin")}
    numbers["prompt_variance"] = measured["prompts"]
    variables: dict[str, Any] = {name: (heads, x.numpy()) for name, x in numbers.items()}
    variables["variance"] = ((*heads, "part"), torch.stack([measured[name] for name in PARTS.values()], -1).numpy())
    variables["seen"] = (("prompt", "layer", "place"), measured["seen"].numpy())
    variables["orders"] = (("prompt", "order", "place"), measured["orders"].numpy())
    if "logits" in measured:
        variables["logits"] = ((*heads, *AXES), measured["logits"].numpy())
    return xarray.Dataset(variables, {"part": list(PARTS.values())})

"""Measure prompts of a profile a batch at a time, on one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from posym_core.metrics import BlockLayout, draw_latin_square, permute_blocks
from posym_profile.language_models._answers import choose_answers
from posym_profile.planes._rotary_planes import Planes
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, join_prompts
from posym_profile.scores._cubes import make_key_anova, measure_cube_logits
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import NUMBERS_HELD, TOKENS_A_BATCH, map_layers
from posym_profile.scores._profiling import Score, count_visible_blocks, score_layer
from posym_profile.scores._visibility import count_tokens_beyond

# However short prompts are, this many are measured in one pass.
PROMPTS_A_PASS = 16
# Of the Latin square of every prompt's orders, the default of origin_cube.
SQUARE_SEED = 0
# Of the symbolic part of a prompt: what goes with these.
OF_SYMBOLIC_PART = ("symbol", "origin")


def choose_pass_size(length: int, batch_size: int | None = None) -> int:
    """Choose the prompts of ``length`` tokens in a pass: ``batch_size``, or about 4,096 tokens and at most 16."""
    return batch_size or min(PROMPTS_A_PASS, max(1, TOKENS_A_BATCH // length))


def choose_batch_size(prompt: BlockedPrompt, settings: ProfileSettings) -> int:
    """Choose the prompts like this in a batch: those of a pass; with ``cube`` so many that all orders are a pass."""
    size = choose_pass_size(len(prompt.input_ids), settings.batch_size)
    return max(1, size // prompt.blocks) if settings.cube else size


def measure_batch(
    model: Any, prompts: Sequence[BlockedPrompt], settings: ProfileSettings, planes: Sequence[Planes]
) -> dict[str, Any]:
    """Measure prompts of one shape in one forward pass; with ``cube`` in further ones, with blocks in other orders.

    Returns:
        The arrays of :class:`ProfileRun` that are measured of every prompt.
    """
    arrays = _measure(model, prompts, settings, planes)
    return arrays | _measure_cubes(model, prompts, settings, planes) if settings.cube else arrays


def measure_in_passes(
    measure: Callable[[Sequence[Any]], dict[str, np.ndarray]], prompts: Sequence[Any], size: int
) -> dict[str, np.ndarray]:
    """Measure ``size`` prompts at a time."""
    parts = [measure(prompts[first : first + size]) for first in range(0, len(prompts), size)]
    return {name: parts[0][name] if name == "plane_angle" else np.concatenate([part[name] for part in parts])
            for name in parts[0]}  # fmt: skip


def _measure(
    model: Any, prompts: Sequence[BlockedPrompt], settings: ProfileSettings, planes: Sequence[Planes]
) -> dict[str, np.ndarray]:
    batch = join_prompts(prompts)
    length = batch.input_ids.shape[1]
    swaps = BlockLayout(**batch.layout, tau=settings.tau)

    def measure(heads: LayerHeads) -> dict[str, Tensor]:
        options: dict[str, Any] = {"visible_only": settings.visible_only}
        measured = score_layer(heads, swaps, **options)
        if settings.per_frequency:
            of_planes = score_layer(heads, swaps, per_frequency=True, **options)
            measured |= {f"plane_{name}": of_planes[name] for name in get_args(Score)}
        if settings.energy:
            energy = heads.frequency_shares().energy
            measured["plane_energy"] = energy / energy.sum(-1, keepdim=True)
        return measured

    once = {"progress": False, "batch_size": len(prompts), "planes": planes}
    measured = map_layers(model, batch.input_ids, measure, queries=settings.queries, **once)
    arrays = {name: x.float().numpy() for name, x in measured.items()}
    arrays["visible_blocks"] = count_visible_blocks(measured).numpy()
    arrays["tokens_beyond"] = np.array(count_tokens_beyond(model, [length] * len(prompts)), dtype=np.int64)
    if batch.answer_ids.shape[1]:
        choices = choose_answers(model, batch, batch_size=len(prompts))
        arrays |= {name: getattr(choices, name).numpy() for name in ("correct", "log_probability", "alternatives")}
    return arrays


def _measure_cubes(
    model: Any, prompts: Sequence[BlockedPrompt], settings: ProfileSettings, planes: Sequence[Planes]
) -> dict[str, np.ndarray]:
    """Measure the shares of each prompt's variance; the orders of all prompts share passes."""
    first = prompts[0]
    swaps = BlockLayout(**first.layout).fit(len(first.input_ids))
    orders = draw_latin_square(first.blocks, torch.Generator().manual_seed(SQUARE_SEED))
    rows = [
        replace(prompt, input_ids=tuple(reordered))
        for prompt in prompts
        for reordered in permute_blocks(
            torch.tensor(prompt.input_ids), orders, start=first.start, block_length=first.block_length
        ).tolist()
    ]

    def measure(batch: Sequence[BlockedPrompt]) -> dict[str, np.ndarray]:
        measured = map_layers(
            model,
            join_prompts(batch).input_ids,
            partial(measure_cube_logits, swaps=swaps),
            progress=False,
            batch_size=len(batch),
            planes=planes,
            hold=NUMBERS_HELD,
        )
        return {"logits": measured["logits"].numpy(), "seen": measured["seen"][:, :, 0].numpy()}

    size = choose_pass_size(len(first.input_ids), settings.batch_size)
    arrays = measure_in_passes(measure, rows, size)
    seen = torch.from_numpy(arrays["seen"][0]).bool()
    logits = torch.from_numpy(arrays["logits"]).unflatten(0, (len(prompts), len(orders)))
    of_prompts: list[dict[str, Tensor]] = []
    for of_prompt in logits:
        # A layer at a time, because cubes are large and made of several copies.
        layers = [
            make_key_anova(part[None], orders, see[None], rounding=torch.finfo(torch.float32).eps)
            for part, see in zip(of_prompt.unbind(1), seen, strict=True)
        ]
        shares = {f"cube_{name}": [layer.shares[name][0] for layer in layers] for name in layers[0].shares}
        for name in OF_SYMBOLIC_PART:
            shares[f"symbolic_part_{name}"] = [layer.symbolic_shares[name][0] for layer in layers]
        of_prompts.append({name: torch.stack(parts) for name, parts in shares.items()})
    return {name: torch.stack([x[name] for x in of_prompts]).float().numpy() for name in of_prompts[0]}

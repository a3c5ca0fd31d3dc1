"""Measure prompts of a profile a batch at a time, on one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from posym_core.metrics import BlockLayout, draw_latin_square, permute_blocks
from posym_core.store import choose_device, describe_device
from posym_profile.language_models._answers import choose_answers
from posym_profile.planes._rotary_planes import Planes, find_planes
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, join_prompts
from posym_profile.scores._cubes import make_key_anova, measure_cube_logits
from posym_profile.scores._head_tables import pack_labels, pack_windows
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import NUMBERS_HELD, TOKENS_A_BATCH, map_layers, stack_padded
from posym_profile.scores._profiling import Score, count_visible_blocks, find_windows, score_layer
from posym_profile.scores._visibility import count_tokens_beyond

# However short prompts are, this many are measured in one pass.
PROMPTS_A_PASS = 16
# Of the Latin square of every prompt's orders, the default of origin_cube.
SQUARE_SEED = 0
# Of the symbolic part of a prompt: what goes with these.
OF_SYMBOLIC_PART = ("symbol", "origin")


@dataclass
class Measured:
    """A model that is measured, and what is found of it once for all prompts."""

    model: Any
    planes: dict[int, list[Planes]] = field(default_factory=dict)

    @cached_property
    def labels(self) -> dict[str, np.ndarray]:
        """Labels of the heads."""
        return pack_labels(measure_head_labels(self.model))

    def find_planes(self, length: int) -> list[Planes]:
        """Return the planes for prompts of a length."""
        if length not in self.planes:
            self.planes[length] = list(find_planes(self.model, length))
        return self.planes[length]

    def describe_devices(self) -> str:
        """Return where the model's weights are, in words."""
        places = {parameter.device for parameter in self.model.parameters() if parameter.device.type != "meta"}
        return " and ".join(sorted(describe_device(place) for place in places or {choose_device("cpu")}))


def choose_pass_size(length: int, batch_size: int | None = None) -> int:
    """Choose the prompts of ``length`` tokens in a pass: ``batch_size``, or about 4,096 tokens and at most 16."""
    return batch_size or min(PROMPTS_A_PASS, max(1, TOKENS_A_BATCH // length))


def choose_batch_size(prompt: BlockedPrompt, settings: ProfileSettings) -> int:
    """Choose the prompts like this in a batch: those of a pass; with ``cube`` so many that all orders are a pass."""
    size = choose_pass_size(len(prompt.input_ids), settings.batch_size)
    return max(1, size // prompt.blocks) if settings.cube else size


def measure_batch(measured: Measured, prompts: Sequence[BlockedPrompt], settings: ProfileSettings) -> dict[str, Any]:
    """Measure prompts of one shape in one forward pass; with ``cube`` in further ones, with blocks in other orders.

    Returns:
        The arrays of :class:`ProfileRun` that are measured, but for angles: ``plane_angle/<length>`` is
        ``[layer, plane]``.
    """
    arrays = _measure(measured, prompts, settings)
    if settings.cube:
        arrays |= _measure_cubes(measured, prompts, settings)
    if settings.labels:
        arrays |= measured.labels
    layers = arrays["visible_blocks"].shape[-1]
    if (windows := find_windows(measured.model, layers)) is not None:
        arrays["window"] = pack_windows(windows)
    return arrays


def belongs_to_model(name: str) -> bool:
    """Return whether an array is the same for all prompts, or all of one length."""
    return name == "window" or name.startswith(("label_", "plane_angle"))


def measure_in_passes(
    measure: Callable[[Sequence[Any]], dict[str, np.ndarray]], prompts: Sequence[Any], size: int
) -> dict[str, np.ndarray]:
    """Measure ``size`` prompts at a time."""
    parts = [measure(prompts[first : first + size]) for first in range(0, len(prompts), size)]
    return {name: parts[0][name] if belongs_to_model(name) else np.concatenate([part[name] for part in parts])
            for name in parts[0]}  # fmt: skip


def _measure(found: Measured, prompts: Sequence[BlockedPrompt], settings: ProfileSettings) -> dict[str, np.ndarray]:
    batch = join_prompts(prompts)
    length = batch.input_ids.shape[1]
    swaps = BlockLayout(**batch.layout, tau=settings.tau)
    angles: dict[int, Tensor] = {}

    def measure(heads: LayerHeads) -> dict[str, Tensor]:
        angles[heads.layer] = heads.angles.cpu()
        options: dict[str, Any] = {"visible_only": settings.visible_only}
        measured = score_layer(heads, swaps, **options)
        if settings.per_frequency:
            planes = score_layer(heads, swaps, per_frequency=True, **options)
            measured |= {f"plane_{name}": planes[name] for name in get_args(Score)}
        if settings.energy:
            energy = heads.frequency_shares().energy
            measured["plane_energy"] = energy / energy.sum(-1, keepdim=True)
        return measured

    once = {"progress": False, "batch_size": len(prompts), "planes": found.find_planes(length)}
    measured = map_layers(found.model, batch.input_ids, measure, queries=settings.queries, **once)
    arrays = {name: x.float().numpy() for name, x in measured.items()}
    arrays["visible_blocks"] = count_visible_blocks(measured).numpy()
    arrays["tokens_beyond"] = np.array(count_tokens_beyond(found.model, [length] * len(prompts)), dtype=np.int64)
    if settings.per_frequency or settings.energy:
        arrays[f"plane_angle/{length}"] = stack_padded([angles[layer] for layer in sorted(angles)], dim=0).numpy()
    if batch.answer_ids.shape[1]:
        choices = choose_answers(found.model, batch, batch_size=len(prompts))
        arrays |= {name: getattr(choices, name).numpy() for name in ("correct", "log_probability", "alternatives")}
    return arrays


def _measure_cubes(
    found: Measured, prompts: Sequence[BlockedPrompt], settings: ProfileSettings
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
            found.model,
            join_prompts(batch).input_ids,
            partial(measure_cube_logits, swaps=swaps),
            progress=False,
            batch_size=len(batch),
            planes=found.find_planes(len(first.input_ids)),
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

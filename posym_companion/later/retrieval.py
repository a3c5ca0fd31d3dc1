"""Slow planes of the heads that carry an answer (Bayram, 2026): answers without them, and without others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.head_measurements import look
from posym_companion.later.later_subjects import LaterClaims, question_prompts
from posym_companion.solvers.prompt_roles import answer_pairs, patched_heads
from posym_profile.interventions import (
    Intervention,
    edit_rope,
    freeze_rotation,
    remove_planes,
    select_by_id,
    select_fastest,
    select_slowest,
)
from posym_profile.language_models import choose_answers
from posym_profile.planes import find_planes

# A head carries the answer if its output brings back this part of the difference between two prompts.
CARRIES = 0.1
SHARES = (0.125, 0.25, 0.5)
DIMS = {
    "restored": "layer head",
    "energy": "layer head plane",
    "conditions": "condition",
    "correct log_probability": "condition prompt",
}


def measure(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Answers to binding prompts without some planes of the heads that carry the answer, and of others.

    Returns:
        ``restored [layer, head]``, the part of the difference between two prompts' answers that a head brings back;
        ``energy [layer, head, plane]``, each plane's part of what all planes make the logits vary by, each on its own;
        ``conditions``, and under each ``correct`` and ``log_probability`` of the right attribute among those named,
        ``[condition, prompt]``.
    """
    prompts = question_prompts(source, setting, setting.seed)
    generator = torch.Generator().manual_seed(setting.seed)
    patched = patched_heads(model, answer_pairs(prompts, generator), setting.prompts // 2)
    whole = patched["clean_whole"].sum() - patched["other_whole"].sum()
    restored = (patched["answer_patched"] - patched["other_whole"][:, None, None]).sum(0) / whole
    planes = find_planes(model, prompts.input_ids.shape[1])
    energy = look(model, prompts, ["plane_energy_share"])["plane_energy_share"].nanmean(0)
    # Other prompts than those that tell which heads carry the answer.
    prompts = question_prompts(source, setting, setting.seed + 1)
    arrays: dict[str, list[np.ndarray]] = {"correct": [], "log_probability": []}
    planned = list_operations(restored, energy, setting.draws, generator)
    for interventions in planned.values():
        with edit_rope(model, *interventions, planes=planes):
            choices = choose_answers(model, prompts)
        for name, rows in arrays.items():
            rows.append(getattr(choices, name).float().numpy())
    return {
        "restored": restored.astype(np.float32),
        "energy": energy.float().numpy(),
        "conditions": np.array(list(planned)),
        **{name: np.stack(rows) for name, rows in arrays.items()},
    }


def list_operations(
    restored: np.ndarray, energy: Float[Tensor, "layer head plane"], draws: int, generator: torch.Generator
) -> dict[str, tuple[Intervention, ...]]:
    """What is done to the heads that carry the answer, and to as many others."""
    planes = energy.shape[-1]
    carriers = [(int(layer), int(head)) for layer, head in np.argwhere(restored > CARRIES)]
    rest = [(int(layer), int(head)) for layer, head in np.argwhere(restored <= CARRIES)]
    if not carriers:
        raise ValueError(f"no head restores more than {CARRIES} of the answer's difference; teach the model to bind")
    quarter = SHARES[1]
    planned = {"none": (), "all planes": (remove_planes(heads=carriers),)}
    planned |= {f"slowest {share:g}": (remove_planes(select_slowest(share), heads=carriers),) for share in SHARES}
    planned[f"fastest {quarter:g}"] = (remove_planes(select_fastest(quarter), heads=carriers),)
    planned[f"slowest {quarter:g} stopped"] = (freeze_rotation(select_slowest(quarter), heads=carriers),)
    for draw in range(draws):
        chosen = 1 + torch.randperm(planes, generator=generator)[: round(quarter * planes)]
        planned[f"random {quarter:g}, {draw}"] = (remove_planes(select_by_id(chosen.tolist()), heads=carriers),)
        others = [rest[i] for i in torch.randperm(len(rest), generator=generator)[: len(carriers)].tolist()]
        if others:
            planned[f"other heads, slowest {quarter:g}, {draw}"] = (
                remove_planes(select_slowest(quarter), heads=others),
            )
    for draw in range(draws):
        pairs = {head: equal_energy(energy[head], quarter, generator) for head in carriers}
        for place, speed in enumerate(("slow", "faster")):
            planned[f"{speed} planes of equal energy, {draw}"] = tuple(
                remove_planes(select_by_id(pair[place]), heads=[head]) for head, pair in pairs.items()
            )
    return planned


def equal_energy(
    energy: Float[Tensor, " plane"], share: float, generator: torch.Generator
) -> tuple[list[int], list[int]]:
    """Planes of the slowest ``share`` and planes of the rest, by frequency ID, that have as much of a head's energy.

    All planes of the side that has less, and of the other so many, in random order, as together have no more.
    """
    count = len(energy)
    sides = [list(range(count - round(share * count), count)), list(range(count - round(share * count)))]
    sums = [float(energy[side].sum()) for side in sides]
    larger = int(sums[1] > sums[0])
    chosen, left = [], min(sums)
    for at in torch.randperm(len(sides[larger]), generator=generator).tolist():
        plane = sides[larger][at]
        if float(energy[plane]) <= left:
            chosen.append(plane)
            left -= float(energy[plane])
    sides[larger] = chosen
    slow, faster = ([1 + plane for plane in sorted(side)] for side in sides)
    return slow, faster

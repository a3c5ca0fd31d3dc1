"""What is measured of the heads and planes of a model that is taught, under surgery or none, in half precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from posym_companion.head_measurements import BANDS, PARTS, average_defined, gather_bands, look
from posym_profile.interventions import EditedModel
from posym_profile.prompts import Prompts

__all__ = ["BANDS", "measure_head_scores", "measure_plane_scores"]

SCORES = ("positional", "symbolic", "entropy", "null_positional", "null_symbolic", "facts_attention", "asked_attention")
WHOLE = (*SCORES, "spread", *(f"{part}_share" for part in PARTS))
BY_PLANE = (*(f"{part}_share" for part in PARTS), "energy_share")


def measure_head_scores(operated: EditedModel, prompts: Prompts, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Return scores of every head at the last token of prompts.

    Args:
        operated: the model; see :func:`posym_profile.interventions.edit_rope`.
        prompts: with their blocks and the block asked about.
        seed: of the null model.

    Returns:
        ``[prompt, layer, head]``: :data:`WHOLE`, see :data:`posym_companion.head_measurements.MEASURED`, of the logits
        over the blocks' tokens. ``[layer, head, band]``, means over prompts in eight bands of planes, fast to slow:
        ``band_positional_share`` and so on, and ``band_energy_share``, the bands' part of the energy.
    """
    bands = {f"band_{name}": f"plane_{name}" for name in BY_PLANE}
    measured = look(operated, prompts, {name: name for name in WHOLE} | bands, seed=seed)
    arrays = {name: measured[name].numpy() for name in WHOLE}
    for name in bands:
        gather = np.nansum if name == "band_energy_share" else average_defined
        arrays[name] = gather_bands(measured[name].nanmean(0).numpy(), gather)
    return {name: x.astype(np.float16) for name, x in arrays.items()}


def measure_plane_scores(operated: EditedModel, prompts: Prompts, count: int) -> dict[str, np.ndarray]:
    """Return, of every plane, means over the first prompts: shares, part of the energy, softmax scores of its own."""
    wanted = [f"plane_{name}" for name in (*BY_PLANE, *PARTS[:2])]
    some = replace(prompts, input_ids=prompts.input_ids[:count])
    measured = look(operated, some, wanted, products=torch.float32)
    return {name: measured[name].nanmean(0).numpy().astype(np.float16) for name in wanted}

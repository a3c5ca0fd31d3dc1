"""Logits as position plus content (Han and Ji, 2025); massive queries and keys (Jin et al., 2025; Jonasson, 2025)."""

from __future__ import annotations

from typing import Any

import numpy as np

from posym_companion.head_measurements import PARTS, Measurement, block_tokens, look
from posym_companion.later.later_subjects import LaterClaims, context_prompts, plane_squares, visible_tokens

DIMS = {
    "*_share": "prompt layer head",
    "energy_part *_norm": "layer head plane",
    "angles": "layer plane",
    "sees": "layer",
}


def measure(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Variance shares of every head over a prompt, and the size of its queries and keys in every plane.

    Returns:
        The three shares of :func:`posym_core.exclusion`; ``query_norm`` (root mean square over prompts, of the last
        token), ``key_norm`` (over all tokens but the mark of beginning) and ``energy_part`` (the plane's part of the
        variance that all planes make on their own); ``sees``, see
        :func:`posym_companion.later.later_subjects.visible_tokens`.
    """
    prompts = context_prompts(source, setting)
    inside = block_tokens(prompts)
    shares = [f"{part}_share" for part in PARTS]
    norms: dict[str, Measurement] = {
        "query_norm": lambda at: plane_squares(at.heads.query),
        "key_norm": lambda at: plane_squares(at.heads.keys[..., inside, :]).mean(-2).expand_as(at.shares.energy),
    }
    measured = look(model, prompts, {name: name for name in shares} | norms | {"energy_part": "plane_energy_share"})
    return {
        **{name: measured[name].float().numpy() for name in shares},
        **{name: measured[name].mean(0).sqrt().float().numpy() for name in norms},
        "energy_part": measured["energy_part"].double().nanmean(0).float().numpy(),
        "angles": measured["angles"].numpy(),
        "sees": visible_tokens(model),
    }

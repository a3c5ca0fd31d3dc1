"""How scores of a model's heads go with the layer and with frequencies.

Layers that see a window and layers that see everything are compared among themselves, because many models give the
latter slower angles: a trend over both would be one of layer kinds.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64

from posym_core._checks import convert_array
from posym_core.metrics._contrasts import LayerContrast, contrast_layers
from posym_core.metrics._stats import DRAWS, average_prompts


def find_local_layers(angles: Float[np.ndarray, "layer plane"]) -> Int64[np.ndarray, " local"]:
    """Find the layers whose slowest plane is about as fast as any; a model's global layers have slower ones.

    Planes that do not rotate, angle 0, do not count; a layer without any that does is global.
    """
    x = convert_array(angles)
    slowest = np.where(x > 0, x, np.inf).min(1)
    return np.flatnonzero(np.isfinite(slowest) & (slowest >= 0.5 * slowest.max(where=np.isfinite(slowest), initial=0)))


def measure_layer_trend(
    scores: Float[np.ndarray, "prompt layer head"], layers: Int64[np.ndarray, " chosen"], *, draws: int = DRAWS
) -> LayerContrast:
    """Compare some layers of the early half of a model with those of the late half."""
    split = int((layers < scores.shape[1] // 2).sum())
    return contrast_layers(scores[:, layers], split=split, draws=draws)


def measure_behaviour_and_use(
    positional: Float[np.ndarray, "prompt layer head"],
    symbolic: Float[np.ndarray, "prompt layer head"],
    energy: Float[np.ndarray, "layer head plane"],
    angles: Float[np.ndarray, "layer plane"],
) -> tuple[Float[np.ndarray, "1 layer head"], Float[np.ndarray, "1 layer head"]]:
    """Return ``s_POS - s_SYM``, and the mean log angle weighted by the planes' energy.

    Args:
        positional: ``s_POS``.
        symbolic: ``s_SYM``.
        energy: planes without energy do not count, nor do unrotated ones.
        angles: radians per position.
    """
    turning = angles > 0
    log = np.log(np.where(turning, angles, 1))[:, None]
    weight = np.where(turning[:, None], np.nan_to_num(energy), 0)
    total = weight.sum(-1)
    use = np.where(total > 0, (weight * log).sum(-1) / np.where(total > 0, total, 1), np.nan)
    return average_prompts(np.asarray(positional) - symbolic), use[None]

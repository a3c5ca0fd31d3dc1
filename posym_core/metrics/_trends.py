"""What a model's heads have in common: how their scores go with each other, with the layer and with frequencies.

Layers that see a window and layers that see everything are compared among themselves, because many models give the
latter slower angles: a trend over both would be one of layer kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int64

from posym_core._checks import convert_array, convert_membership, require_counts
from posym_core.metrics._contrasts import LayerContrast, contrast_layers
from posym_core.metrics._stats import DRAWS, Estimate, average_prompts, correlate_heads, statistic_interval

# A plane is slow if it turns by less than this part of a circle from the first key to the last.
SLOW_TURN = 1 / 8


@dataclass(frozen=True, kw_only=True)
class HeadTrends:
    """A model's heads in seven numbers; None where one is not defined, as a trend over layers of a kind it lacks.

    Attributes:
        correlation: Pearson's r of ``s_POS`` and ``s_SYM`` over heads.
        positional_local: median ``s_POS`` of early minus that of late layers, of those with a window.
        symbolic_local: the same of ``s_SYM``.
        positional_global: as ``positional_local``, of layers that see everything.
        symbolic_global: the same of ``s_SYM``.
        frequency_law: rank correlation over heads of ``s_POS - s_SYM`` with the mean log angle, see
            :func:`measure_behaviour_and_use`; above 0 if positional heads use faster planes.
        slow_energy: mean over heads of the part of the logits' energy that is in slow planes.
    """

    correlation: Estimate | None
    positional_local: Estimate | None
    symbolic_local: Estimate | None
    positional_global: Estimate | None
    symbolic_global: Estimate | None
    frequency_law: Estimate | None
    slow_energy: Estimate | None


TRENDS = tuple(field.name for field in fields(HeadTrends))


def measure_head_trends(
    positional: Float[np.ndarray, "prompt layer head"],
    symbolic: Float[np.ndarray, "prompt layer head"],
    energy: Float[np.ndarray, "prompt layer head plane"],
    angles: Float[np.ndarray, "layer plane"],
    *,
    tokens: int,
    local: Bool[np.ndarray, " layer"],
    draws: int = DRAWS,
) -> HeadTrends:
    """Measure seven numbers about a model's heads, with 95 % intervals over prompts and layers.

    Args:
        positional: ``s_POS``.
        symbolic: ``s_SYM``.
        energy: of each plane, in any unit of its head's own; planes without energy do not count.
        angles: radians per position, 0 for unrotated planes.
        tokens: of a prompt; decides which planes are slow.
        local: which layers see a window only.
        draws: of the bootstrap.
    """
    require_counts(tokens=(tokens, 1), draws=(draws, 1))
    local = convert_membership("local", local)
    positional, symbolic, energy, angles = map(convert_array, (positional, symbolic, energy, angles))
    if not len(local) == len(angles) == positional.shape[1]:
        raise ValueError(
            f"local and angles must have an entry for each of the {positional.shape[1]} layers; got {local.shape} and "
            f"{angles.shape}"
        )
    mean = _mean_of_prompts(energy)
    scores = {"positional": positional, "symbolic": symbolic}
    trends = {
        f"{name}_{kind}": _defined(lambda x=x, chosen=chosen: measure_layer_trend(x, chosen, draws=draws).difference)
        for kind, chosen in (("local", np.flatnonzero(local)), ("global", np.flatnonzero(~local)))
        for name, x in scores.items()
    }
    slow = slow_energy(mean, angles, tokens)
    return HeadTrends(
        correlation=_defined(lambda: correlate_heads(positional, symbolic, draws=draws)),
        frequency_law=_defined(
            lambda: correlate_heads(
                *measure_behaviour_and_use(positional, symbolic, mean, angles), draws=draws, by_rank=True
            )
        ),
        slow_energy=_defined(lambda: _mean_of_heads(slow, draws)),
        **trends,
    )


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


def slow_energy(
    energy: Float[np.ndarray, "layer head plane"], angles: Float[np.ndarray, "layer plane"], tokens: int
) -> Float[np.ndarray, "layer head"]:
    """Return each head's part of energy in planes that turn by less than an eighth of a circle over the prompt.

    NaN for a head without energy. Unrotated planes are slow.
    """
    weight = np.nan_to_num(energy)
    slow = np.nan_to_num(angles) * tokens < SLOW_TURN * 2 * np.pi
    total = weight.sum(-1)
    return np.where(total > 0, (weight * slow[:, None]).sum(-1) / np.where(total > 0, total, 1), np.nan)


def _mean_of_heads(values: Float[np.ndarray, "layer head"], draws: int) -> Estimate:
    if not np.isfinite(values).any():
        raise ValueError("a mean over heads needs one with energy; none has any")
    return statistic_interval(lambda x: np.nanmean(x, axis=(1, 2, 3)), values[None], draws=draws, vectorized=True)


def _mean_of_prompts(energy: Float[np.ndarray, "prompt layer head plane"]) -> Float[np.ndarray, "layer head plane"]:
    total = np.nansum(energy, -1, keepdims=True)
    return np.nan_to_num(energy / np.where(total > 0, total, 1)).mean(0)


def _defined(estimate) -> Estimate | None:
    try:
        return estimate()
    except ValueError:
        return None

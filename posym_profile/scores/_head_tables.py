"""Make tables of one row a head: means over prompts with their intervals, and what else is known of a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float, Num

from posym_core.metrics import AXES, DRAWS, PARTS, Resample, average_prompts
from posym_profile.scores._labels import HeadLabels

# Column -> array of a profile with a cube; those before the second group have intervals.
MAIN_SHARES = {f"{name}_share": f"cube_{name}" for name in AXES}
SHARES = {
    **MAIN_SHARES,
    **{f"{name}_share": f"cube_{name}" for name in PARTS.values() if name not in AXES},
    "symbolic_part_symbol": "symbolic_part_symbol",
    "symbolic_part_origin": "symbolic_part_origin",
}


@dataclass(frozen=True, kw_only=True)
class HeadMeans:
    """A score's mean over prompts with its bootstrap interval, per head; NaN where no prompt has a value."""

    value: Float[np.ndarray, "layer head"]
    low: Float[np.ndarray, "layer head"]
    high: Float[np.ndarray, "layer head"]


def average_heads(scores: Float[np.ndarray, "prompt layer head"], *, draws: int = DRAWS, seed: int = 0) -> HeadMeans:
    """Average every head over the prompts on which it has a score, resampling prompts.

    One prompt has no interval: its ends are NaN.
    """
    low, high = np.full((2, *scores.shape[1:]), np.nan)
    if len(scores) > 1:
        sample = Resample([len(scores)], over="prompts", draws=draws, seed=seed)
        low, high = sample.ends(average_prompts(scores, sample.times()))
    return HeadMeans(value=average_prompts(scores)[0], low=low, high=high)


def make_head_rows(arrays: Mapping[str, np.ndarray]) -> list[dict[str, float]]:
    """Make one row a head of the arrays of a profile, see :class:`posym_profile.report.ProfileRun`.

    Of several queries there is one row a query and head. Heads that a layer does not have are left out.
    """
    if "queries" in arrays:
        queries = arrays["queries"].tolist()
        parts = [make_head_rows(select_query(arrays, place)) for place in range(len(queries))]
        return [{"query": query, **row} for query, part in zip(queries, parts, strict=True) for row in part]
    scores = {name: average_heads(arrays[name]) for name in ("positional", "symbolic")}
    entropy, hidden = average_heads(arrays["entropy"]), count_hidden_blocks(arrays)
    shares, labels = average_shares(arrays), list_labels(arrays)
    rows = []
    for layer, head in np.ndindex(*entropy.value.shape):
        if not np.isfinite(arrays["entropy"][:, layer, head]).any():
            continue
        rows.append(
            {
                "layer": layer,
                "head": head,
                **_make_cells(scores, layer, head),
                "entropy": entropy.value[layer, head],
                "prompts": int(np.isfinite(arrays["positional"][:, layer, head]).sum()),
                "hidden_blocks": hidden[layer],
                **({"window": float(arrays["window"][layer])} if "window" in arrays else {}),
                **{name: float(arrays[f"label_{name}"][layer, head]) for name in labels},
                **_make_cells(shares, layer, head),
            }
        )
    return rows


def select_query(arrays: Mapping[str, np.ndarray], place: int) -> dict[str, np.ndarray]:
    """Select a profile's arrays of one of several queries, by its place among them."""
    scores = ("positional", "symbolic", "entropy")
    with_queries = {"visible_blocks", *scores, *(f"plane_{name}" for name in scores)}
    return {name: x[:, place] if name in with_queries else x for name, x in arrays.items() if name != "queries"}


def pack_labels(labels: HeadLabels) -> dict[str, np.ndarray]:
    """Pack labels as a profile's arrays hold them."""
    return {f"label_{name}": x.numpy() for name, x in vars(labels).items()}


def pack_windows(windows: Sequence[int | None]) -> Float[np.ndarray, " layer"]:
    """Pack the tokens that each layer sees as a profile's arrays hold them: NaN for all."""
    return np.array([np.nan if window is None else window for window in windows])


def list_labels(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """List the labels that a profile's arrays hold, see :class:`posym_profile.scores.HeadLabels`."""
    return [field.name for field in fields(HeadLabels) if f"label_{field.name}" in arrays]


def average_shares(arrays: Mapping[str, np.ndarray]) -> dict[str, HeadMeans]:
    """Average over prompts what a cube's parts have of the variance, by column; none without a cube."""
    if "cube_symbol" not in arrays:
        return {}
    return {column: average_heads(arrays[name]) for column, name in SHARES.items()}


def _make_cells(columns: Mapping[str, HeadMeans], layer: int, head: int) -> dict[str, float]:
    """Return a head's means by column, with the intervals of those that have them in tables."""
    cells: dict[str, float] = {}
    for column, means in columns.items():
        cells[column] = means.value[layer, head]
        if column in MAIN_SHARES or column not in SHARES:
            cells |= {f"{column}_low": means.low[layer, head], f"{column}_high": means.high[layer, head]}
    return cells


def count_hidden_blocks(arrays: Mapping[str, np.ndarray]) -> Num[np.ndarray, " layer"]:
    """Count the blocks of a prompt that each layer's queries do not see whole, at most; NaN if not counted."""
    if "visible_blocks" not in arrays:
        return np.full(arrays["entropy"].shape[-2], np.nan)
    visible = arrays["visible_blocks"]
    return (arrays["blocks"].reshape(-1, *(visible.ndim - 1) * (1,)) - visible).reshape(-1, visible.shape[-1]).max(0)

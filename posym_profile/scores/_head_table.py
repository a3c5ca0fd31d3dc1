"""One table of all that is measured of heads, and what is read off it: heads by rank, means with their intervals.

The table is an :class:`xarray.Dataset`. Its dimensions have names, so that nobody counts axes: ``prompt``, ``layer``
and ``head``, ``query`` where several tokens were asked for, ``plane`` of what is measured of rotation planes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from posym_core._checks import require_count
from posym_core.metrics import AXES, DRAWS, PARTS, Resample, average_prompts

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import DataArray, Dataset

SCORES = ("positional", "symbolic", "entropy")
LABELS = ("previous_token", "first_token", "induction", "copying")
# Shares of a cube: these have intervals in tables, and the others do not.
MAIN_SHARES = tuple(f"{name}_share" for name in AXES)
SHARES = (
    *MAIN_SHARES,
    *(f"{name}_share" for name in PARTS.values() if name not in AXES),
    *("symbolic_part_symbol", "symbolic_part_origin"),
)
# Attention is flat where its entropy is above this part of the largest.
FLAT = 0.95


def make_dataset(measured: Mapping[str, Tensor], queries: Sequence[int]) -> Dataset:
    """Return a table of measurements ``[prompt, *query, layer, head, *plane]``; each head tells those of its layer."""
    import xarray

    several = ("query",) if len(queries) > 1 else ()
    dims = ("prompt", *several, "layer", "head", "plane")
    variables = {name: (dims[: x.ndim], x.numpy()) for name, x in measured.items()}
    if "visible_blocks" in measured:
        variables["visible_blocks"] = (dims[: 2 + len(several)], measured["visible_blocks"][..., 0].long().numpy())
    if "plane_angle" in measured:
        angles = measured["plane_angle"][:, 0] if several else measured["plane_angle"]
        variables["plane_angle"] = (("prompt", "layer", "plane"), angles[:, :, 0].numpy())
    return xarray.Dataset(variables, {"query": list(queries) if several else queries[0]})


def top_heads(
    scores: Dataset, n: int, by: str = "difference", *, lowest: bool = False, flat: bool = False
) -> list[tuple[int, int]]:
    """Return the ``n`` heads of the highest score, mean over prompts, as ``(layer, head)``, the highest first.

    :func:`posym_profile.ablate_heads` takes heads as they are named here. Layers are numbered in the order in which the
    model attends; those without attention do not count.

    Args:
        scores: what :func:`posym_profile.profile` returns.
        n: how many heads.
        by: what is measured of heads, such as ``"positional"``, ``"symbolic"`` or ``"entropy"``; by default the
            symbolic score minus the positional one.
        lowest: return the lowest instead, the lowest first.
        flat: whether heads count whose attention is flat (mean entropy above 0.95), whose scores are both high.

    >>> top_heads(scores, 5, by="symbolic")  # doctest: +SKIP
    """
    of_heads = ["difference", *(str(name) for name, x in scores.data_vars.items() if {"layer", "head"} <= {*x.dims})]
    if by not in of_heads:
        raise ValueError(f"by must be one of {', '.join(of_heads)}; got {by!r}")
    require_count("n", n, 1)
    values = scores.symbolic - scores.positional if by == "difference" else scores[by]
    entropy = scores.entropy
    if several := sorted({*values.dims, *entropy.dims} - {"prompt", "layer", "head"}):
        raise ValueError(
            f"heads are ranked by one number each, and these have several ({', '.join(several)}); select one, as "
            f"top_heads(scores.sel({several[0]}={scores[several[0]].values[-1]}), ...)"
        )
    means, evenness = (x.mean("prompt") if "prompt" in x.dims else x for x in (values, entropy))
    counted = means.notnull() if flat else means.notnull() & (evenness <= FLAT)
    heads = int(counted.sum())
    if n > heads:
        left_out = "" if flat else ", without those of flat attention (flat=True counts them)"
        raise ValueError(f"n must be at most the number of heads, {heads}{left_out}; got {n}")
    order = (means if lowest else -means).where(counted, np.inf).transpose("layer", "head").values
    best = order.ravel().argsort(kind="stable")[:n]
    return [divmod(place, order.shape[1]) for place in best.tolist()]


def tabulate_heads(scores: Dataset) -> DataFrame:
    """Return a row for each head: means over prompts with 95% bootstrap intervals.

    The columns of ``heads.csv``, which ``posym profile`` writes. Heads that a layer does not have are left out. Of
    several queries choose one.
    """
    import xarray

    if "query" in scores.dims:
        raise ValueError("scores are of several queries; choose one, as tabulate_heads(scores.sel(query=-1))")
    columns: dict[str, DataArray] = {}
    for name in ("positional", "symbolic"):
        columns |= average_heads(scores[name], intervals=True)
    columns |= average_heads(scores.entropy)
    columns["prompts"] = scores.positional.notnull().sum("prompt")
    hidden = scores.blocks - scores.visible_blocks
    columns["hidden_blocks"] = hidden.max([dim for dim in hidden.dims if dim != "layer"])
    columns |= {name: scores[name] for name in LABELS if name in scores}
    for name in SHARES:
        if name in scores:
            columns |= average_heads(scores[name], intervals=name in MAIN_SHARES)
    plain = {name: x.drop_vars(["query", "prompt"], errors="ignore") for name, x in columns.items()}
    table = xarray.Dataset(plain).to_dataframe(dim_order=["layer", "head"]).reset_index()
    return table.loc[table.entropy.notnull()].reset_index(drop=True)


def average_heads(
    score: DataArray, *, intervals: bool = False, draws: int = DRAWS, seed: int = 0
) -> dict[str, DataArray]:
    """Average over the prompts on which a head has a score; with the ends of bootstrap intervals over prompts.

    One prompt has no interval: its ends are NaN.
    """
    name, of_prompts = str(score.name), score.transpose("prompt", ...)
    values = of_prompts.values.astype(np.float64)
    means = {name: average_prompts(values)[0]}
    if intervals:
        means |= {f"{name}_low": np.full(values.shape[1:], np.nan), f"{name}_high": np.full(values.shape[1:], np.nan)}
        if len(values) > 1:
            sample = Resample([len(values)], over="prompts", draws=draws, seed=seed)
            means[f"{name}_low"], means[f"{name}_high"] = sample.ends(average_prompts(values, sample.times()))
    return {name: of_prompts[0].copy(data=x) for name, x in means.items()}

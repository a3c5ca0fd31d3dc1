"""Is the symbolic part of what heads follow on lists symbol or origin? Judge of C-1, this project's own.

The symbolic part of a prompt is the variance of its cross-logit matrix's row means. Over a Latin square of prompts it
is symbol, origin and their interaction, see ``cube_parts``; here each is a share of it, head by
head. A head's share is the mean over prompts, a model's the median over heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.origins import (
    ATTRIBUTE,
    BEHIND,
    DRAWS,
    FACTS,
    NAME,
    PROSE,
    WORDINGS,
    Origins,
    full_size,
)
from posym_companion.results import Result, load_result
from posym_core.metrics import Estimate, statistic_interval
from posym_profile.language_models import PACKAGED

Part = Literal["symbol", "origin", "symbol_origin"]
SHOWN_IN = "book/language_model/what_moves.ipynb"
RESAMPLES = 2000
# A symbolic part that is less than this part of a head's whole variance is rounding.
ROUNDING = 1e-9
# Of the attention, what makes a head one that attends to the blocks.
ATTENDS = 0.1
BLOCK = "block"
TOKENS = {f"offset {NAME}": "the name's token", f"offset {ATTRIBUTE}": "the attribute's token"}
# What a claim about whole lists of one frame leaves out: what is read, and of which other lists.
HARDER: Mapping[str, tuple[str, dict[str, Any]]] = {
    "without the first four facts": (f"{BLOCK}, behind {BEHIND}", {}),
    "a verb for each fact": (BLOCK, {"vary_frame": True}),
    "no mark of beginning": (BLOCK, {"beginning": False}),
}


def origins_result(folder: Path | None, **kind: Any) -> Result:
    """Return a stored result, by what differs from 16 facts that like, see :class:`Origins`."""
    return load_result(Origins(**kind).name, folder=folder)


def part_share(result: Result, part: Part, read: str = BLOCK) -> np.ndarray:
    """Return one part's share of the symbolic part, ``[prompt, layer, head]``; NaN where that is rounding."""
    place = result["reads"].tolist().index(read)
    sizes = dict(zip(result["variances"].tolist(), result["parts"][place].astype(float), strict=True))
    whole = sum(x for name, x in sizes.items() if name != "prompts")
    both = np.maximum(sizes["symbol_origin"] - sizes["prompts"], 0)
    symbolic = sizes["symbol"] + sizes["origin"] + both
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (both if part == "symbol_origin" else sizes[part]) / symbolic
        return np.where(symbolic > ROUNDING * whole, share, np.nan)


def over_heads(x: np.ndarray) -> Estimate:
    """Return the median over heads of ``[prompt, layer, head]``, with its interval over prompts and layers."""
    return statistic_interval(heads_median, x, draws=RESAMPLES, vectorized=True)


def heads_median(x: np.ndarray) -> np.ndarray:
    """``[draw, prompt, layer, head, ...]``: median over heads of means over prompts, of what is defined."""
    defined = ~np.isnan(x)
    with np.errstate(invalid="ignore"):
        mean = np.where(defined, x, 0).sum(1) / defined.sum(1)
    heads = np.moveaxis(mean.reshape(len(mean), -1, *mean.shape[3:]), 1, -1)
    median = np.full(heads.shape[:-1], np.nan)
    some = ~np.isnan(heads).all(-1)  # NumPy warns of the others
    median[some] = np.nanmedian(heads[some], axis=-1)
    return median


def by_thirds(x: np.ndarray) -> list[float]:
    """Return the same over the heads of each third of the layers."""
    return [float(heads_median(part[None])[0]) for part in np.array_split(x, 3, axis=1)]


@judge(
    SHOWN_IN,
    model=PACKAGED,
    measured_on="{model}",
    note=f"{FACTS} facts or blocks. Medians over heads, intervals over prompts and layers. The tokens of the frame are "
    "the same in every fact and can differ in nothing but origin, so that the block's number is partly theirs.",
)
def symbolic_part_is_origin(look: Look) -> Iterator[Yielded]:
    """C-1: origin's share of the symbolic part on lists and in prose, whole blocks and single tokens."""
    measured = {setting.name for setting in full_size(look.model)}
    lists = {wording: look.load(Origins(model=look.model, wording=wording)) for wording in WORDINGS}
    for wording, result in lists.items():
        origin = part_share(result, "origin")
        yield "origin's share", wording, over_heads(origin)
        yield "origin's share less symbol's", wording, over_heads(origin - part_share(result, "symbol"))
        for read, token in TOKENS.items():
            yield f"origin's share at {token}", wording, over_heads(part_share(result, "origin", read))
        for what, (read, kind) in HARDER.items():
            setting = Origins(model=look.model, wording=wording, **kind)
            if setting.name in measured and read in (other := look.load(setting))["reads"]:
                share = over_heads(part_share(other, "origin", read))
                yield "origin's share on harder lists", f"{wording}, {what}", share
    prose = look.load(Origins(model=look.model, wording=PROSE))
    yield "origin's share in prose", "", over_heads(part_share(prose, "origin"))
    born = [_at_birth(look.load(Origins(model=look.model, draw=draw))) for draw in DRAWS]
    trained = over_heads(part_share(lists[WORDINGS[0]], "origin"))
    most = float(np.max(born))  # NaN if one is
    learned = Estimate(
        value=trained.value - most, low=trained.low - most, high=trained.high - most, method=trained.method
    )
    yield f"origin's share on lists ({WORDINGS[0]}) above the most of random weights", "", learned


def _at_birth(result: Result) -> float:
    """Return origin's share, NaN where nothing varies."""
    return float(heads_median(part_share(result, "origin")[None])[0])

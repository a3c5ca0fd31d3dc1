"""Is the symbolic part of what heads follow on lists symbol or origin? Judges of C-1 and C-2, this project's own.

The symbolic part of a prompt is the variance of its cross-logit matrix's row means. Over a Latin square of prompts it
is symbol, origin and their interaction, see ``cube_parts``; here each is a share of it, head by
head. A head's share is the mean over prompts, a model's the median over heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.origins import (
    ATTRIBUTE,
    BEHIND,
    BLOCK_LENGTH,
    DRAWS,
    FACTS,
    LEAD,
    LEADS,
    LONG,
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
CAUSES: tuple[Part, ...] = ("origin", "symbol")
SHOWN_IN = "book/language_model/what_moves.ipynb"
RESAMPLES = 2000
# A symbolic part that is less than this part of a head's whole variance is rounding.
ROUNDING = 1e-9
# Of the attention, what makes a head one that attends to the blocks.
ATTENDS = 0.1
BLOCK = "block"
TOKENS = {f"offset {NAME}": "the name's token", f"offset {ATTRIBUTE}": "the attribute's token"}
# What else may stand in front, by what it is called: as many tokens, or more.
OTHERS: Mapping[str, dict[str, Any]] = {
    "as many tokens of prose": {"front": "prose", "lead": LEAD},
    f"{BLOCK_LENGTH * LONG} tokens of prose": {"front": "prose", "lead": LONG},
    "as many facts of another frame": {"front": "other", "lead": LEAD},
    # The lead's own tokens without its sentences.
    "the same tokens in random order": {"front": "shuffled", "lead": LEAD},
}
# What a claim about whole lists of one frame leaves out: what is read, and of which other lists.
HARDER: Mapping[str, tuple[str, dict[str, Any]]] = {
    "without the first four facts": (f"{BLOCK}, behind {BEHIND[-1]}", {}),
    "a verb for each fact": (BLOCK, {"vary_frame": True}),
    "no mark of beginning": (BLOCK, {"beginning": False}),
}
AT_TOKENS = " at the tokens that differ"
GROWS = "what the logarithm of the number of facts before explains more than the mark of the first fact"


def origins_result(folder: Path | None, **kind: Any) -> Result:
    """Return a stored result, by what differs from 16 facts that like, see :class:`Origins`.

    Raises:
        MissingResultError: if it is not there.
    """
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
    born = {draw: _at_birth(look.load(Origins(model=look.model, draw=draw))) for draw in DRAWS}
    for draw, share in born.items():
        yield "origin's share with random weights", f"{WORDINGS[0]}, draw {draw}", share
    trained = over_heads(part_share(lists[WORDINGS[0]], "origin"))
    most = float(np.max(list(born.values())))  # NaN if one is
    learned = Estimate(
        value=trained.value - most, low=trained.low - most, high=trained.high - most, method=trained.method
    )
    yield f"origin's share on lists ({WORDINGS[0]}) above the most of random weights", "", learned


def _at_birth(result: Result) -> float:
    """Return origin's share, NaN where nothing varies."""
    return float(heads_median(part_share(result, "origin")[None])[0])


@judge(
    SHOWN_IN,
    model=PACKAGED,
    measured_on="{model}",
    note=f"{FACTS} facts behind what stands in front, the same facts whatever a lead is; all heads. The curve along "
    "the list is that without anything in front; what explains it has a squared correlation with it.",
)
def origin_remembers(look: Look) -> Iterator[Yielded]:
    """C-2: origin's share behind facts of the same frame, beside their tokens alone and as much of something else."""
    shuffled = []
    for wording in WORDINGS:
        leads = {lead: look.load(Origins(model=look.model, wording=wording, lead=lead)) for lead in LEADS}
        plain, behind = leads[0], leads[LEAD]
        yield f"origin's share behind {LEAD} facts", wording, over_heads(part_share(behind, "origin"))
        for (one, before), (other, after) in pairwise(leads.items()):
            yield "origin's share lowered", f"{wording}, {one} to {other} facts", measure_drop(before, after)
        others = {what: look.load(Origins(model=look.model, wording=wording, **kind)) for what, kind in OTHERS.items()}
        for read, token in {BLOCK: "", **TOKENS}.items():
            at, where = (AT_TOKENS, f"{wording}, {token}") if token else ("", wording)
            lowered = measure_drop(plain, behind, read)
            yield f"origin's share lowered by {LEAD} facts{at}", where, lowered
            for what, result in others.items():
                part = effect_part(plain, behind, result, read) if lowered.low > 0 else "the lead has none"
                yield f"part of the lead's effect that {what} have{at}", where, part
                if read == BLOCK and what == [*OTHERS][-1]:
                    shuffled.append(part.value if isinstance(part, Estimate) else np.nan)
        for part in CAUSES:
            yield f"{part}'s variance behind {LEAD} facts, part of that without", wording, _rest(plain, behind, part)
        yield GROWS, wording, measure_growth(plain)
    yield f"part of the lead's effect that {[*OTHERS][-1]} have, mean over wordings", "", float(np.mean(shuffled))


def measure_growth(result: Result) -> Estimate:
    """Return how much more of the curve along the origins the logarithm of the facts before explains than a mark.

    Median over heads of a difference of two parts of the variance of the mean logit along the origins: what the
    logarithm explains, less what a mark of the first fact does. Heads whose curve is rounding do not count.
    """
    curve = result["by_origin"][result["curves"].tolist().index(BLOCK)].astype(float)
    sizes = result["parts"][result["reads"].tolist().index(BLOCK)].astype(float).mean(1)
    whole = sizes[[name != "prompts" for name in result["variances"].tolist()]].sum(0)
    varies = curve.var(-1) > ROUNDING * whole
    count = np.arange(curve.shape[-1])
    curve = curve - curve.mean(-1, keepdims=True)
    explained = []
    for x in (np.log1p(count), (count == 0).astype(float)):
        x = x - x.mean()
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = (curve @ x) ** 2 / ((curve**2).sum(-1) * (x**2).sum())
        explained.append(np.where(varies, r2, np.nan)[None])
    return over_heads(explained[0] - explained[1])


def measure_drop(before: Result, after: Result, read: str = BLOCK) -> Estimate:
    """By how much origin's share is lower, median over heads less median over heads; the prompts are the same."""
    pair = np.stack([part_share(result, "origin", read) for result in (before, after)], -1)
    return statistic_interval(
        lambda x: -np.diff(heads_median(x), axis=-1)[:, 0], pair, draws=RESAMPLES, vectorized=True
    )


def effect_part(plain: Result, behind: Result, other: Result, read: str = BLOCK) -> Estimate:
    """What something else in front changes, as a part of what facts of the same frame change."""
    three = np.stack([part_share(result, "origin", read) for result in (plain, behind, other)], -1)

    def part(x: np.ndarray) -> np.ndarray:
        nothing, facts, else_ = np.moveaxis(heads_median(x), -1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (nothing - else_) / (nothing - facts)

    return statistic_interval(part, three, draws=RESAMPLES, vectorized=True)


def _rest(plain: Result, behind: Result, part: Part) -> Estimate:
    """Return the median over heads of a part's variance behind a lead, over that without; logarithms are averaged."""
    row = plain["variances"].tolist().index(part)
    before, after = (one["parts"][one["reads"].tolist().index(BLOCK), row] for one in (plain, behind))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(after.astype(float) / before)
    median = over_heads(np.where(np.isfinite(ratio), ratio, np.nan))
    value, low, high = (float(np.exp(x)) for x in (median.value, median.low, median.high))
    return Estimate(value=value, low=low, high=high, method=median.method)
